import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { account } from "../../test/records.ts";
import { float64ToRational } from "../rational.ts";
import { aggregateOperations } from "./aggregate.ts";
import { capClaim, inflationUpokt, newSessionBudget, stakeCostUpokt } from "./budget.ts";
import { splitMint } from "./modules.ts";
import { OP_REASON } from "./reasons.ts";
import { payShareholders, splitByRevenueShare } from "./supplier-share.ts";
import type { Operation, SettlementValidator } from "./types.ts";
import {
  commissionUpokt,
  decimalText,
  distributeValidatorRewards,
  splitByWeight,
  tokensFromShares,
} from "./validators.ts";

const ONE = 10n ** 18n;
const POOL = OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_VALIDATOR_REWARD_DISTRIBUTION;
const DELEGATORS = OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_DELEGATOR_REWARD_DISTRIBUTION;
const amount = fc.bigInt({ min: 0n, max: 1n << 70n });

const validator = (name: string, tokens: bigint, over: Partial<SettlementValidator> = {}): SettlementValidator => ({
  operatorAddress: `op-${name}`,
  accountAddress: account(name),
  tokensUpokt: tokens,
  delegatorShares: tokens * ONE,
  commissionRate: 0n,
  delegations: [{ delegatorAddress: account(name), shares: tokens * ONE }],
  ...over,
});

suite("supplier shares", () => {
  test("each share is rounded down, the first takes the rest", () => {
    const shares = [33n, 33n, 34n].map((revSharePercentage, at) => ({
      address: account(`a${at}`),
      revSharePercentage,
    }));
    const split = splitByRevenueShare(shares, 10n);
    assert.ok(split.ok);
    assert.deepEqual([...split.amounts.values()], [4n, 3n, 3n]);
  });

  test("whatever the shares, all of the amount is paid", () => {
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 10 });
    fc.assert(
      fc.property(cuts, amount, (list, total) => {
        const edges = [0, ...list.toSorted((a, b) => a - b), 100];
        const shares = edges.slice(1).map((edge, at) => ({
          address: account(`a${at}`),
          revSharePercentage: BigInt(edge - (edges[at] ?? 0)),
        }));
        const split = splitByRevenueShare(shares, total);
        assert.ok(split.ok);
        assert.equal(
          [...split.amounts.values()].reduce((sum, each) => sum + each, 0n),
          total,
        );
      }),
    );
  });

  test("attack: shares that do not add up to 100, or name one account twice, pay the owner", () => {
    const supplier = {
      operatorAddress: "op",
      ownerAddress: account("owner"),
      stakeUpokt: 0n,
      unstakeSessionEndHeight: 0n,
      services: [],
    };
    const shares = (list: readonly (readonly [string, bigint])[]) =>
      list.map(([address, revSharePercentage]) => ({ address: account(address), revSharePercentage }));
    const options = { supplier, serviceId: "svc", sessionEndHeight: 10n, reason: POOL, amountUpokt: 50n };
    for (const list of [
      [
        ["a", 60n],
        ["b", 60n],
      ],
      [["a", 10n]],
      [
        ["a", 50n],
        ["a", 50n],
      ],
    ] as const) {
      const payout = payShareholders({ ...options, shares: shares(list) });
      assert.ok(payout.ok);
      assert.deepEqual(
        payout.transfers.map((t) => [t.kind === "mod_to_acct" ? t.recipient : "", t.amountUpokt]),
        [["owner", 50n]],
      );
      assert.equal(payout.events.length, 1);
    }
    assert.equal(payShareholders({ ...options, shares: [] }).ok, false);
  });

  test("the DAO takes what is left of a mint", () => {
    const rates = {
      supplier: float64ToRational(0.79),
      proposer: float64ToRational(0.14),
      sourceOwner: float64ToRational(0.025),
      application: float64ToRational(0),
    };
    assert.deepEqual(splitMint(1000n, rates), {
      supplier: 790n,
      proposer: 140n,
      sourceOwner: 25n,
      dao: 45n,
      application: 0n,
    });
    assert.deepEqual(splitMint(1n, rates), { supplier: 0n, proposer: 0n, sourceOwner: 0n, dao: 1n, application: 0n });
    assert.throws(() => splitMint(1000n, { ...rates, application: float64ToRational(0.5) }), { code: "INTERNAL" });
  });
});

