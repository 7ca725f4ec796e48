import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { within } from "./attempts.ts";

test("a task's time goes by the clock passed in, not by the machine's", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const clock = virtualClock();
  const task = Promise.withResolvers<void>();
  let isLate = false;
  const late = within(new Promise(() => {}), 1_000, clock).finally(() => {
    isLate = true;
  });
  const done = within(task.promise, 1_000, clock);
  context.mock.timers.tick(10_000);
  task.resolve();
  assert.equal(await done, true);
  assert.equal(isLate, false, "the clock has not moved");
  clock.advance(1_100);
  context.mock.timers.tick(1_000);
  await new Promise(setImmediate);
  assert.ok(isLate);
  assert.equal(await late, false);
});
