import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { Breaker, DEFAULT_BREAKER } from "./breaker.ts";

const fresh = (): Breaker => new Breaker(DEFAULT_BREAKER);

function openIt(breaker: Breaker, nowMs: number): void {
  for (let i = 0; i < 3; i++) breaker.failed(nowMs, nowMs);
}

test("three failures in a row open it for a second; then few calls show whether it closes", () => {
  const breaker = fresh();
  breaker.failed(0, 0);
  breaker.failed(1, 1);
  assert.equal(breaker.state(1), "closed");
  breaker.failed(2, 2);
  assert.deepEqual([breaker.state(2), breaker.openForMs(2)], ["open", 1_000]);
  assert.deepEqual([breaker.state(1_001), breaker.state(1_002)], ["open", "probation"]);
  for (let i = 0; i < 4; i++) breaker.good(1_010, 1_005, false);
  assert.equal(breaker.state(1_010), "probation");
  breaker.good(1_010, 1_005, false);
  assert.equal(breaker.state(1_010), "closed");
});

test("a good call between failures keeps it closed below a fifth; at a fifth, and five, it opens", () => {
  const breaker = fresh();
  for (let i = 0; i < 600; i++) {
    if (i % 6 === 5) breaker.failed(i * 100, i * 100);
    else breaker.good(i * 100, i * 100, false);
    assert.equal(breaker.state(i * 100), "closed");
  }
  const other = fresh();
  let openedAt = 0;
  for (let i = 1; openedAt === 0; i++) {
    if (i % 2 === 0) other.failed(i * 100, i * 100);
    else other.good(i * 100, i * 100, false);
    if (other.state(i * 100) === "open") openedAt = i;
  }
  assert.equal(openedAt, 10);
});

test("one lost connection with twenty calls on it does not open the breaker of a busy supplier, twenty more do", () => {
  const breaker = fresh();
  for (let i = 0; i < 3_000; i++) breaker.good(i, i, false);
  for (let i = 0; i < 19; i++) breaker.failed(3_000, 2_900);
  assert.equal(breaker.state(3_000), "closed");
  breaker.failed(3_000, 2_900);
  assert.equal(breaker.state(3_000), "open");
});

test("it never opens below the evidence", () => {
  const events = fc.array(fc.tuple(fc.integer({ min: 0, max: 4_000 }), fc.boolean(), fc.constantFrom(0.25, 1, 1, 1)), {
    maxLength: 120,
  });
  fc.assert(
    fc.property(events, (list) => {
      const breaker = fresh();
      let nowMs = 0;
      let seen: { atMs: number; failed: number }[] = [];
      for (const [gapMs, isGood, weight] of list) {
        nowMs += gapMs;
        const before = breaker.state(nowMs);
        if (isGood) breaker.good(nowMs, nowMs, false);
        else breaker.failed(nowMs, nowMs, weight);
        const after = breaker.state(nowMs);
        if (before !== "closed") {
          seen = [];
          continue;
        }
        seen.push({ atMs: nowMs, failed: isGood ? 0 : weight });
        if (after !== "open") continue;
        const recent = seen.filter(({ atMs }) => atMs > nowMs - DEFAULT_BREAKER.windowMs);
        const failures = recent.reduce((sum, { failed }) => sum + failed, 0);
        const lastGood = seen.findLastIndex(({ failed }) => failed === 0);
        const inRow = seen.slice(lastGood + 1).reduce((sum, { failed }) => sum + failed, 0);
        assert.ok((failures >= 5 && failures >= 0.2 * recent.length) || inRow >= 3);
      }
    }),
    { numRuns: 500 },
  );
});

