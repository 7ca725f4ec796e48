import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import { ClockWatch, MAX_JUMP_MS } from "./clock-watch.ts";

const START_MS = Date.parse("2026-11-22T00:00:00Z");
const HOUR_MS = 3_600_000;
const ns = (timeMs: number): bigint => BigInt(timeMs) * 1_000_000n;
const jumped = (error: unknown): boolean =>
  isAppError(error, "CHAIN_CLOCK") && /set the clock right.*start the node again/.test(error.message);

/** A watch over a clock that a test sets. */
function watched(newestMs?: number) {
  const at = { clockMs: START_MS, passedMs: 0 };
  const said: string[] = [];
  const keep = (_: object, text: string): void => void said.push(text);
  const log: Log = { ...silentLog, info: keep, warn: keep };
  const clock = { nowMs: () => at.clockMs, monotonicMs: () => at.passedMs };
  const newestTimeNs = newestMs === undefined ? undefined : ns(newestMs);
  const watch = new ClockWatch({ newestTimeNs }, { clock, uptimeMs: () => at.passedMs, log });
  return {
    said,
    jump: (byMs: number): void => {
      at.clockMs += byMs;
    },
    pass: (byMs: number): void => {
      at.clockMs += byMs;
      at.passedMs += byMs;
    },
    nowMs: (lastMs = 0) => watch.nowMs(ns(lastMs)),
  };
}

suite("the clock that blocks are made by", () => {
  test("time that passes is no jump, however long; more than an hour beyond it is, until the clock is right", () => {
    const { said, jump, pass, nowMs } = watched();
    // The machine slept.
    pass(1_000 * HOUR_MS);
    assert.equal(nowMs(), START_MS + 1_000 * HOUR_MS);
    jump(MAX_JUMP_MS);
    nowMs();
    jump(MAX_JUMP_MS + 1);
    assert.throws(() => nowMs(), jumped);
    assert.throws(() => nowMs(), jumped);
    jump(-1);
    nowMs();
    assert.deepEqual(said, ["the clock is right again"]);
  });

  test("set back is reported once, and to be right again is no jump", () => {
    const { said, jump, pass, nowMs } = watched();
    jump(-1_000 * HOUR_MS);
    for (let n = 0; n < 3; n++) nowMs(START_MS + n);
    pass(HOUR_MS);
    jump(1_000 * HOUR_MS);
    assert.equal(nowMs(START_MS + 3), START_MS + HOUR_MS);
    assert.equal(said.length, 2, said.join("\n"));
    assert.match(said[0] ?? "", /behind the newest block/);
    assert.match(said[1] ?? "", /has caught up/);
  });

  test("a clock that is behind the newest block at the start may become right while the node runs", () => {
    const newestMs = START_MS + 5 * HOUR_MS;
    const { jump, pass, nowMs } = watched(newestMs);
    pass(3 * HOUR_MS);
    nowMs(newestMs);
    // As the time service sets it, a few minutes after the newest block and the time that has passed.
    jump(5 * HOUR_MS + 300_000);
    assert.equal(nowMs(newestMs), newestMs + 3 * HOUR_MS + 300_000);
    jump(2 * HOUR_MS);
    assert.throws(() => nowMs(newestMs), jumped);
  });

  test("a node that stood for long starts, and says so", () => {
    const { said, nowMs } = watched(START_MS - 2 * HOUR_MS);
    assert.equal(nowMs(START_MS - 2 * HOUR_MS), START_MS);
    assert.equal(said.length, 1);
    assert.match(said[0] ?? "", /the node stood, or the clock is ahead/);
  });

  test("a time that no calendar has is reported, not thrown", () => {
    const { jump, nowMs } = watched();
    jump(9e15);
    assert.throws(() => nowMs(), jumped);
  });
});
