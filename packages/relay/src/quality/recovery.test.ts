import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "../../test/quality/random.ts";
import { DEFAULT_SELECTION, SupplierPool } from "./selection.ts";
import { DEFAULT_QUALITY, SupplierQuality } from "./supplier-quality.ts";

interface Simulated {
  readonly operator: string;
  readonly quality: SupplierQuality;
  readonly isDrained: false;
  readonly isWrongChain: false;
  readonly isVerified: true;
  isBehind(): boolean;
  readonly latencyMs: number;
  /** Whether a call at this time is answered well. */
  readonly isGood: (nowMs: number) => boolean;
  firsts: number;
  fails: number;
}

const always = (): boolean => true;

function simulated(operator: string, isGood: (nowMs: number) => boolean = always, latencyMs = 20): Simulated {
  const quality = new SupplierQuality(DEFAULT_QUALITY);
  const fixed = { isDrained: false, isWrongChain: false, isVerified: true, isBehind: () => false } as const;
  return { operator, quality, ...fixed, latencyMs, isGood, firsts: 0, fails: 0 };
}

/** Sends calls at a steady rate, three attempts for each; each supplier is probed every 10 s. Gives the calls without an answer. */
function run(
  members: readonly Simulated[],
  fromMs: number,
  untilMs: number,
  everyMs: number,
  random: () => number,
): number {
  const pool = new SupplierPool({ ...DEFAULT_SELECTION, members }, { random });
  let lost = 0;
  let probeMs = fromMs;
  for (let nowMs = fromMs; nowMs < untilMs; nowMs += everyMs) {
    for (; probeMs <= nowMs; probeMs += 10_000) {
      for (const { quality, latencyMs, isGood } of members) {
        if (isGood(nowMs)) quality.probeGood(nowMs, latencyMs);
        else quality.probeFailed(nowMs, "timeout", 5_000);
      }
    }
    const ordered = pool.order("op", nowMs);
    if (ordered[0] !== undefined) ordered[0].firsts++;
    const answered = ordered.slice(0, 3).some((one) => {
      if (one.isGood(nowMs)) {
        one.quality.good(nowMs, one.latencyMs);
        return true;
      }
      one.fails++;
      one.quality.failed(nowMs, "connection", one.latencyMs);
      return false;
    });
    if (!answered) lost++;
  }
  return lost;
}

test("a dead supplier costs few calls, and has its part again when it is back", () => {
  const dead = simulated("dead", (nowMs) => nowMs < 60_000 || nowMs > 1_260_000);
  const members = [simulated("a"), simulated("b"), dead];
  const random = seededRandom(5);
  assert.equal(run(members, 0, 60_000, 10, random), 0);
  assert.ok(dead.firsts > 1_800);
  assert.equal(run(members, 60_000, 1_260_000, 10, random), 0);
  assert.ok(dead.fails < 40, `${dead.fails} of 120,000`);
  run(members, 1_260_000, 3_600_000, 10, random);
  dead.firsts = 0;
  run(members, 3_600_000, 3_660_000, 10, random);
  assert.ok(dead.firsts > 1_500, `${dead.firsts} of 6,000`);
});

test("a flapping supplier does not get its whole part back each time", () => {
  const flapping = simulated("flapping", (nowMs) => nowMs % 60_000 < 40_000);
  const members = [simulated("a"), simulated("b"), flapping];
  const random = seededRandom(6);
  assert.equal(run(members, 0, 600_000, 10, random), 0);
  flapping.firsts = 0;
  flapping.fails = 0;
  run(members, 600_000, 1_200_000, 10, random);
  assert.ok(flapping.firsts < 60_000 / 5, `${flapping.firsts} of 60,000`);
  assert.ok(flapping.fails < 100, `${flapping.fails} of 60,000`);
});

test("five suppliers die and come back at random while one at least lives: less than one call in a thousand is lost", () => {
  const random = seededRandom(7);
  const ops = ["a", "b", "c", "d", "e"];
  // Each minute another set of living ones.
  const alive = Array.from({ length: 60 }, () => {
    const sure = Math.floor(random() * ops.length);
    return ops.map((_, i) => i === sure || random() < 0.4);
  });
  const members = ops.map((name, i) => simulated(name, (nowMs) => alive[Math.floor(nowMs / 60_000)]?.[i] === true));
  const lost = run(members, 0, 3_600_000, 10, random);
  assert.ok(lost < 360, `${lost} of 360,000`);
});

test("after all were dead at once, the first good call opens the way again", () => {
  const members = ["a", "b", "c"].map((name) => simulated(name, (nowMs) => nowMs < 10_000 || nowMs >= 600_000));
  const random = seededRandom(8);
  assert.equal(run(members, 0, 10_000, 10, random), 0);
  assert.equal(run(members, 10_000, 600_000, 10, random), 59_000);
  assert.equal(run(members, 600_000, 660_000, 10, random), 0);
  for (const { quality } of members) assert.equal(quality.view(660_000).breaker, "closed");
});
