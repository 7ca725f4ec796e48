import assert from "node:assert/strict";
import { test } from "node:test";
import { moduleAddressBytes } from "@turnpike/crypto";
import { fc } from "@turnpike/testkit/property";
import {
  addClaim,
  makeEconomy,
  SERVICE,
  sumOfBalances,
  sumsOfStakes,
} from "../../../test/modules/tokenomics/economy.ts";
import { blockAt, contextAt, settlementMachine } from "../../../test/modules/tokenomics/recorded.ts";
import { Overlay } from "../../state/overlay.ts";
import { getBalance, getSupply } from "../bank/balances.ts";
import { claims } from "../proof/state.ts";
import { getSharedParams, sharedParamsHistory } from "../shared/state.ts";

const machine = settlementMachine();
const STAKE = fc.bigInt({ min: 1n, max: 10n ** 12n });
const UNITS = 7n;

const SHARES = fc.tuple(fc.nat(2000), fc.nat(2000), fc.nat(2000), fc.nat(2000)).map(([a, b, c, d]) => {
  const parts = [a, b, c, d, 10_000 - a - b - c - d].map((part) => part / 10_000);
  return [parts[0] ?? 0, parts[1] ?? 0, parts[4] ?? 0, parts[2] ?? 0, parts[3] ?? 0] as const;
});

const HISTORY = fc.record({
  applicationStakes: fc.array(STAKE, { minLength: 1, maxLength: 3 }),
  supplierStakes: fc.array(STAKE, { minLength: 1, maxLength: 4 }),
  limited: fc.option(fc.bigInt({ min: 1n, max: 10n ** 9n }), { nil: undefined }),
  shares: SHARES,
  mintRatio: fc.constantFrom(1, 0.975, 0.5, 0.001),
  globalInflationPerClaim: fc.constantFrom(0, 0.1, 0.05, 0.000001),
  overservicingBonusMultiplier: fc.constantFrom(0n, 1n, 3n, 1000n),
  proofRequestProbability: fc.constantFrom(0, 0.3, 1),
  proofRequirementThreshold: fc.constantFrom(10n ** 30n, 10n ** 6n, 0n),
  penaltyUpokt: fc.constantFrom(0n, 1n, 1_000_000n, 10n ** 13n),
  minStakeUpokt: fc.constantFrom(1n, 10n ** 6n, 10n ** 11n),
  claims: fc.array(
    fc.record({
      application: fc.nat({ max: 3 }),
      supplier: fc.nat({ max: 4 }),
      end: fc.constantFrom(20n, 30n, 40n),
      relays: fc.oneof(fc.bigInt({ min: 1n, max: 10n ** 6n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
      units: fc.constantFrom(UNITS, UNITS, UNITS, 8n),
      status: fc.constantFrom(0 as const, 1 as const, 2 as const),
      serviceId: fc.constantFrom(SERVICE, SERVICE, SERVICE, "gone"),
    }),
    { maxLength: 14 },
  ),
});

test("in every history the supply is the sum of the balances after each block, and stakes are what their modules hold", () => {
  fc.assert(
    fc.property(HISTORY, (history) => {
      const { mintRatio, globalInflationPerClaim, overservicingBonusMultiplier, shares, limited, ...rest } = history;
      const { state } = makeEconomy({
        ...rest,
        ...(limited === undefined ? {} : { spendLimitUpokt: limited }),
        computeUnitsPerRelay: UNITS,
        tokenomics: { mintRatio, globalInflationPerClaim, overservicingBonusMultiplier, shares },
      });
      const ctx = contextAt(state, 15n);
      for (const claim of history.claims) addClaim(ctx, claim);
      for (const height of [29n, 30n, 31n, 40n, 50n]) {
        const { changes } = machine.runBlock(state, blockAt(height, new Uint8Array(32)), []);
        for (const [key, value] of changes) {
          if (value === undefined) state.delete(key);
          else state.set(key, value);
        }
        assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
        const stakes = sumsOfStakes(ctx);
        assert.equal(getBalance(ctx, moduleAddressBytes("application"), "upokt"), stakes.application);
        assert.equal(getBalance(ctx, moduleAddressBytes("supplier"), "upokt"), stakes.supplier);
        assert.equal(getBalance(ctx, moduleAddressBytes("tokenomics"), "upokt"), 0n);
      }
      assert.deepEqual([...claims.entries(ctx)], []);
    }),
    { numRuns: 120 },
  );
});

test("two sessions of an application that settle in one block cannot take more than its stake", () => {
  const { state, ctx } = makeEconomy({
    applicationStakes: [100_000n],
    supplierStakes: [1000n, 1000n],
    computeUnitsPerRelay: UNITS,
    tokenomics: {},
    proofRequestProbability: 0,
    penaltyUpokt: 0n,
    minStakeUpokt: 1n,
  });
  // The proof window was ten blocks longer until block 31: the sessions that end at 30 and at 40 both settle at 50.
  const params = getSharedParams(ctx);
  sharedParamsHistory.set(ctx, 1n, { ...params, proofWindowCloseOffsetBlocks: 14n });
  sharedParamsHistory.set(ctx, 31n, params);
  addClaim(ctx, { application: 0, supplier: 0, end: 30n, relays: 200n, units: UNITS });
  // Its work can be burned, and then the inflation of it cannot be paid: it gets what the first session leaves.
  addClaim(ctx, { application: 0, supplier: 1, end: 40n, relays: 163n, units: UNITS });
  const ended: string[] = [];
  for (let height = 40n; height <= 80n; height++) {
    const { changes, events } = machine.runBlock(state, blockAt(height, new Uint8Array(32)), []);
    for (const [key, value] of changes) {
      if (value === undefined) state.delete(key);
      else state.set(key, value);
    }
    ended.push(
      ...events.filter(({ type }) => /Claim(Settled|Discarded)$/.test(type)).map(({ type }) => `${height} ${type}`),
    );
    assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
    assert.equal(getBalance(ctx, moduleAddressBytes("tokenomics"), "upokt"), 0n);
    assert.equal(getBalance(ctx, moduleAddressBytes("application"), "upokt"), sumsOfStakes(ctx).application);
  }
  assert.deepEqual([...claims.entries(ctx)], []);
  const event = "pocket.tokenomics.EventClaim";
  assert.deepEqual(ended.sort(), [`50 ${event}Settled`, `50 ${event}Settled`]);
});

test("the same claims in any order of writing settle to the same state and events", () => {
  const make = (order: readonly number[]) => {
    const { state, ctx } = makeEconomy({
      applicationStakes: [10n ** 9n, 10n ** 8n],
      supplierStakes: [10n ** 7n, 10n ** 7n, 10n ** 7n, 10n ** 7n],
      computeUnitsPerRelay: UNITS,
      tokenomics: {},
      proofRequestProbability: 0.4,
      penaltyUpokt: 1000n,
      minStakeUpokt: 1n,
    });
    for (const i of order)
      addClaim(ctx, { application: i % 2, supplier: i >> 1, end: 20n, relays: BigInt(i + 3), units: UNITS });
    const outcome = machine.runBlock(new Overlay(state), blockAt(30n, new Uint8Array(32)), []);
    return {
      events: outcome.events,
      changes: outcome.changes.map(([key]) => Buffer.from(key).toString("latin1")).sort(),
    };
  };
  const first = make([0, 1, 2, 3, 4, 5, 6, 7]);
  assert.ok(first.events.length > 10);
  assert.deepEqual(make([7, 3, 1, 5, 0, 2, 6, 4]), first);
});
