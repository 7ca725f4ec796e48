import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import type { PayerKind, PaymentRecord } from "../types.ts";
import { GasCosts } from "./gas-costs.ts";

const GAS = { perTransfer: 120_000n, perWallet: 400_000n, perDeployment: 2_000_000n };
const HALF_LIFE_MS = 600_000;

const payment = (kind: PayerKind = "eoa", from = "0xa", signatureBytes = 65): PaymentRecord =>
  ({ kind, key: { from }, signature: new Uint8Array(signatureBytes) }) as PaymentRecord;

/** What a transaction of these payments used. */
function learn(costs: GasCosts, payments: readonly PaymentRecord[], gas: bigint, dataFeeWei = 0n, alone = false): void {
  costs.learn({ payments, alone }, { gas, dataFeeWei });
}

test("what is alone and what shares a transaction are learned apart", () => {
  const costs = new GasCosts(GAS, () => 0);
  const before = [costs.each("alone").gas, costs.each("shared").gas];
  for (let round = 0; round < 40; round++) learn(costs, [payment()], 90_000n);
  assert.equal(costs.each("shared").gas, before[1]);
  assert.ok(costs.each("alone").gas > 89_990n);
  for (let round = 0; round < 40; round++) learn(costs, Array(10).fill(payment()), 30_000n + 10n * 60_000n, 1_000n);
  assert.ok(costs.each("alone").gas > 89_990n);
  const { gas, dataFeeWei } = costs.shared(5);
  assert.ok(gas > 30_000n + 5n * 59_990n && gas <= 30_000n + 5n * 60_000n, String(gas));
  assert.ok(dataFeeWei > 500n && dataFeeWei <= 550n, `${dataFeeWei}: the half, and what the transaction has beside`);
  assert.equal(costs.shared(1).gas, costs.each("alone").gas, "one shares with none");
});

test("attack: wallets that burn gas make no plain payment dearer, nor a wallet that is known", () => {
  const costs = new GasCosts(GAS, () => 0);
  const plain = costs.each("alone");
  learn(costs, [payment("erc1271", "0xgood")], 90_000n);
  for (let round = 0; round < 50; round++) learn(costs, [payment("erc1271", `0xbad${round}`)], 440_000n);
  // A plain account that got code meanwhile, or was sent again by itself, is no measure for plain ones.
  for (let round = 0; round < 50; round++) learn(costs, [payment()], 440_000n, 0n, true);
  assert.deepEqual(costs.each("alone"), plain);
  assert.equal(costs.alone({ kind: "erc1271", payer: "0xgood" }).gas, 90_000n);
  assert.ok(
    costs.alone({ kind: "erc1271", payer: "0xnew" }).gas > 400_000n,
    "the operator is kept from those that come next",
  );
});

test("attack: a wallet is measured by its own estimate and its own losses, not by those of others", () => {
  const clock = virtualClock();
  const costs = new GasCosts(GAS, () => clock.monotonicMs());
  for (let round = 0; round < 50; round++) learn(costs, [payment("erc1271", `0xbad${round}`)], 440_000n);
  for (let round = 0; round < 3; round++)
    costs.learnLoss({ payments: [payment("erc1271", "0xbad0")] }, { gas: 100_000n, dataFeeWei: 5n });
  assert.deepEqual(costs.alone({ kind: "erc1271", payer: "0xnew", gas: 90_000n }), { gas: 90_000n, dataFeeWei: 0n });
  assert.deepEqual(costs.alone({ kind: "erc1271", payer: "0xbad0", gas: 90_000n }), { gas: 390_000n, dataFeeWei: 15n });
  assert.equal(costs.each("alone").gas, 73_600n);
  clock.advance(HALF_LIFE_MS);
  assert.equal(costs.alone({ kind: "erc1271", payer: "0xbad0", gas: 90_000n }).gas, 240_000n);
});

test("attack: signatures of many bytes make no other payment dearer: each pays for its own bytes", () => {
  for (const hasPlain of [true, false]) {
    const costs = new GasCosts(GAS, () => 0);
    const wallet = { kind: "erc1271", payer: "0xnew", gas: 90_000n, signatureBytes: 100 } as const;
    if (hasPlain) learn(costs, [payment()], 70_000n, 1_000n);
    else learn(costs, [payment("erc1271", "0xfirst", 100)], 90_000n, 1_000n);
    const before = [costs.alone(wallet).dataFeeWei, costs.each("alone").dataFeeWei] as const;
    assert.ok(before[0] > 500n);
    for (let round = 0; round < 20; round++)
      learn(costs, [payment("erc1271", `0xbad${round}`, 8_192)], 330_000n, 14_000n);
    assert.ok(costs.alone(wallet).dataFeeWei <= before[0] * 2n, `${costs.alone(wallet).dataFeeWei}`);
    assert.ok(costs.each("alone").dataFeeWei <= before[1] * 2n);
    const padded = costs.alone({ ...wallet, signatureBytes: 8_192 }).dataFeeWei;
    assert.ok(padded > 10n * costs.alone(wallet).dataFeeWei, "nor is the first of another account cheaper");
  }
});

test("attack: signatures that compress well make no payment look cheaper than plain ones show", () => {
  const costs = new GasCosts(GAS, () => 0);
  learn(costs, [payment()], 70_000n, 1_000n);
  const before = costs.each("erc1271").dataFeeWei;
  for (let round = 0; round < 20; round++) learn(costs, [payment("erc1271", `0xbad${round}`, 8_192)], 330_000n, 100n);
  assert.equal(costs.each("erc1271").dataFeeWei, before);
});

test("what a node says is believed up to the gas limit", () => {
  const costs = new GasCosts(GAS, () => 0);
  for (let round = 0; round < 50; round++) learn(costs, [payment()], 10n ** 30n);
  assert.ok(costs.each("alone").gas <= GAS.perTransfer + 40_000n);
});

test("what was learned in a bad hour fades: a refusal does not keep itself up", () => {
  const clock = virtualClock();
  const costs = new GasCosts(GAS, () => clock.monotonicMs());
  const start = costs.each("alone");
  for (let round = 0; round < 50; round++) learn(costs, [payment()], 150_000n, 8_000_000n);
  const high = costs.each("alone");
  clock.advance(HALF_LIFE_MS);
  const half = costs.each("alone");
  assert.equal(half.gas, start.gas + (high.gas - start.gas) / 2n);
  const rounded = half.dataFeeWei - high.dataFeeWei / 2n;
  assert.ok(rounded >= -1n && rounded <= 1n);
  clock.advance(60 * HALF_LIFE_MS);
  assert.deepEqual(costs.each("alone"), start);
});

test("property: an estimate never leaves what was assumed and what was seen", () => {
  const samples = fc.array(fc.bigInt({ min: 21_000n, max: 160_000n }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(samples, fc.nat(3 * HALF_LIFE_MS), (all, passedMs) => {
      const clock = virtualClock();
      const costs = new GasCosts(GAS, () => clock.monotonicMs());
      const seen = [costs.each("alone").gas, ...all];
      for (const gas of all) learn(costs, [payment()], gas);
      clock.advance(passedMs);
      const { gas } = costs.each("alone");
      const least = seen.reduce((a, b) => (b < a ? b : a));
      const most = seen.reduce((a, b) => (b > a ? b : a));
      // Divisions round down.
      assert.ok(gas >= least - 1n && gas <= most, `${least} ${gas} ${most}`);
    }),
  );
});
