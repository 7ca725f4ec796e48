import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { dayOf, periodOf } from "./periods.ts";
import { consumeQuotas, createCounter, releaseQuotas } from "./quotas.ts";

const END_OF_YEAR = Date.UTC(2027, 0) - 1_500;

suite("quotas", () => {
  test("periods are days, months and years of UTC, whose ends are the next ones' starts", () => {
    assert.equal(dayOf(END_OF_YEAR), "2026-12-31");
    fc.assert(
      fc.property(
        fc.constantFrom("day", "month", "year" as const),
        fc.integer({ min: 0, max: 4_102_444_800_000 }),
        (interval, nowMs) => {
          const { startMs, endMs } = periodOf(interval, nowMs);
          assert.ok(startMs <= nowMs && nowMs < endMs);
          assert.deepEqual(periodOf(interval, endMs - 1), { startMs, endMs });
          assert.equal(periodOf(interval, endMs).startMs, endMs);
        },
      ),
    );
  });

  test("calls are taken from all quotas or from none, and the tightest one is told", () => {
    const own = { counter: createCounter("day", 0, END_OF_YEAR), limit: 5 };
    const plan = { counter: createCounter("month", 96, END_OF_YEAR), limit: 100 };
    const taken = consumeQuotas([own, plan], 3, END_OF_YEAR);
    assert.ok(taken.ok);
    assert.deepEqual(taken.standing, { limit: 100, used: 99, windowSeconds: 31 * 86_400, resetSeconds: 2 });
    const over = consumeQuotas([own, plan], 2, END_OF_YEAR);
    assert.ok(!over.ok);
    assert.equal(over.standing.limit, 100);
    assert.deepEqual([own.counter.used, plan.counter.used], [3, 99]);
    releaseQuotas([own, plan], 3);
    assert.deepEqual([own.counter.used, plan.counter.used], [0, 96]);
    assert.deepEqual(consumeQuotas([], 1_000, END_OF_YEAR), { ok: true, standing: undefined });
  });

  test("a new period begins with nothing used", () => {
    const quota = { counter: createCounter("month", 10, END_OF_YEAR), limit: 10 };
    assert.equal(consumeQuotas([quota], 1, END_OF_YEAR + 1_499).ok, false);
    const taken = consumeQuotas([quota], 1, END_OF_YEAR + 1_500);
    assert.ok(taken.ok);
    assert.deepEqual(taken.standing, { limit: 10, used: 1, windowSeconds: 31 * 86_400, resetSeconds: 31 * 86_400 });
  });
});
