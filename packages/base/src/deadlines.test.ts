import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "./clock.ts";
import { Deadlines } from "./deadlines.ts";

const make = (): Deadlines => new Deadlines({ stepMs: 5 }, { clock: systemClock });

test("a deadline is never early, and deadlines come in their order", async () => {
  const deadlines = make();
  const order: number[] = [];
  const done = Promise.withResolvers<void>();
  const startMs = systemClock.monotonicMs();
  for (const timeoutMs of [40, 1, 20]) {
    deadlines.after(timeoutMs, () => {
      assert.ok(systemClock.monotonicMs() - startMs >= timeoutMs);
      order.push(timeoutMs);
      if (timeoutMs === 40) done.resolve();
    });
  }
  await done.promise;
  assert.deepEqual(order, [1, 20, 40]);
  assert.equal(deadlines.size, 0);
});

test("one that is taken back does not come; taking it back twice, or too late, does nothing", async () => {
  const deadlines = make();
  const done = Promise.withResolvers<void>();
  const never = deadlines.after(1, () => assert.fail("it was taken back"));
  deadlines.cancel(never);
  deadlines.cancel(never);
  assert.equal(deadlines.size, 0);
  const last = deadlines.after(10, () => done.resolve());
  await done.promise;
  deadlines.cancel(last);
  assert.equal(deadlines.size, 0);
});

test("a callback may set another, also when the timer has ended before", async () => {
  const deadlines = make();
  for (let round = 0; round < 3; round++) {
    const done = Promise.withResolvers<void>();
    deadlines.after(1, () => deadlines.after(1, () => done.resolve()));
    await done.promise;
    assert.equal(deadlines.size, 0);
  }
});
