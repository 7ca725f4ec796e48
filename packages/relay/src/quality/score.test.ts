import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { DEFAULT_SCORE, isHeldAgainst, type QualityReason, Score, SEVERITY, scoreOf, slownessOf } from "./score.ts";

type Event = readonly [gapMs: number, what: QualityReason | "good" | "down"];

const REASONS = Object.keys(SEVERITY) as QualityReason[];
const EVENTS = fc.array(
  fc.tuple(
    fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 100_000 })),
    fc.constantFrom<Event[1]>("good", "good", "good", "down", ...REASONS),
  ),
  { maxLength: 60 },
);

function play(events: readonly Event[]): { score: Score; nowMs: number } {
  const score = new Score(DEFAULT_SCORE);
  let nowMs = 1_000_000;
  for (const [gapMs, what] of events) {
    const fromMs = nowMs;
    nowMs += gapMs;
    if (what === "good") score.good(nowMs);
    else if (what === "down") score.down(fromMs, nowMs);
    else score.failed(nowMs, what);
  }
  return { score, nowMs };
}

test("a score is in [0, 100] whatever happens, and whatever others say", () => {
  const weights = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1e6, noNaN: true }));
  fc.assert(
    fc.property(
      EVENTS,
      weights,
      weights,
      fc.double({ min: 0, max: 0.2, noNaN: true }),
      (events, fast, chronic, slow) => {
        const { score, nowMs } = play(events);
        const others = {
          fast: { bad: fast[0] * fast[1], all: fast[1] },
          chronic: { bad: chronic[0] * chronic[1], all: chronic[1] },
        };
        for (const value of [score.value(nowMs), score.value(nowMs, others, slow), score.value(nowMs + 1e9, others)]) {
          assert.ok(value >= 0 && value <= 100, String(value));
        }
      },
    ),
  );
});

test("one failure more, whenever it came, never raises a score", () => {
  fc.assert(
    fc.property(EVENTS, fc.nat(), fc.constantFrom(...REASONS), fc.nat(2_000_000), (events, at, reason, laterMs) => {
      const place = at % (events.length + 1);
      const more = events.toSpliced(place, 0, [0, reason]);
      const before = play(events);
      const after = play(more);
      const atMs = before.nowMs + laterMs;
      assert.ok(after.score.value(atMs) <= before.score.value(atMs) + 1e-9);
      const others = { fast: { bad: 0, all: 50 }, chronic: { bad: 0, all: 900 } };
      assert.ok(after.score.value(atMs, others) <= before.score.value(atMs, others) + 1e-9);
    }),
    { numRuns: 300 },
  );
});

test("a supplier that nothing is known of starts at 81, good calls raise it, and time brings it back", () => {
  const score = new Score(DEFAULT_SCORE);
  assert.equal(Math.round(score.value(0)), 81);
  for (let nowMs = 0; nowMs < 300_000; nowMs += 100) score.good(nowMs);
  assert.ok(score.value(300_000) > 97);
  assert.equal(Math.round(score.value(300_000 + 36_000_000)), 81);
});

test("a wrong answer weighs more than none in time, which weighs more than a 5xx, which weighs more than a limit", () => {
  const after = (reason: QualityReason): number => {
    const score = new Score(DEFAULT_SCORE);
    for (let nowMs = 0; nowMs < 60_000; nowMs += 1_000) score.good(nowMs);
    score.failed(60_000, reason);
    return score.value(60_000);
  };
  for (const lie of ["wrong_id", "both_or_neither", "not_json", "wrong_chain", "minority"] as const) {
    assert.ok(after(lie) < after("timeout"));
  }
  assert.ok(after("timeout") < after("http_status"));
  assert.ok(after("http_status") < after("rate_limited"));
  assert.ok(after("rate_limited") < after("too_much"));
});

test("the client's and the chain's faults, and what is only too large, are not held against a supplier", () => {
  assert.equal(isHeldAgainst("supplier", "wrong_id"), true);
  assert.equal(isHeldAgainst("wire", "timeout"), true);
  assert.equal(isHeldAgainst("client", "too_much"), false);
  assert.equal(isHeldAgainst("chain", "state_unavailable"), false);
  assert.equal(isHeldAgainst("supplier", "too_large"), false);
  assert.equal(isHeldAgainst("supplier", "unsupported"), false);
});

test("outages of which each costs few calls add up in the chronic term, and are forgotten in time", () => {
  const flapping = new Score(DEFAULT_SCORE);
  const steady = new Score(DEFAULT_SCORE);
  let nowMs = 0;
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 900; i++) {
      nowMs += 100;
      flapping.good(nowMs);
      steady.good(nowMs);
    }
    for (let i = 0; i < 3; i++) flapping.failed(nowMs, "timeout");
    flapping.down(nowMs, nowMs + 30_000);
    nowMs += 30_000;
  }
  // The fast term has forgotten.
  nowMs += 60_000;
  assert.ok(flapping.value(nowMs) < 75, String(flapping.value(nowMs)));
  assert.ok(steady.value(nowMs) > 95, String(steady.value(nowMs)));
  for (let i = 0; i < 36_000; i++) {
    nowMs += 100;
    flapping.good(nowMs);
  }
  assert.ok(flapping.value(nowMs) > 97);
});

test("what others say counts for an eighth of our own evidence, and decides where we have none", () => {
  const none = { bad: 0, all: 0 };
  const liar = { fast: { bad: 1e6, all: 1e6 }, chronic: { bad: 1e6, all: 1e6 } };
  const own = { fast: { bad: 0, all: 100 }, chronic: { bad: 0, all: 500 } };
  const alone = scoreOf(DEFAULT_SCORE, { fast: none, chronic: none }, liar);
  assert.ok(alone > 0 && alone < 20, String(alone));
  const known = scoreOf(DEFAULT_SCORE, own, liar);
  assert.ok(known > 50 && known < scoreOf(DEFAULT_SCORE, own), String(known));
});

test("slowness costs a fifth at most", () => {
  assert.deepEqual([slownessOf(0, 10), slownessOf(10, 0), slownessOf(20, 10)], [0, 0, 0]);
  assert.ok(slownessOf(40, 10) > 0 && slownessOf(40, 10) < 0.1);
  assert.equal(slownessOf(1e9, 10), 0.2);
});