suite("session budget", () => {
  const inflation = float64ToRational(0.05);

  test("inflation is rounded up, so that only nothing costs nothing", () => {
    assert.deepEqual(
      [0n, 1n, 20n, 21n, 40n].map((settled) => inflationUpokt(settled, inflation)),
      [0n, 1n, 1n, 2n, 2n],
    );
    assert.deepEqual([stakeCostUpokt(21n, inflation), stakeCostUpokt(0n, inflation)], [23n, 0n]);
  });

  test("a capped claim and its inflation fit into the floor", () => {
    const budget = newSessionBudget({
      stakeUpokt: 1000n,
      pendingSessions: 3n,
      numClaims: 2n,
      spendLimitUpokt: undefined,
    });
    assert.deepEqual([budget.floorUpokt, budget.spendLimitExceeded], [166n, false]);
    assert.deepEqual(capClaim(budget, 158n, inflation, 1n), { settledUpokt: 158n });
    assert.deepEqual(capClaim(budget, 159n, inflation, 1n), {
      settledUpokt: 158n,
      overserviced: { expectedBurnUpokt: 167n, effectiveBurnUpokt: 166n },
    });
    fc.assert(
      fc.property(amount, amount, (stakeUpokt, claimed) => {
        const some = newSessionBudget({ stakeUpokt, pendingSessions: 2n, numClaims: 3n, spendLimitUpokt: undefined });
        const { settledUpokt } = capClaim(some, claimed, inflation, 1n);
        assert.ok(stakeCostUpokt(settledUpokt, inflation) <= some.floorUpokt || settledUpokt === 0n);
        if (settledUpokt < claimed) assert.ok(stakeCostUpokt(settledUpokt + 1n, inflation) > some.floorUpokt);
      }),
    );
  });
});

suite("validator rewards", () => {
  test("the largest remainders get the units that are left, equal ones by address", () => {
    const weights = new Map([
      ["b", 1n],
      ["a", 1n],
      ["c", 1n],
    ]);
    assert.deepEqual(Object.fromEntries(splitByWeight(weights, 3n, 5n)), { b: 2n, a: 2n, c: 1n });
    assert.deepEqual(
      Object.fromEntries(
        splitByWeight(
          new Map([
            ["a", 3n],
            ["b", 1n],
          ]),
          4n,
          3n,
        ),
      ),
      { a: 2n, b: 1n },
    );
  });

  test("all of a total is shared, to within one unit of each exact part", () => {
    const stake = fc.bigInt({ min: 1n, max: 1n << 60n });
    fc.assert(
      fc.property(fc.array(stake, { minLength: 1, maxLength: 20 }), amount, (stakes, total) => {
        const weights = new Map(stakes.map((each, at) => [`v${at}`, each]));
        const sum = stakes.reduce((all, each) => all + each, 0n);
        const parts = splitByWeight(weights, sum, total);
        let paid = 0n;
        for (const [address, part] of parts) {
          const exact = (weights.get(address) ?? 0n) * total;
          assert.ok(part * sum > exact - sum && part * sum < exact + sum);
          paid += part;
        }
        assert.equal(paid, total);
      }),
    );
  });

  test("commission is taken first and rounded down", () => {
    assert.deepEqual(
      [
        commissionUpokt(16_978n, ONE / 10n),
        commissionUpokt(9n, ONE),
        commissionUpokt(9n, 2n * ONE),
        commissionUpokt(9n, -1n),
      ],
      [1697n, 9n, 9n, 0n],
    );
    assert.equal(decimalText(ONE / 10n), "0.100000000000000000");
    assert.equal(decimalText(12n * ONE + 5n), "12.000000000000000005");
  });

  test("shares of a slashed validator are worth less, with the staking module's rounding", () => {
    const slashed = validator("v", 2n, { delegatorShares: 3n * ONE });
    assert.equal(tokensFromShares(3n * ONE, slashed), 2n);
    assert.equal(tokensFromShares(ONE, slashed), 0n);
    assert.equal(tokensFromShares(ONE, { ...slashed, delegatorShares: 0n }), 0n);
    // 2.9999…(19 nines) is rounded to 18 places, so to 3, before it is truncated.
    assert.equal(
      tokensFromShares(3n * 10n ** 19n - 1n, validator("v", 10n ** 19n, { delegatorShares: 10n ** 38n })),
      3n,
    );
  });

  test("validators are paid by stake, delegators by share, and one who is both as validator", () => {
    const validators = [
      validator("b", 300n, {
        commissionRate: ONE / 10n,
        delegations: [
          { delegatorAddress: account("b"), shares: 100n * ONE },
          { delegatorAddress: account("x"), shares: 150n * ONE },
          { delegatorAddress: account("a"), shares: 50n * ONE },
        ],
      }),
      validator("a", 100n),
      validator("empty", 0n),
    ];
    const { transfers, events } = distributeValidatorRewards(validators, 400n, POOL, 77n, account("dao"));
    assert.deepEqual(
      transfers.map((t) => [t.kind === "mod_to_acct" ? t.recipient : "", t.amountUpokt, t.reason]),
      [
        ["a", 145n, POOL],
        ["b", 120n, POOL],
        ["x", 135n, DELEGATORS],
      ],
    );
    assert.deepEqual(
      events.map(
        ({ value }) =>
          "validatorAccountAddress" in value && [
            value.validatorAccountAddress,
            value.poolShareUpokt,
            value.commissionUpokt,
            value.selfDelegationRewardUpokt,
            value.delegatorsRewardUpokt,
            value.numDelegators,
          ],
      ),
      [
        ["a", "100", "0", "100", "0", 0],
        ["b", "300", "30", "90", "180", 2],
      ],
    );
  });

  test("a validator without delegations keeps its part; without validators the DAO takes it", () => {
    const { transfers } = distributeValidatorRewards(
      [validator("a", 5n, { delegations: [] })],
      9n,
      POOL,
      1n,
      account("dao"),
    );
    assert.deepEqual(
      transfers.map((t) => t.amountUpokt),
      [9n],
    );
    const [toDao, ...more] = distributeValidatorRewards([], 9n, POOL, 1n, account("dao")).transfers;
    assert.ok(toDao?.kind === "mod_to_acct");
    assert.deepEqual([toDao.recipient, toDao.amountUpokt, more.length], ["dao", 9n, 0]);
    assert.deepEqual(distributeValidatorRewards([validator("a", 5n)], 0n, POOL, 1n, account("dao")), {
      transfers: [],
      events: [],
    });
  });

  test("no unit is lost between pool and accounts", () => {
    const stake = fc.bigInt({ min: 1n, max: 1n << 50n });
    const many = fc.array(fc.tuple(stake, fc.bigInt({ min: 0n, max: ONE }), fc.array(stake, { maxLength: 5 })), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(many, fc.bigInt({ min: 1n, max: 1n << 60n }), (list, total) => {
        const validators = list.map(([own, commissionRate, others], at) => {
          const tokens = others.reduce((sum, each) => sum + each, own);
          return validator(`v${at}`, tokens, {
            commissionRate,
            delegations: [own, ...others].map((each, i) => ({
              delegatorAddress: account(i === 0 ? `v${at}` : `d${i}`),
              shares: each * ONE,
            })),
          });
        });
        const { transfers } = distributeValidatorRewards(validators, total, POOL, 1n, account("dao"));
        assert.equal(
          transfers.reduce((sum, { amountUpokt }) => sum + amountUpokt, 0n),
          total,
        );
      }),
    );
  });
});

