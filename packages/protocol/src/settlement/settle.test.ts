import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { account, readRecorded, settlementInput, sharedParams } from "../../test/records.ts";
import { CLAIM_STATUS } from "../claims.ts";
import { BASE_TARGET } from "../difficulty.ts";
import type { SettlementEvent } from "./events.ts";
import { settle } from "./settle.ts";
import type { Settlement } from "./settlement.ts";
import type { DueClaim, SettlementInput, TokenomicsParams } from "./types.ts";

const shared = sharedParams(readRecorded("e2e-4").params_at_settlement);
const model = settlementInput(readRecorded("e2e-4"));
const [MODEL_CLAIM] = model.claims;
assert.ok(MODEL_CLAIM);
const MODEL_TOKENOMICS: TokenomicsParams = MODEL_CLAIM.tokenomics;

interface ClaimSpec {
  readonly supplier: string;
  readonly relays: bigint;
  readonly application?: string;
  readonly status?: number;
}

/** A claim of relays that cost one upokt each. */
function due(
  { supplier, relays, application = "app", status = CLAIM_STATUS.validated }: ClaimSpec,
  setting: Setting = {},
): DueClaim {
  const { limit } = setting;
  const tail = Buffer.alloc(16);
  tail.writeBigUInt64BE(relays, 0);
  tail.writeBigUInt64BE(relays, 8);
  return {
    claim: {
      supplierOperatorAddress: supplier,
      sessionHeader: {
        applicationAddress: application,
        serviceId: "svc",
        sessionId: `session-${application}`,
        sessionStartBlockHeight: 1901n,
        sessionEndBlockHeight: 1910n,
      },
      rootHash: concatBytes(new Uint8Array(32), tail),
      proofValidationStatus: status,
    },
    targetHash: BASE_TARGET,
    computeUnitsPerRelay: 1n,
    pricing: { computeUnitsToTokensMultiplier: 1n, computeUnitCostGranularity: 1n },
    windows: shared,
    spendLimitUpokt: limit === 0n ? undefined : limit,
    numServices: 1n,
    serviceOwnerAddress: account("source"),
    revShare: [{ address: account(supplier), revSharePercentage: 100n }],
    tokenomics: {
      ...MODEL_TOKENOMICS,
      globalInflationPerClaim: setting.inflation ?? 0,
      mintRatio: setting.mintRatio ?? 1,
      overservicingBonusMultiplier: setting.multiplier ?? 1n,
    },
    proof: {
      proofRequestProbability: setting.probability ?? 1,
      proofRequirementThresholdUpokt: 1n << 80n,
      proofMissingPenaltyUpokt: setting.penalty ?? 0n,
    },
    proofSeedBlockHash: new Uint8Array(32),
  };
}

interface Setting {
  readonly stake?: bigint;
  readonly limit?: bigint;
  readonly inflation?: number;
  readonly mintRatio?: number;
  readonly multiplier?: bigint;
  readonly probability?: number;
  readonly penalty?: bigint;
  readonly minApplicationStake?: bigint;
  readonly minSupplierStake?: bigint;
}

/** A settlement of these claims; two sessions are pending, so a session may take half the stake. */
function inputOf(claims: readonly ClaimSpec[], setting: Setting = {}): SettlementInput {
  const suppliers = [...new Set(claims.map(({ supplier }) => supplier))];
  const applications = [...new Set(claims.map(({ application = "app" }) => application))];
  return {
    ...model,
    claims: claims.map((spec) => due(spec, setting)),
    applications: new Map(
      applications.map((address) => [
        address,
        {
          address: account(address),
          stakeUpokt: setting.stake ?? 1_000_000n,
          unstakeSessionEndHeight: 0n,
        },
      ]),
    ),
    suppliers: new Map(
      suppliers.map((operatorAddress) => [
        operatorAddress,
        {
          operatorAddress,
          ownerAddress: account(`owner-of-${operatorAddress}`),
          stakeUpokt: 1000n,
          unstakeSessionEndHeight: 0n,
          services: [{ serviceId: "svc", revShare: [{ address: account(operatorAddress), revSharePercentage: 100n }] }],
        },
      ]),
    ),
    minApplicationStakeUpokt: setting.minApplicationStake ?? 0n,
    minSupplierStakeUpokt: setting.minSupplierStake ?? 0n,
  };
}

