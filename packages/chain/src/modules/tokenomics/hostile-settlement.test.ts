import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, supplier } from "@turnpike/proto";
import {
  addClaim,
  addressOf,
  type Economy,
  makeEconomy,
  SERVICE,
  sumOfBalances,
  sumsOfStakes,
} from "../../../test/modules/tokenomics/economy.ts";
import { blockAt, settlementMachine } from "../../../test/modules/tokenomics/recorded.ts";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { upokt } from "../../state/stakes.ts";
import { removeApplication } from "../application/state.ts";
import { getBalance, getSupply, setBalance, setSupply } from "../bank/balances.ts";
import { claims } from "../proof/state.ts";
import { services } from "../service/state.ts";
import { delegations, validators } from "../staking/state.ts";
import {
  getActiveServiceConfigs,
  getDehydratedSupplier,
  removeSupplier,
  serviceConfigs,
  setDehydratedSupplier,
  supplierParams,
  unstakingSuppliers,
} from "../supplier/state.ts";
import { tokenomicsParams } from "./state.ts";

const machine = settlementMachine();
const UNITS = 7n;

function economy(inflation = 0.1): Economy {
  const made = makeEconomy({
    applicationStakes: [10n ** 9n],
    supplierStakes: [10n ** 6n, 10n ** 6n],
    computeUnitsPerRelay: UNITS,
    tokenomics: { globalInflationPerClaim: inflation },
    proofRequestProbability: 0,
    penaltyUpokt: 1000n,
    minStakeUpokt: 1n,
  });
  for (const supplier of [0, 1]) addClaim(made.ctx, { application: 0, supplier, end: 20n, relays: 100n, units: UNITS });
  return made;
}

