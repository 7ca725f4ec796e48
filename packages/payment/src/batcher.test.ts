import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Batcher } from "./batcher.ts";

/** A batcher whose batches end when the test says so. */
function rig(maxBatch: number, maxRunning: number) {
  const batches: (readonly number[])[] = [];
  const ends: (() => void)[] = [];
  const batcher = new Batcher<number>({ maxBatch, maxRunning }, (batch) => {
    batches.push(batch);
    return new Promise((resolve) => void ends.push(resolve));
  });
  return { batcher, batches, end: (at: number) => ends[at]?.() };
}

test("what comes in one turn shares a batch, and no item is in two", async () => {
  const { batcher, batches } = rig(3, 2);
  for (const item of [1, 2, 3, 4, 5, 6, 7]) batcher.add(item);
  assert.deepEqual(batches, [], "the turn is not over");
  assert.equal(batcher.waiting, 7);
  await nextTurn();
  const both = [
    [1, 2, 3],
    [4, 5, 6],
  ];
  assert.deepEqual(batches, both, "two run at once");
  assert.equal(batcher.waiting, 1);
});

test("what comes while as many batches run as may waits for one to end, and then shares one", async () => {
  const { batcher, batches, end } = rig(3, 1);
  batcher.add(1);
  await nextTurn();
  for (const item of [2, 3, 4, 5]) batcher.add(item);
  await nextTurn();
  assert.deepEqual(batches, [[1]]);
  assert.equal(batcher.waiting, 4);
  for (const at of [0, 1]) {
    end(at);
    await nextTurn();
    await nextTurn();
  }
  assert.deepEqual(batches, [[1], [2, 3, 4], [5]]);
});
