import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { readQualitySnapshot } from "./peers.ts";
import { type QualityReason, SEVERITY } from "./score.ts";
import { DEFAULT_QUALITY, SupplierQuality } from "./supplier-quality.ts";

const fresh = (): SupplierQuality => new SupplierQuality(DEFAULT_QUALITY);
const REASONS = Object.keys(SEVERITY) as QualityReason[];

test("whatever is told, the score is in [0, 100], and a failure now never raises it", () => {
  const event = fc.tuple(
    fc.integer({ min: 0, max: 20_000 }),
    fc.constantFrom("good", "probeGood", "pause", "reset", "absorb", ...REASONS),
    fc.integer({ min: 0, max: 10_000 }),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), fc.constantFrom(...REASONS), (events, last) => {
      const [quality, twin] = [fresh(), fresh()];
      const other = fresh();
      for (let i = 0; i < 5; i++) other.failed(0, "wrong_id", 1);
      let nowMs = 0;
      for (const [gapMs, what, value] of events) {
        nowMs += gapMs;
        for (const one of [quality, twin]) {
          one.compare(20);
          if (what === "good") one.good(nowMs, value);
          else if (what === "probeGood") one.probeGood(nowMs, value);
          else if (what === "pause") one.pause(nowMs, value);
          else if (what === "reset") one.reset(nowMs);
          else if (what === "absorb") one.absorb(other.snapshot(0), `peer${value % 3}`, nowMs);
          else one.failed(nowMs, what, value);
        }
        const { score } = quality.view(nowMs);
        assert.ok(score >= 0 && score <= 100, String(score));
      }
      twin.failed(nowMs, last, 50);
      assert.ok(twin.score(nowMs) <= quality.score(nowMs) + 1e-9);
    }),
    { numRuns: 300 },
  );
});

test("a flapping supplier gets its score back slowly, a steady one has it", () => {
  const changes: string[] = [];
  const quality = new SupplierQuality(DEFAULT_QUALITY, { onBreaker: (state) => changes.push(state) });
  let nowMs = 0;
  for (let round = 0; round < 6; round++) {
    for (let i = 0; i < 900; i++, nowMs += 100) quality.good(nowMs, 20);
    for (const untilMs = nowMs + 60_000; nowMs < untilMs; nowMs += 100) {
      if (quality.state(nowMs) !== "open") quality.failed(nowMs, "timeout", 50);
    }
    nowMs += quality.view(nowMs).openForMs;
  }
  for (let i = 0; i < 450; i++, nowMs += 100) quality.good(nowMs, 20);
  assert.equal(quality.view(nowMs).breaker, "closed");
  assert.ok(quality.score(nowMs) < 70, String(quality.score(nowMs)));
  assert.deepEqual(changes.slice(0, 3), ["open", "probation", "open"]);
  assert.equal(changes.at(-1), "closed");
});

test("a pause that it asks for is kept, a minute at most; refusals at once are one, and in a row they double", () => {
  const quality = fresh();
  quality.pause(0, 3_600_000);
  assert.deepEqual([quality.state(59_999), quality.state(60_000)], ["open", "closed"]);
  for (let i = 0; i < 20; i++) quality.failed(70_000, "rate_limited", 30);
  assert.equal(quality.view(70_000).openForMs, 1_000);
  quality.failed(71_100, "rate_limited", 30);
  assert.equal(quality.view(71_100).openForMs, 2_000);
  quality.good(73_200, 30);
  quality.failed(73_300, "rate_limited", 30);
  assert.equal(quality.view(73_300).openForMs, 1_000);
  quality.pause(80_000, Number.NaN);
  assert.equal(quality.state(80_000), "closed");
});

test("what it lacks is remembered for some minutes, in bounded memory", () => {
  const quality = fresh();
  quality.lacks("eth_config", 0);
  assert.deepEqual([quality.isLacking("eth_config", 299_999), quality.isLacking("eth_config", 300_000)], [true, false]);
  assert.equal(quality.isLacking("eth_call", 0), false);
  for (let i = 0; i < 1_000; i++) quality.lacks(`m${i}`, 0);
  assert.deepEqual([quality.isLacking("m743", 0), quality.isLacking("m744", 0)], [false, true]);
});

test("latency is smoothed; a lost hedge can only raise it; probes count where no calls are", () => {
  const quality = fresh();
  quality.probeGood(0, 10);
  assert.equal(quality.latencyMs, 10);
  quality.good(1_000, 60);
  assert.equal(quality.latencyMs, 20);
  quality.probeGood(2_000, 1);
  assert.equal(quality.latencyMs, 20);
  quality.failed(3_000, "hedge_lost", 5);
  assert.equal(quality.latencyMs, 20);
  quality.failed(3_000, "hedge_lost", 520);
  assert.equal(quality.latencyMs, 120);
});