type EventOf<Name extends SettlementEvent["type"]> = Extract<SettlementEvent, { type: Name }>["value"];

function eventsOf<Name extends SettlementEvent["type"]>(settlement: Settlement, type: Name): EventOf<Name>[] {
  return settlement.events.flatMap((event) => (event.type === type ? [event.value as EventOf<Name>] : []));
}

const settledAmounts = (settlement: Settlement) =>
  eventsOf(settlement, "pocket.tokenomics.EventClaimSettled").map(({ settledUpokt }) => settledUpokt);

/** What every module account is left with. */
function moduleSums(settlement: Settlement): Record<string, bigint> {
  const sums: Record<string, bigint> = { application: 0n, supplier: 0n, tokenomics: 0n };
  const add = (module: string, amount: bigint) => {
    sums[module] = (sums[module] ?? 0n) + amount;
  };
  for (const operation of settlement.operations) {
    assert.ok(operation.amountUpokt >= 0n);
    if (operation.kind === "mint") add(operation.module, operation.amountUpokt);
    else if (operation.kind === "burn") add(operation.module, -operation.amountUpokt);
    else add(operation.sender, -operation.amountUpokt);
    if (operation.kind === "mod_to_mod") add(operation.recipient, operation.amountUpokt);
  }
  return sums;
}

const claimSpecs = fc.array(
  fc.record({
    supplier: fc.constantFrom("s1", "s2", "s3", "s4"),
    application: fc.constantFrom("app", "other"),
    relays: fc.bigInt({ min: 1n, max: 10_000_000n }),
    status: fc.constantFrom(CLAIM_STATUS.pending, CLAIM_STATUS.validated, CLAIM_STATUS.invalid),
  }),
  { maxLength: 8 },
);
const settings = fc.record({
  stake: fc.bigInt({ min: 0n, max: 100_000_000n }),
  limit: fc.bigInt({ min: 0n, max: 1_000_000n }),
  inflation: fc.constantFrom(0, 0.1, 0.05, 0.000001),
  mintRatio: fc.constantFrom(1, 0.975, 0.5),
  multiplier: fc.bigInt({ min: 0n, max: 6n }),
  probability: fc.constantFrom(0, 0.5, 1),
  penalty: fc.bigInt({ min: 0n, max: 2000n }),
  minApplicationStake: fc.bigInt({ min: 0n, max: 50_000_000n }),
  minSupplierStake: fc.bigInt({ min: 0n, max: 1000n }),
});