/** Settles the session that ends at 20: the names of the events, and that no money is lost. */
function settled({ state, ctx }: Economy): string[] {
  const { changes, events } = machine.runBlock(state, blockAt(30n, new Uint8Array(32)), []);
  for (const [key, value] of changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
  assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
  const stakes = sumsOfStakes(ctx);
  assert.equal(getBalance(ctx, moduleAddressBytes("application"), "upokt"), stakes.application);
  assert.equal(getBalance(ctx, moduleAddressBytes("supplier"), "upokt"), stakes.supplier);
  assert.deepEqual([...claims.entries(ctx)], []);
  return events.map(({ type }) => type.split(".").at(-1) ?? "").filter((type) => type.startsWith("EventClaim"));
}

const paid = ({ ctx }: Economy, name: string): bigint => getBalance(ctx, bytesOfAddress(addressOf(name)), "upokt");

suite("actors that change between claim and settlement", () => {
  test("a supplier that ended its service, or unbonds, is paid for the session in which it had it", () => {
    const made = economy();
    const key = [SERVICE, [1n, addressOf("supplier 0")]] as const;
    const config = serviceConfigs.get(made.ctx, key);
    assert.ok(config);
    serviceConfigs.set(made.ctx, key, { ...config, deactivationHeight: 21n });
    assert.deepEqual(settled(made), ["EventClaimSettled", "EventClaimSettled"]);
    assert.ok(paid(made, "owner 0") > 0n && paid(made, "partner 0") > 0n);
  });

  test("a supplier that never had the service in that session is not paid", () => {
    const made = economy();
    const key = [SERVICE, [1n, addressOf("supplier 0")]] as const;
    const config = serviceConfigs.get(made.ctx, key);
    assert.ok(config);
    serviceConfigs.set(made.ctx, key, { ...config, deactivationHeight: 11n });
    assert.deepEqual(settled(made).sort(), ["EventClaimDiscarded", "EventClaimSettled"]);
    assert.equal(paid(made, "owner 0"), 0n);
  });

  test("a supplier, an application or a service that is gone: the claim is discarded, and nothing is charged", () => {
    const without = (remove: (made: Economy) => void): string[] => {
      const made = economy();
      remove(made);
      return settled(made).sort();
    };
    const discarded = "EventClaimDiscarded";
    const oneSupplier = without(({ ctx }) => {
      const stake = BigInt(getDehydratedSupplier(ctx, addressOf("supplier 0"))?.stake?.amount ?? "0");
      removeSupplier(ctx, addressOf("supplier 0"));
      const other = getDehydratedSupplier(ctx, addressOf("supplier 1"));
      assert.ok(other?.stake);
      const amount = (BigInt(other.stake.amount) + stake).toString();
      setDehydratedSupplier(ctx, { ...other, stake: { ...other.stake, amount } });
    });
    assert.deepEqual(oneSupplier, [discarded, "EventClaimSettled"]);
    const noService = without(({ ctx }) => services.remove(ctx, SERVICE));
    assert.deepEqual(noService, [discarded, discarded]);
    const made = economy();
    const supply = getSupply(made.ctx, "upokt");
    removeApplication(made.ctx, addressOf("application 0"));
    machine.runBlock(made.state, blockAt(30n, new Uint8Array(32)), []);
    assert.equal(getSupply(made.ctx, "upokt"), supply);
  });

  test("a supplier that slashing leaves below the minimum unbonds, and is in no session after this one", () => {
    const made = economy();
    addClaim(made.ctx, { application: 0, supplier: 0, end: 20n, relays: 100n, units: UNITS, status: 2 });
    const operator = addressOf("supplier 0");
    const params = supplierParams.get(made.ctx, undefined);
    supplierParams.set(
      made.ctx,
      undefined,
      createMessage(supplier.ParamsSchema, { ...params, minStake: upokt(999_001n) }),
    );
    assert.deepEqual(settled(made).sort(), ["EventClaimExpired", "EventClaimSettled"]);
    assert.equal(getDehydratedSupplier(made.ctx, operator)?.unstakeSessionEndHeight, 30n);
    assert.ok(unstakingSuppliers.has(made.ctx, operator));
    const inSession = (height: bigint): boolean =>
      getActiveServiceConfigs(made.ctx, SERVICE, height).some(({ operatorAddress }) => operatorAddress === operator);
    assert.deepEqual([inSession(30n), inSession(31n)], [true, false]);
    // What it did before is settled as anybody's.
    addClaim(made.ctx, { application: 0, supplier: 0, end: 30n, relays: 100n, units: UNITS });
    const { events } = machine.runBlock(made.state, blockAt(40n, new Uint8Array(32)), []);
    assert.ok(events.some(({ type }) => type === "pocket.tokenomics.EventClaimSettled"));
  });

  test("another owner and other shares: paid to whom they say now", () => {
    const made = economy();
    const found = getDehydratedSupplier(made.ctx, addressOf("supplier 0"));
    assert.ok(found);
    setDehydratedSupplier(made.ctx, { ...found, ownerAddress: addressOf("new owner") });
    const key = [SERVICE, [1n, addressOf("supplier 0")]] as const;
    const config = serviceConfigs.get(made.ctx, key);
    assert.ok(config?.service);
    const revShare = [{ ...config.service.revShare[0], address: addressOf("new owner"), revSharePercentage: 100n }];
    serviceConfigs.set(made.ctx, key, {
      ...config,
      service: {
        ...config.service,
        revShare: revShare.map((share) => ({ ...share, $typeName: "pocket.shared.ServiceRevenueShare" })),
      },
    });
    settled(made);
    assert.ok(paid(made, "new owner") > 0n);
    assert.equal(paid(made, "owner 0"), 0n);
  });
});

suite("receivers of rewards", () => {
  test("accounts of modules and accounts that no message may send to are paid like others", () => {
    for (const name of ["fee_collector", "tokenomics", "supplier"]) {
      const made = economy();
      const params = tokenomicsParams.get(made.ctx, undefined);
      assert.ok(params);
      tokenomicsParams.set(made.ctx, undefined, { ...params, daoRewardAddress: moduleAddress(name) });
      const { state, ctx } = made;
      const { changes } = machine.runBlock(state, blockAt(30n, new Uint8Array(32)), []);
      for (const [key, value] of changes) {
        if (value === undefined) state.delete(key);
        else state.set(key, value);
      }
      assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
      assert.ok(getBalance(ctx, moduleAddressBytes(name), "upokt") > 0n);
    }
  });

  test("a validator without delegations keeps its part, and without any validator nobody's part stays behind", () => {
    const made = economy();
    const delegated = [...delegations.entries(made.ctx)];
    for (const [key] of delegated) delegations.remove(made.ctx, key);
    assert.deepEqual(settled(made).length, 2);
    assert.ok(paid(made, "validator 0") > 0n);
    assert.equal(getBalance(made.ctx, moduleAddressBytes("tokenomics"), "upokt"), 0n);
    const none = economy();
    const bonded = [...validators.entries(none.ctx)];
    for (const [key] of bonded) validators.remove(none.ctx, key);
    assert.deepEqual(settled(none).length, 2);
    assert.equal(getBalance(none.ctx, moduleAddressBytes("tokenomics"), "upokt"), 0n);
  });

  test("a supply at the most that the bank keeps: the claims are discarded, and the chain goes on", () => {
    const made = economy();
    const room = (1n << 256n) - 1n - getSupply(made.ctx, "upokt");
    setBalance(made.ctx, bytesOfAddress(addressOf("rich")), { denom: "upokt", amount: room - 10n });
    setSupply(made.ctx, { denom: "upokt", amount: (1n << 256n) - 11n });
    assert.deepEqual(settled(made), ["EventClaimDiscarded", "EventClaimDiscarded"]);
  });
});