test("a supplier that never answers and loses every hedge ends behind an open breaker", () => {
  const quality = fresh();
  for (let i = 0; i < 12; i++) quality.failed(i * 1_000, "hedge_lost", 300);
  assert.equal(quality.state(11_000), "open");
});

test("after a reset it is as if nothing had been", () => {
  const quality = fresh();
  for (let i = 0; i < 9; i++) quality.failed(i * 1_000, "wrong_id", 5);
  quality.pause(9_000, 60_000);
  quality.lacks("eth_config", 9_000);
  quality.reset(9_000);
  const { score, breaker, openForMs } = quality.view(9_000);
  assert.deepEqual(
    [Math.round(score), breaker, openForMs, quality.isLacking("eth_config", 9_000)],
    [81, "closed", 0, false],
  );
});

test("how soon it is probed: soon while it fails or is unknown, rarely while calls show its health or nobody calls", () => {
  const quality = fresh();
  assert.equal(quality.probeNeed(0), "soon");
  quality.good(0, 5);
  assert.deepEqual(
    [quality.probeNeed(0), quality.probeNeed(60_000), quality.probeNeed(121_000)],
    ["rare", "normal", "rare"],
  );
  quality.probeFailed(130_000, "timeout", 5);
  assert.equal(quality.probeNeed(130_000), "soon");
  quality.probeGood(131_000, 5);
  assert.equal(quality.probeNeed(131_000), "rare");
});

test("a gateway that has seen nothing itself believes another; its own calls then count for more", () => {
  const [seer, quality] = [fresh(), fresh()];
  for (let i = 0; i < 3; i++) seer.failed(i, "timeout", 0);
  for (let i = 0; i < 10; i++) seer.failed(5_000 + i, "wrong_id", 1);
  quality.absorb(seer.snapshot(5_100), "a", 50_000);
  assert.equal(quality.state(50_000), "probation");
  assert.ok(quality.score(50_000) < 60, String(quality.score(50_000)));
  for (let i = 0; i < 20; i++) quality.good(50_100 + i, 10);
  assert.equal(quality.state(50_200), "closed");
  assert.ok(quality.score(50_200) > 45, String(quality.score(50_200)));
});

test("what was heard is not told on, so gateways do not talk each other into it", () => {
  const [seer, quality] = [fresh(), fresh()];
  for (let i = 0; i < 9; i++) seer.failed(0, "wrong_id", 0);
  quality.absorb(seer.snapshot(0), "a", 0);
  assert.deepEqual(quality.snapshot(0).fast, { bad: 0, all: 0 });
});

test("one process that lies for ever cannot pin a supplier", () => {
  const quality = fresh();
  const lie = {
    fast: { bad: 1e9, all: 1e9 },
    chronic: { bad: 1e9, all: 1e9 },
    breaker: "open",
    latencyMs: 1e9,
  } as const;
  const read = readQualitySnapshot(JSON.parse(JSON.stringify(lie)));
  assert.ok(read !== undefined);
  let openings = 0;
  for (let nowMs = 0; nowMs < 900_000; nowMs += 100) {
    quality.good(nowMs, 10);
    if (nowMs % 2_000 === 0) quality.absorb(read, "liar", nowMs);
    if (quality.state(nowMs) !== "closed") openings++;
  }
  assert.equal(openings, 0);
  assert.ok(quality.score(900_000) > 55, String(quality.score(900_000)));
  assert.ok(quality.score(930_000 + 600_000) > 55);
  // Without own calls: probation at most once a minute, and five good calls end it.
  let hints = 0;
  const idle = fresh();
  for (let nowMs = 0; nowMs < 600_000; nowMs += 2_000) {
    idle.absorb(read, "liar", nowMs);
    if (idle.state(nowMs) === "closed") continue;
    assert.equal(idle.state(nowMs), "probation");
    hints++;
    for (let i = 0; i < 5; i++) idle.good(nowMs, 0);
    assert.equal(idle.state(nowMs), "closed");
  }
  assert.equal(hints, 10);
});

test("however many gateways there are, memory and their weight are bounded, and only snapshots are read", () => {
  const quality = fresh();
  const [seer] = [fresh()];
  for (let i = 0; i < 9; i++) seer.failed(0, "wrong_id", 0);
  for (let i = 0; i < 1_000; i++) quality.absorb(seer.snapshot(0), `peer${i}`, 0);
  assert.ok(quality.score(0) > 0);
  for (const value of [undefined, 1, [], {}, { fast: 1 }, { ...seer.snapshot(0), fast: { bad: 2, all: 1 } }]) {
    assert.equal(readQualitySnapshot(value), undefined);
  }
  assert.equal(readQualitySnapshot({ ...seer.snapshot(0), breaker: "broken" }), undefined);
  assert.equal(readQualitySnapshot({ ...seer.snapshot(0), latencyMs: Number.NaN }), undefined);
  assert.deepEqual(readQualitySnapshot(JSON.parse(JSON.stringify(seer.snapshot(0)))), seer.snapshot(0));
});