suite("settlement", () => {
  test("money: what is minted is paid out, what stakes lose leaves their modules, no stake goes below zero", () => {
    fc.assert(
      fc.property(claimSpecs, settings, (claims, setting) => {
        const input = inputOf(claims, setting);
        const settlement = settle(input);
        const sums = moduleSums(settlement);
        let lost = 0n;
        for (const application of settlement.changes.applications) {
          assert.ok(application.stakeUpokt >= 0n);
          lost += (input.applications.get(application.address)?.stakeUpokt ?? 0n) - application.stakeUpokt;
        }
        let slashed = 0n;
        for (const supplier of settlement.changes.suppliers) {
          assert.ok(supplier.stakeUpokt >= 0n);
          slashed += (input.suppliers.get(supplier.operatorAddress)?.stakeUpokt ?? 0n) - supplier.stakeUpokt;
        }
        assert.equal(sums.tokenomics, 0n);
        assert.equal(sums.supplier, -slashed);
        assert.equal(sums.application, -lost);
        assert.equal(settlement.numSettled + settlement.numExpired + settlement.numDiscarded, claims.length);
      }),
      { numRuns: 300 },
    );
  });

  test("attack: no session takes more than its part of the stake or the spend limit, inflation and bonus included", () => {
    fc.assert(
      fc.property(claimSpecs, settings, (claims, setting) => {
        const input = inputOf(claims, setting);
        const settlement = settle(input);
        for (const { address, stakeUpokt } of settlement.changes.applications) {
          const before = input.applications.get(address)?.stakeUpokt ?? 0n;
          const half = before / 2n;
          const most = setting.limit > 0n && setting.limit < half ? setting.limit : half;
          assert.ok(before - stakeUpokt <= most);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("the order of the store's maps and of validators changes nothing", () => {
    const validators = ["a", "c", "b"].map((name, at) => ({
      operatorAddress: `op-${name}`,
      accountAddress: account(name),
      tokensUpokt: 7n + BigInt(at),
      delegatorShares: (7n + BigInt(at)) * 10n ** 18n,
      commissionRate: 10n ** 17n,
      delegations: [
        { delegatorAddress: account(name), shares: 5n * 10n ** 18n },
        { delegatorAddress: account("x"), shares: (2n + BigInt(at)) * 10n ** 18n },
      ],
    }));
    fc.assert(
      fc.property(claimSpecs, settings, (claims, setting) => {
        const input = { ...inputOf(claims, setting), validators };
        const turned = {
          ...input,
          applications: new Map([...input.applications].toReversed()),
          suppliers: new Map([...input.suppliers].toReversed()),
          validators: validators
            .toReversed()
            .map((validator) => ({ ...validator, delegations: validator.delegations.toReversed() })),
        };
        assert.deepEqual(settle(turned), settle(input));
      }),
      { numRuns: 50 },
    );
  });

  test("a claim at its floor is paid in full, one above it up to the floor", () => {
    const settlement = settle(
      inputOf([
        { supplier: "s1", relays: 250_000n },
        { supplier: "s2", relays: 250_001n },
      ]),
    );
    assert.deepEqual(settledAmounts(settlement), ["250000upokt", "250000upokt"]);
    const [over] = eventsOf(settlement, "pocket.tokenomics.EventApplicationOverserviced");
    assert.deepEqual(
      [over?.supplierOperatorAddr, over?.expectedBurn, over?.effectiveBurn, over?.spendLimitExceeded],
      ["s2", "250001upokt", "250000upokt", false],
    );
  });

  test("the bonus shares what others leave, up to the multiplier; a multiplier of 0 is 1", () => {
    const claims = [
      { supplier: "s1", relays: 50_000n },
      { supplier: "s2", relays: 500_000n },
    ];
    const settled = (multiplier: bigint) => settledAmounts(settle(inputOf(claims, { multiplier })));
    assert.deepEqual(settled(0n), ["50000upokt", "250000upokt"]);
    assert.deepEqual(settled(1n), ["50000upokt", "250000upokt"]);
    assert.deepEqual(settled(2n), ["50000upokt", "450000upokt"]);
    const limited = settledAmounts(settle(inputOf(claims, { multiplier: 9n, limit: 100_000n })));
    assert.deepEqual(limited, ["50000upokt", "50000upokt"]);
  });

  test("attack: a huge claim that will expire takes nothing of the others' bonus", () => {
    const honest = [
      { supplier: "s1", relays: 10_000n },
      { supplier: "s2", relays: 400_000n },
    ];
    const griefer = { supplier: "s3", relays: 1n << 62n, status: CLAIM_STATUS.pending };
    const settlement = settle(inputOf([...honest, griefer], { multiplier: 9n }));
    // The floor is a third of the session's half, as every claim counts; the bonus is what s1 leaves of its own.
    assert.deepEqual(settledAmounts(settlement), ["10000upokt", `${166_666n + 156_666n}upokt`]);
    assert.equal(settlement.numExpired, 1);
  });

  test("the reason of an expired claim says whether its proof was missing or invalid", () => {
    const settlement = settle(
      inputOf([
        { supplier: "s1", relays: 5n, status: CLAIM_STATUS.pending },
        { supplier: "s2", relays: 5n, status: CLAIM_STATUS.invalid },
      ]),
    );
    const reasons = eventsOf(settlement, "pocket.tokenomics.EventClaimExpired").map((event) => event.expirationReason);
    assert.deepEqual(reasons, [1, 2]);
    assert.deepEqual(settlement.settledRelays, []);
  });

  test("slashing takes at most the stake, adds up, and below the minimum unbonds once", () => {
    const claims = ["app", "other", "third"].map((application) => ({
      supplier: "s1",
      relays: 5n,
      application,
      status: CLAIM_STATUS.pending,
    }));
    const settlement = settle(inputOf(claims, { penalty: 400n, minSupplierStake: 700n }));
    assert.deepEqual(
      eventsOf(settlement, "pocket.tokenomics.EventSupplierSlashed").map((e) => [
        e.proofMissingPenalty,
        e.supplierStakeAfterSlash,
      ]),
      [
        ["400upokt", "600upokt"],
        ["400upokt", "200upokt"],
        ["200upokt", "0upokt"],
      ],
    );
    const [begin, ...more] = eventsOf(settlement, "pocket.supplier.EventSupplierUnbondingBegin");
    assert.deepEqual(
      [begin?.supplier.stakeUpokt, begin?.sessionEndHeight, begin?.unbondingEndHeight, more.length],
      [600n, 1930n, 1930n, 0],
    );
    assert.deepEqual(
      settlement.changes.suppliers.map((s) => [s.stakeUpokt, s.unstakeSessionEndHeight]),
      [[0n, 1930n]],
    );
    assert.deepEqual(
      settlement.events.slice(0, 3).map(({ type }) => type.split(".").at(-1)),
      Array(3).fill("EventClaimExpired"),
    );
  });

  test("an application below its minimum begins to unbond, and the event comes before the claim's own", () => {
    const settlement = settle(inputOf([{ supplier: "s1", relays: 300_000n }], { minApplicationStake: 700_001n }));
    const types = settlement.events.map(({ type }) => type.split(".").at(-1));
    assert.ok(types.indexOf("EventApplicationUnbondingBegin") < types.indexOf("EventClaimSettled"));
    const [begin] = eventsOf(settlement, "pocket.application.EventApplicationUnbondingBegin");
    assert.deepEqual(
      [begin?.application.stakeUpokt, begin?.sessionEndHeight, begin?.unbondingEndHeight],
      [700_000n, 1930n, 1950n],
    );
    assert.equal(settlement.changes.applications[0]?.unstakeSessionEndHeight, 1930n);
  });

  test("a claim worth nothing settles without moving money", () => {
    const input = inputOf([{ supplier: "s1", relays: 5n }], { stake: 0n, inflation: 0.1 });
    const settlement = settle(input);
    assert.deepEqual(settlement.operations, []);
    assert.deepEqual(settledAmounts(settlement), ["0upokt"]);
    assert.deepEqual(settlement.settledRelays, [{ serviceId: "svc", numRelays: 5n }]);
  });

  test("faulty claims are discarded, and the others are settled", () => {
    const input = inputOf([
      { supplier: "s1", relays: 5n },
      { supplier: "s2", relays: 5n },
      { supplier: "s3", relays: 5n },
      { supplier: "s4", relays: 5n },
    ]);
    const [first, second, third, fourth] = input.claims;
    assert.ok(first !== undefined && second !== undefined && third !== undefined && fourth !== undefined);
    const suppliers = new Map(input.suppliers);
    suppliers.delete("s2");
    const claims = [{ ...first, computeUnitsPerRelay: 2n }, second, { ...third, revShare: [] }, fourth];
    const settlement = settle({ ...input, suppliers, claims });
    const errors = eventsOf(settlement, "pocket.tokenomics.EventClaimDiscarded").map(({ error }) => error);
    assert.deepEqual([settlement.numDiscarded, settlement.numSettled], [3, 1]);
    assert.match(
      errors[0] ?? "",
      /claim compute units \(5\) != number of relays \(5\) \* service compute units per relay \(2\)/,
    );
    assert.match(errors[1] ?? "", /chain halt: supplier not found: internal claim settlement error$/);
    assert.match(errors[2] ?? "", /service "svc" not found for supplier s3/);
    assert.equal(settlement.changes.removedClaims.length, 4);
    assert.equal(moduleSums(settlement).tokenomics, 0n);
  });

  test("a claim that is discarded half-way costs its application nothing and leaves no event but its own", () => {
    // Half of one upokt is nothing that could be minted.
    const settlement = settle(inputOf([{ supplier: "s1", relays: 1n }], { mintRatio: 0.5, inflation: 0.1 }));
    assert.deepEqual([settlement.numDiscarded, settlement.operations], [1, []]);
    assert.equal(settlement.changes.applications[0]?.stakeUpokt, 1_000_000n);
  });

  test("attack: two sessions of one application that are due at once share what it has", () => {
    const input = inputOf(
      [
        { supplier: "s1", relays: 500_000n },
        { supplier: "s2", relays: 460_000n },
      ],
      { inflation: 0.1 },
    );
    const [first, second] = input.claims;
    assert.ok(first !== undefined && second !== undefined);
    const windows = { ...second.windows, numBlocksPerSession: 1000n };
    const other = { ...second.claim.sessionHeader, sessionId: "another", sessionEndBlockHeight: 1920n };
    const next = { ...second, windows, claim: { ...second.claim, sessionHeader: other } };
    // The second is paid what the first leaves, where the real chain discards it.
    const both = settle({ ...input, claims: [{ ...first, windows }, next] });
    assert.deepEqual([both.numSettled, both.numDiscarded], [2, 0]);
    assert.deepEqual(settledAmounts(both), ["500000upokt", "409090upokt"]);
    assert.equal(both.changes.applications[0]?.stakeUpokt, 1n);
    assert.equal(moduleSums(both).application, -999_999n);
    // An application with two services has both sessions open at once: each has half.
    const sameEnd = { ...next.claim.sessionHeader, sessionEndBlockHeight: 1910n };
    const twin = { ...next, claim: { ...next.claim, sessionHeader: sameEnd }, numServices: 2n };
    const halves = settle({ ...input, claims: [{ ...first, windows, numServices: 2n }, twin] });
    assert.deepEqual(settledAmounts(halves), ["454545upokt", "454545upokt"]);
  });

  test("a claim that would take the supply out of its bounds is discarded", () => {
    const claims = ["s1", "s2", "s3"].map((supplier) => ({ supplier, relays: 1000n }));
    const input = inputOf(claims, { inflation: 0.1 });
    const minted = ({ operations }: Settlement): bigint =>
      operations.reduce((sum, { kind, amountUpokt }) => sum + (kind === "mint" ? amountUpokt : 0n), 0n);
    assert.equal(minted(settle(input)), 3300n);
    const settlement = settle({ ...input, mintRoomUpokt: 2200n });
    assert.deepEqual([settlement.numSettled, settlement.numDiscarded, minted(settlement)], [2, 1, 2200n]);
    assert.equal(settlement.changes.applications[0]?.stakeUpokt, 1_000_000n - 2200n);
  });

  test("attack: a proof that was found invalid never pays, whatever a second sample says", () => {
    const claims = [{ supplier: "s1", relays: 5n, status: CLAIM_STATUS.invalid }];
    for (const probability of [0, 0.5, 1]) {
      const settlement = settle(inputOf(claims, { probability, penalty: 7n }));
      assert.deepEqual([settlement.numSettled, settlement.numExpired], [0, 1]);
      assert.equal(settlement.changes.suppliers[0]?.stakeUpokt, 993n);
    }
  });

  test("an application that unbonds already keeps the height that it was told", () => {
    const input = inputOf([{ supplier: "s1", relays: 300_000n }], { minApplicationStake: 700_001n });
    const app = input.applications.get("app");
    assert.ok(app !== undefined);
    const applications = new Map([["app", { ...app, unstakeSessionEndHeight: 1910n }]]);
    const settlement = settle({ ...input, applications });
    assert.equal(settlement.changes.applications[0]?.unstakeSessionEndHeight, 1910n);
    assert.deepEqual(eventsOf(settlement, "pocket.application.EventApplicationUnbondingBegin"), []);
  });

  test("nothing due: nothing happens", () => {
    const settlement = settle(inputOf([]));
    assert.deepEqual([settlement.steps, settlement.changes.removedClaims], [[], []]);
  });
});
