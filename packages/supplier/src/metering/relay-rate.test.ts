import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { RelayRate } from "./relay-rate.ts";

test("a rate of relays gives a second's worth at once, then as many as time brings", () => {
  const clock = virtualClock();
  const rate = new RelayRate(10, clock);
  const acquire = (count: number): number => Array.from({ length: count }, () => rate.acquire()).filter(Boolean).length;
  assert.equal(acquire(20), 10);
  clock.advance(99);
  assert.equal(acquire(1), 0);
  clock.advance(1);
  assert.equal(acquire(2), 1);
  clock.advance(3_600_000);
  assert.equal(acquire(20), 10);
});