suite("aggregation", () => {
  test("mints, moves, payouts, burns; then parties and reason as text, so that 19 comes before 3", () => {
    const pay = (recipient: string, amountUpokt: bigint): Operation => ({
      kind: "mod_to_acct",
      sender: "tokenomics",
      recipient: account(recipient),
      reason: OP_REASON.TLM_GLOBAL_MINT_DAO_REWARD_DISTRIBUTION,
      amountUpokt,
    });
    const mint = (reason: 3 | 19, amountUpokt: bigint): Operation => ({
      kind: "mint",
      module: "tokenomics",
      reason,
      amountUpokt,
    });
    const burn: Operation = { kind: "burn", module: "application", reason: 2, amountUpokt: 1n };
    const move: Operation = {
      kind: "mod_to_mod",
      sender: "tokenomics",
      recipient: "supplier",
      reason: 4,
      amountUpokt: 2n,
    };
    const batches = aggregateOperations([
      burn,
      pay("b", 1n),
      mint(3, 4n),
      move,
      pay("a", 2n),
      mint(19, 5n),
      pay("b", 7n),
      burn,
    ]);
    assert.deepEqual(
      batches.map(({ operation, numClaims }) => [operation.kind, operation.reason, operation.amountUpokt, numClaims]),
      [
        ["mint", 19, 5n, 1],
        ["mint", 3, 4n, 1],
        ["mod_to_mod", 4, 2n, 1],
        ["mod_to_acct", 5, 2n, 1],
        ["mod_to_acct", 5, 8n, 2],
        ["burn", 2, 2n, 2],
      ],
    );
  });
});
