import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { type BudgetInput, claimableRelays, SessionBudget } from "./session-budget.ts";

const INPUT: BudgetInput = {
  applicationStakeUpokt: 1_000n,
  earlier: [],
  unsettledPercent: 10,
  perSessionSpendLimitUpokt: undefined,
  pendingSessions: 2n,
  services: 1,
  suppliers: 5,
  inflationMillionths: 0n,
  computeUnitsPerRelay: 1n,
  computeUnitsToTokensMultiplier: 1n,
  computeUnitCostGranularity: 1n,
};
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

suite("the budget of a session", () => {
  test("is the supplier's part of the stake, of each of the application's services", () => {
    assert.equal(claimableRelays(INPUT), 100n);
    assert.equal(claimableRelays({ ...INPUT, services: 2 }), 50n);
    assert.equal(claimableRelays({ ...INPUT, perSessionSpendLimitUpokt: 100n }), 20n);
    assert.equal(claimableRelays({ ...INPUT, inflationMillionths: 100_000n }), 90n);
  });

  test("counts earlier sessions by this supplier's own work where it was alone, else by all that may be claimed", () => {
    const one = { pendingSessions: 2n, ownUpokt: 200n };
    assert.equal(claimableRelays({ ...INPUT, earlier: [{ ...one, isAlone: true }] }), 80n);
    assert.equal(claimableRelays({ ...INPUT, earlier: [{ ...one, isAlone: false }] }), 50n);
    const spent = { pendingSessions: 1n, ownUpokt: 950n, isAlone: false };
    // Nothing is sure; a tenth of the part is at risk, but not more than this supplier itself left.
    assert.equal(claimableRelays({ ...INPUT, earlier: [spent] }), 5n);
    assert.equal(claimableRelays({ ...INPUT, earlier: [{ ...spent, ownUpokt: 10n }] }), 10n);
    assert.equal(claimableRelays({ ...INPUT, earlier: [{ ...spent, ownUpokt: 10n }], unsettledPercent: 0 }), 0n);
    assert.equal(claimableRelays({ ...INPUT, earlier: [{ ...spent, ownUpokt: 10n }], unsettledPercent: 100 }), 99n);
  });

  test("without a part at risk is paid whatever others claimed of earlier sessions", () => {
    const amount = fc.bigInt({ min: 0n, max: 10n ** 12n });
    const session = fc.record({
      pendingSessions: fc.bigInt({ min: 1n, max: 4n }),
      ownUpokt: amount,
      othersUpokt: amount,
      isAlone: fc.boolean(),
    });
    const input = fc.record({
      stake: amount,
      sessions: fc.array(session, { maxLength: 5 }),
      pendingSessions: fc.bigInt({ min: 1n, max: 4n }),
      suppliers: fc.integer({ min: 1, max: 50 }),
      inflationMillionths: fc.bigInt({ min: 0n, max: 200_000n }),
    });
    fc.assert(
      fc.property(input, ({ stake, sessions, pendingSessions, suppliers, inflationMillionths }) => {
        const relays = claimableRelays({
          ...INPUT,
          applicationStakeUpokt: stake,
          earlier: sessions,
          pendingSessions,
          suppliers,
          inflationMillionths,
          unsettledPercent: 0,
        });
        let remaining = stake;
        for (const { ownUpokt, othersUpokt, isAlone, pendingSessions: pending } of sessions) {
          remaining -= least(remaining / pending, ownUpokt + (isAlone ? 0n : othersUpokt));
        }
        const paid = remaining / pendingSessions / BigInt(suppliers);
        assert.ok(relays + (relays * inflationMillionths) / 1_000_000n <= paid);
      }),
    );
  });

  test("is halved once, never below what is served, and not raised after that", () => {
    const budget = new SessionBudget(2n);
    assert.equal(budget.acquire(), false);
    budget.raise(7n);
    budget.raise(5n);
    assert.equal(budget.limitRelays, 7n);
    budget.halve();
    budget.halve();
    budget.raise(7n);
    assert.equal(budget.limitRelays, 4n);
    assert.deepEqual([budget.acquire(), budget.acquire(), budget.acquire()], [true, true, false]);
  });
});
