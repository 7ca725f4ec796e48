import assert from "node:assert/strict";
import { test } from "node:test";
import { keyOf } from "./call-key.ts";
import { Doorkeeper } from "./service-cache.ts";

test("a key is known the second time; others are not, but for a few", () => {
  const doorkeeper = new Doorkeeper(65_536);
  assert.equal(doorkeeper.wasSeen(keyOf("a")), false);
  assert.equal(doorkeeper.wasSeen(keyOf("a")), true);
  let wrong = 0;
  for (let at = 0; at < 10_000; at++)
    if (doorkeeper.wasSeen(keyOf(`{"params":["0x${at.toString(16)}","latest"]}`))) wrong++;
  assert.ok(wrong < 10, `${wrong} keys were taken for others`);
});

test("every key is known at once, whatever its hash", () => {
  const doorkeeper = new Doorkeeper(4_096);
  for (let at = 0; at < 1_000; at++) {
    doorkeeper.wasSeen(keyOf(`key ${at}`));
    assert.equal(doorkeeper.wasSeen(keyOf(`key ${at}`)), true, String(at));
  }
});
