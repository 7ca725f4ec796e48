import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Deadlines } from "./deadlines.ts";

const STEP_MS = 5;

/** Deadlines on a clock and timers of the test. */
function make(context: TestContext) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 3;
  const deadlines = new Deadlines({ stepMs: STEP_MS }, { clock: { nowMs: () => nowMs, monotonicMs: () => nowMs } });
  return {
    deadlines,
    nowMs: () => nowMs,
    /** Lets time pass, a millisecond at a time. */
    pass: (ms: number): void => {
      for (let at = 0; at < ms; at++) {
        nowMs++;
        context.mock.timers.tick(1);
      }
    },
    /** Lets time pass while the process is busy: its timers are late. */
    late: (ms: number): void => {
      nowMs += ms;
      context.mock.timers.tick(STEP_MS);
    },
  };
}

test("a deadline is never early, less than three steps late, and deadlines come in their order", (context) => {
  const { deadlines, nowMs, pass } = make(context);
  // Keeps the timer's steps as they are, while deadlines begin at any time between two of them.
  const first = deadlines.after(10_000, () => assert.fail("it is early"));
  for (let round = 0; round < 2 * STEP_MS; round++) {
    const startMs = nowMs();
    const order: number[] = [];
    for (const timeoutMs of [40, 1, 20, 0, 12]) {
      deadlines.after(timeoutMs, () => {
        const passedMs = nowMs() - startMs;
        assert.ok(passedMs >= timeoutMs && passedMs < timeoutMs + 3 * STEP_MS, `${timeoutMs}: ${passedMs}`);
        order.push(timeoutMs);
      });
    }
    assert.equal(deadlines.size, 6);
    pass(61);
    assert.deepEqual(order, [1, 0, 12, 20, 40]);
    assert.equal(deadlines.size, 1);
  }
  deadlines.cancel(first);
  pass(2 * STEP_MS);
  assert.equal(deadlines.size, 0);
});

test("timers that are late: all that is due comes, in its order, and nothing else", (context) => {
  const { deadlines, late } = make(context);
  const order: number[] = [];
  for (const timeoutMs of [40, 1, 500, 20]) deadlines.after(timeoutMs, () => order.push(timeoutMs));
  late(300);
  assert.deepEqual(order, [1, 20, 40]);
  assert.equal(deadlines.size, 1);
  late(300);
  assert.deepEqual(order, [1, 20, 40, 500]);
});

test("one that is taken back does not come; taking it back twice, or too late, does nothing", (context) => {
  const { deadlines, pass } = make(context);
  const never = deadlines.after(1, () => assert.fail("it was taken back"));
  deadlines.cancel(never);
  deadlines.cancel(never);
  assert.equal(deadlines.size, 0);
  let came = 0;
  const last = deadlines.after(10, () => came++);
  pass(60);
  assert.equal(came, 1);
  deadlines.cancel(last);
  assert.equal(deadlines.size, 0);
});

test("a callback may set another, also when the timer has ended before", (context) => {
  const { deadlines, pass } = make(context);
  let came = 0;
  for (let round = 1; round <= 3; round++) {
    deadlines.after(1, () => deadlines.after(1, () => came++));
    pass(60);
    assert.equal(came, round);
    assert.equal(deadlines.size, 0);
  }
});
