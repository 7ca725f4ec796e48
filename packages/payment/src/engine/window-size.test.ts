import assert from "node:assert/strict";
import { test } from "node:test";
import { WindowSize } from "./window-size.ts";

/** Sizes that were asked for, of a node that answers for at most so many blocks. */
function asked(size: WindowSize, most: number, times: number): number[] {
  return Array.from({ length: times }, () => {
    const blocks = size.current();
    if (blocks > most) size.failed(blocks);
    else size.answered(blocks);
    return blocks;
  });
}

test("the largest size that a node answers is found, and a larger one is tried once in fifty answers", () => {
  const size = new WindowSize(1_000);
  const first = asked(size, 10, 20);
  assert.deepEqual(first.slice(0, 12), [1_000, 500, 250, 125, 62, 31, 15, 7, 11, 5, 8, 9]);
  assert.deepEqual(
    first.slice(12),
    Array.from({ length: 8 }, () => 10),
  );
  const later = asked(size, 10, 1_000);
  assert.ok(later.filter((blocks) => blocks > 10).length < 1_000 / 15, later.join(" "));
});

test("a size that is answered again grows back to the most; a smaller question teaches nothing", () => {
  const size = new WindowSize(1_000);
  for (let times = 0; times < 20; times++) size.failed(size.current());
  assert.equal(size.current(), 1);
  for (let times = 0; times < 100; times++) size.answered(0);
  assert.equal(size.current(), 1);
  asked(size, 1_000, 600);
  assert.equal(size.current(), 1_000);
});
