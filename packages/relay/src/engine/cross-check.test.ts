import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { agree } from "./cross-check.ts";

test("equal JSON agrees, whatever the order of keys and the case of hex", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const copy = JSON.parse(JSON.stringify(value)) as unknown;
      assert.ok(agree(value, copy));
      assert.ok(agree({ a: value, b: 1 }, { b: 1, a: copy }));
    }),
  );
  assert.ok(agree("0xABcd", "0xabCD"));
  assert.ok(!agree("ABcd", "abCD"));
});

test("nodes may leave fields out, but what both state has to be equal", () => {
  assert.ok(agree({ hash: "0x1", size: "0x2" }, { hash: "0x1" }));
  assert.ok(!agree({ hash: "0x1", size: "0x2" }, { hash: "0x1", size: "0x3" }));
  assert.ok(!agree({ hash: "0x1" }, { size: "0x2" }));
  assert.ok(!agree({ hash: "0x1" }, {}));
  assert.ok(agree({}, {}));
});

test("lists agree by length and place; null is nothing else", () => {
  assert.ok(!agree([1, 2], [1]));
  assert.ok(!agree([1, 2], [2, 1]));
  assert.ok(!agree(null, "0x0"));
  assert.ok(!agree(null, {}));
  assert.ok(agree(null, null));
});
