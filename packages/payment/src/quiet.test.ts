import assert from "node:assert/strict";
import { test } from "node:test";
import { createQuiet } from "./quiet.ts";

test("a lasting fault is logged when it starts and once a minute, its end once", () => {
  let nowMs = 5;
  const quiet = createQuiet(() => nowMs);
  assert.equal(quiet.works(), false);
  const said: number[] = [];
  for (; nowMs < 130_000; nowMs += 200) if (quiet.fails()) said.push(nowMs);
  assert.deepEqual(said, [5, 60_005, 120_005]);
  assert.equal(quiet.works(), true);
  assert.equal(quiet.works(), false);
  assert.equal(quiet.fails(), true);
});