test("while it keeps failing it is open for twice as long each time, up to five minutes; then it can recover", () => {
  const breaker = fresh();
  let nowMs = 0;
  const times: number[] = [];
  openIt(breaker, nowMs);
  for (let i = 0; i < 12; i++) {
    const openMs = breaker.openForMs(nowMs);
    times.push(openMs / 1_000);
    nowMs += openMs;
    assert.equal(breaker.state(nowMs), "probation");
    breaker.failed(nowMs, nowMs);
  }
  assert.deepEqual(times, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
  nowMs += breaker.openForMs(nowMs);
  for (let i = 0; i < 5; i++) breaker.good(nowMs, nowMs, false);
  assert.equal(breaker.state(nowMs), "closed");
  // Two minutes of being closed take one doubling back.
  nowMs += 60_000;
  openIt(breaker, nowMs);
  assert.equal(breaker.openForMs(nowMs), 300_000);
  nowMs += 300_000;
  for (let i = 0; i < 5; i++) breaker.good(nowMs, nowMs, false);
  nowMs += 40 * 60_000;
  openIt(breaker, nowMs);
  assert.equal(breaker.openForMs(nowMs), 1_000);
});

test("calls that began before it changed say nothing about what is now", () => {
  const breaker = fresh();
  openIt(breaker, 1_000);
  for (let i = 0; i < 10; i++) breaker.good(1_100, 900, false);
  assert.equal(breaker.state(1_100), "open");
  breaker.failed(2_500, 1_500);
  assert.equal(breaker.state(2_500), "probation");
  for (let i = 0; i < 5; i++) breaker.good(2_600, 2_500, false);
  for (let i = 0; i < 10; i++) breaker.failed(2_700, 500);
  assert.equal(breaker.state(2_700), "closed");
});

test("calls of last resort end the open time when they are good; probes do not, and are half a call afterwards", () => {
  const breaker = fresh();
  openIt(breaker, 0);
  breaker.good(10, 5, true);
  assert.equal(breaker.state(10), "open");
  breaker.good(20, 15, false);
  assert.equal(breaker.state(20), "probation");
  for (let i = 0; i < 7; i++) breaker.good(30, 25, true);
  assert.equal(breaker.state(30), "probation");
  breaker.good(30, 25, true);
  assert.equal(breaker.state(30), "closed");
});

test("a good probe ends the open time of one that could not be reached", () => {
  const breaker = fresh();
  for (let i = 0; i < 3; i++) breaker.failed(0, 0, 1, true);
  breaker.good(10, -5, true);
  assert.equal(breaker.state(10), "open");
  breaker.good(20, 15, true);
  assert.equal(breaker.state(20), "probation");
  breaker.failed(30, 25, 1, true);
  assert.deepEqual([breaker.state(30), breaker.openForMs(30)], ["open", 2_000]);
});

test("a hint of a weight below one does not end a probation, and opens it only in numbers", () => {
  const breaker = fresh();
  for (let i = 0; i < 11; i++) breaker.failed(0, 0, 0.25);
  assert.equal(breaker.state(0), "closed");
  breaker.failed(0, 0, 0.25);
  assert.equal(breaker.state(0), "open");
  breaker.failed(1_000, 1_000, 0.25);
  assert.equal(breaker.state(1_000), "probation");
});

test("whatever was before, good calls close it", () => {
  const events = fc.array(fc.tuple(fc.integer({ min: 0, max: 60_000 }), fc.boolean(), fc.boolean()), { maxLength: 80 });
  fc.assert(
    fc.property(events, (list) => {
      const breaker = fresh();
      let nowMs = 0;
      for (const [gapMs, isGood, isProbe] of list) {
        nowMs += gapMs;
        if (isGood) breaker.good(nowMs, nowMs, isProbe);
        else breaker.failed(nowMs, nowMs);
      }
      assert.ok(breaker.openForMs(nowMs) <= DEFAULT_BREAKER.maxOpenMs);
      nowMs += breaker.openForMs(nowMs);
      for (let i = 0; i < 10; i++) breaker.good(nowMs, nowMs, true);
      assert.equal(breaker.state(nowMs), "closed");
    }),
  );
});
