import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { base64, hex, readRecorded, readSpec } from "../test/records.ts";
import {
  BASE_TARGET,
  difficultyAt,
  difficultyMultiplier,
  difficultyOfUnusedService,
  isRelayApplicable,
  nextRelaysEma,
  targetForEma,
  updateDifficulty,
} from "./difficulty.ts";
import { compareRational, rational } from "./rational.ts";

interface DifficultyVectors {
  readonly ema: readonly { readonly prev: number; readonly cur: number; readonly ema: number }[];
  readonly targets: readonly { readonly ema: number; readonly target: number; readonly hash: string }[];
}

const go = readSpec<{ ema: [string, string, string][]; targets: [string, string, string][] }>("go-numbers.json");
const vectors = readSpec<DifficultyVectors>("difficulty.json");
const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });

suite("difficulty", () => {
  test("the average equals Go's, from 0 to the last number of 64 bits", () => {
    for (const { prev, cur, ema } of vectors.ema) assert.equal(nextRelaysEma(BigInt(prev), BigInt(cur)), BigInt(ema));
    assert.ok(go.ema.length > 500);
    for (const [prev, cur, ema] of go.ema) {
      assert.equal(nextRelaysEma(BigInt(prev), BigInt(cur)), BigInt(ema), `${prev} ${cur}`);
    }
  });

  test("the average is between its two numbers, but for one unit of rounding", () => {
    fc.assert(
      fc.property(u64, u64, (previous, current) => {
        const ema = nextRelaysEma(previous, current);
        const exact = (current + 9n * previous) / 10n;
        const slack = (exact >> 62n) + 1n;
        assert.ok(ema >= 0n && ema < 1n << 64n);
        const off = ema - exact;
        // 0.1 as a float64 is a little more than a tenth, by less than 2^-57 of the number.
        assert.ok(off <= slack + (current >> 57n) && off >= -slack - (previous >> 57n), `${off}`);
      }),
    );
  });

  test("targets equal Go's", () => {
    for (const { ema, target, hash } of vectors.targets) {
      assert.equal(bytesToHex(targetForEma(BigInt(target), BigInt(ema))), hash);
    }
    for (const [target, ema, hash] of go.targets) {
      assert.equal(bytesToHex(targetForEma(BigInt(target), BigInt(ema))), hash, `${target} ${ema}`);
    }
  });

  test("an average of zero gives the base target, where the chain would stop", () => {
    assert.deepEqual(targetForEma(10n, 0n), BASE_TARGET);
  });

  test("a target is never above the base, and falls as the average rises", () => {
    const relays = fc.bigInt({ min: 1n, max: 1n << 62n });
    fc.assert(
      fc.property(relays, relays, relays, (target, a, b) => {
        const [low, high] = a < b ? [a, b] : [b, a];
        const easier = targetForEma(target, low);
        const harder = targetForEma(target, high);
        assert.equal(easier.length, 32);
        assert.ok(Buffer.compare(harder, easier) <= 0);
      }),
    );
  });

  test("the multiplier is base over target", () => {
    const half = new Uint8Array(32).fill(0xff);
    half[0] = 0x7f;
    const multiplier = difficultyMultiplier(half);
    assert.equal(multiplier.num / multiplier.den, 2n);
    const hardest = new Uint8Array(32);
    hardest[31] = 1;
    assert.deepEqual(difficultyMultiplier(hardest), { num: (1n << 256n) - 1n, den: 1n });
    assert.equal(compareRational(difficultyMultiplier(BASE_TARGET), rational(1n)), 0);
    assert.throws(() => difficultyMultiplier(new Uint8Array(32)), { code: "INTERNAL" });
  });

  test("a relay counts only below the target, byte by byte", () => {
    const target = hex(`00${"ff".repeat(31)}`);
    assert.equal(isRelayApplicable(hex(`000f${"ff".repeat(30)}`), target), true);
    assert.equal(isRelayApplicable(target, target), false);
    assert.equal(isRelayApplicable(hex(`0e${"ff".repeat(31)}`), target), false);
    assert.equal(isRelayApplicable(BASE_TARGET, BASE_TARGET), false);
  });

  test("a service that never settled has the base target, at height 0 for the past", () => {
    const past = { serviceId: "x", blockHeight: 0n, numRelaysEma: 12n, targetHash: BASE_TARGET };
    assert.deepEqual(difficultyAt("x", [], 12n, 99n), past);
    assert.deepEqual(difficultyOfUnusedService("x", 12n, 7n), { ...past, blockHeight: 7n });
  });

  test("recorded: the difficulty of any height is the last entry that is not later", () => {
    const [anvil] = Object.values(readRecorded("e2e-7").relay_mining_difficulty);
    const history = anvil?.history.relayMiningDifficultyHistory ?? [];
    const updates = history.map(({ effective_height, difficulty }) => ({
      effectiveHeight: BigInt(effective_height),
      difficulty: {
        serviceId: difficulty.service_id,
        blockHeight: BigInt(difficulty.block_height),
        numRelaysEma: BigInt(difficulty.num_relays_ema),
        targetHash: base64(difficulty.target_hash),
      },
    }));
    const ema = (height: bigint) => difficultyAt("anvil", updates, 10n, height).numRelaysEma;
    assert.deepEqual([1164n, 1165n, 1230n, 1231n, 1290n, 1291n, 9999n].map(ema), [10n, 1n, 1n, 3n, 3n, 13n, 18n]);
    // Each target of the record follows from its average and the parameter of that time.
    for (const { difficulty } of updates) {
      const targets = [10n, 12n].map((wanted) => bytesToHex(targetForEma(wanted, difficulty.numRelaysEma)));
      assert.ok(targets.includes(bytesToHex(difficulty.targetHash)));
    }
  });

  test("the first settlement takes its relays as the average and writes two entries; later ones write one", () => {
    const input = { serviceId: "x", targetNumRelays: 12n, currentHeight: 1925n, nextSessionStartHeight: 1931n };
    const first = updateDifficulty({ ...input, numRelays: 53n, previous: undefined, hasHistory: false });
    assert.deepEqual(
      first.history.map(({ effectiveHeight, difficulty }) => [effectiveHeight, difficulty.numRelaysEma]),
      [
        [1925n, 53n],
        [1931n, 53n],
      ],
    );
    const second = updateDifficulty({ ...input, numRelays: 100n, previous: first.current, hasHistory: true });
    assert.equal(second.history.length, 1);
    assert.equal(second.event.value.prevNumRelaysEma, 53n);
    assert.equal(second.current.numRelaysEma, 57n);
  });
});
