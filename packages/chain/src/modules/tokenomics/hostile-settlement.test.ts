import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { AccountAddress } from "@turnpike/base";
import { moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, proof, shared, supplier } from "@turnpike/proto";
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
import { accountOf, planted } from "../../../test/planted.ts";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { addressText } from "../../state/addresses.ts";
import { createParsed } from "../../state/parsed.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication, removeApplication } from "../application/state.ts";
import { getBalance, getSupply, setBalance, setSupply } from "../bank/balances.ts";
import { heldClaims, holdClaim } from "../proof/held-claims.ts";
import { type claimKey, claims, setProof } from "../proof/state.ts";
import { applicationsWithDueClaims, hasClaim } from "../proof/unsettled-claims.ts";
import { difficulties, services } from "../service/state.ts";
import { getSharedParams, sharedParamsHistory } from "../shared/state.ts";
import { delegations, lastPowers } from "../staking/state.ts";
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
/** Beginning of the keys of the validators' voting powers. */
const POWERS = "staking/\x11";

function economy(inflation = 0.1): Economy {
  const made = makeEconomy({
    applicationStakes: [10n ** 9n, 10n ** 9n],
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
      const gone = getDehydratedSupplier(ctx, addressOf("supplier 0")) ?? assert.fail();
      const stake = BigInt(gone.stake?.amount ?? "0");
      removeSupplier(ctx, gone);
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
    assert.ok(unstakingSuppliers.has(made.ctx, [30n, operator]));
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
    const whole = { address: addressOf("new owner"), revSharePercentage: 100n };
    serviceConfigs.set(made.ctx, key, {
      ...config,
      service: {
        ...config.service,
        revShare: [createParsed(shared.ServiceRevenueShareSchema, whole)],
      },
    });
    settled(made);
    assert.ok(paid(made, "new owner") > 0n);
    assert.equal(paid(made, "owner 0"), 0n);
  });
});

/** Addresses of other lengths than a key's: all that messages accept. */
const LENGTHS = [1, 3, 32, 255];
const longAddress = (length: number, byte = 9): AccountAddress =>
  accountOf(addressText(new Uint8Array(length).fill(byte)));

function setRevShare({ ctx }: Economy, name: string, addresses: readonly string[]): void {
  const key = [SERVICE, [1n, addressOf(name)]] as const;
  const config = serviceConfigs.get(ctx, key);
  assert.ok(config?.service);
  const revShare = addresses.map((address, i) =>
    planted(
      createMessage(shared.ServiceRevenueShareSchema, {
        address,
        revSharePercentage: i === 0 ? 100n - BigInt(addresses.length - 1) : 1n,
      }),
    ),
  );
  serviceConfigs.set(ctx, key, { ...config, service: { ...config.service, revShare } });
}

suite("receivers of rewards", () => {
  test("attack: revenue shares, a service's owner, a supplier's owner and the DAO with addresses of any length are paid", () => {
    for (const length of LENGTHS) {
      const econ = economy();
      setRevShare(econ, "supplier 0", [addressOf("owner 0"), longAddress(length)]);
      const service = services.get(econ.ctx, SERVICE);
      assert.ok(service);
      services.set(econ.ctx, SERVICE, { ...service, ownerAddress: longAddress(length, 7) });
      const params = tokenomicsParams.get(econ.ctx, undefined);
      assert.ok(params);
      tokenomicsParams.set(econ.ctx, undefined, { ...params, daoRewardAddress: longAddress(length, 8) });
      assert.deepEqual(settled(econ), ["EventClaimSettled", "EventClaimSettled"]);
      for (const byte of [7, 8, 9]) {
        const balance = getBalance(econ.ctx, new Uint8Array(length).fill(byte), "upokt");
        assert.ok(balance > 0n, `${length} bytes, ${byte}: ${balance}`);
      }
    }
  });

  test("attack: a session that cannot be settled holds its claims and stakes; the others are paid, and it is tried again", () => {
    const econ = economy();
    const { state, ctx } = econ;
    addClaim(ctx, { application: 1, supplier: 1, end: 20n, relays: 100n, units: UNITS });
    const supply = getSupply(ctx, "upokt");
    // Only a fault of the program writes such an address.
    const broken = addressOf("application 0");
    setRevShare(econ, "supplier 0", ["not an address"]);
    const at = (height: bigint) => {
      const { changes, events } = machine.runBlock(state, blockAt(height, new Uint8Array(32)), []);
      for (const [key, value] of changes) {
        if (value === undefined) state.delete(key);
        else state.set(key, value);
      }
      assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
      return events;
    };
    const first = at(30n);
    const failures = first.filter(({ type }) => type === "block_part_failed");
    assert.deepEqual(
      failures[0]?.attributes.map(({ key }) => key),
      ["part", "item", "reason", "mode"],
    );
    assert.equal(failures.length, 1);
    assert.equal(first.filter(({ type }) => type.endsWith("EventClaimSettled")).length, 1);
    const applications = [...claims.entries(ctx)].map(([, claim]) => claim.sessionHeader?.applicationAddress);
    assert.deepEqual(applications, [broken, broken]);
    assert.equal(getApplication(ctx, broken)?.stake?.amount, `${10n ** 9n}`);
    const dueOf = (height: bigint): unknown => [
      ...applicationsWithDueClaims({ ...ctx, block: blockAt(height, new Uint8Array(32)) }),
    ];
    assert.deepEqual(dueOf(30n), [broken]);
    assert.ok(hasClaim(ctx, addressOf("supplier 0")));
    assert.ok(getSupply(ctx, "upokt") >= supply);
    // Not before its time, nor in the middle of a session.
    for (const height of [40n, 131n]) assert.deepEqual(at(height), []);
    setRevShare(econ, "supplier 0", [addressOf("owner 0")]);
    const later = at(140n).map(({ type }) => type.split(".").at(-1));
    assert.equal(later.filter((type) => type === "EventClaimSettled").length, 2);
    assert.deepEqual([...claims.entries(ctx)], []);
    assert.deepEqual([...heldClaims.entries(ctx)], []);
    assert.deepEqual(dueOf(140n), []);
    assert.ok(!hasClaim(ctx, addressOf("supplier 0")));
  });

  test("attack: one session that cannot be settled among many costs few attempts, and difficulties move once", () => {
    const econ = economy();
    const { state, ctx } = econ;
    for (let i = 0; i < 64; i++) {
      addClaim(ctx, { application: 1, supplier: 1, end: 20n, relays: 100n, units: UNITS, session: `${i}` });
    }
    setRevShare(econ, "supplier 0", ["not an address"]);
    let reads = 0;
    const counting = {
      get: (key: Uint8Array) => state.get(key),
      range: (options: Parameters<typeof state.range>[0]) => {
        if (Buffer.from(options.prefix).toString("latin1") === POWERS) reads++;
        return state.range(options);
      },
    };
    const { events } = machine.runBlock(counting, blockAt(30n, new Uint8Array(32)), []);
    assert.equal(events.filter(({ type }) => type === "block_part_failed").length, 1);
    const moved = events.filter(({ type }) => type.endsWith("EventRelayMiningDifficultyUpdated"));
    assert.equal(moved.length, 1);
    assert.ok(reads > 0 && reads < 20, `${reads} walks over the validators`);
  });

  test("accounts of modules and accounts that no message may send to are paid like others", () => {
    for (const name of ["fee_collector", "tokenomics", "supplier"]) {
      const made = economy();
      const params = tokenomicsParams.get(made.ctx, undefined);
      assert.ok(params);
      tokenomicsParams.set(made.ctx, undefined, { ...params, daoRewardAddress: accountOf(moduleAddress(name)) });
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
    const powers = [...lastPowers.entries(none.ctx)];
    for (const [operator] of powers) lastPowers.remove(none.ctx, operator);
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

/** Ends a block of an economy, whose state throws for keys that begin so; returns the names of the events. */
function endBlockOf({ state, ctx }: Economy, height: bigint, faultyKeys?: string): string[] {
  const reader = {
    get: (key: Uint8Array) => state.get(key),
    range: (options: Parameters<typeof state.range>[0]) => {
      const isFaulty =
        faultyKeys !== undefined && Buffer.from(options.prefix).toString("latin1").startsWith(faultyKeys);
      if (isFaulty) throw new TypeError("a fault of the program");
      return state.range(options);
    },
  };
  const { changes, events } = machine.runBlock(reader, blockAt(height, new Uint8Array(32)), []);
  for (const [key, value] of changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
  assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
  return events.map(({ type }) => type.split(".").at(-1) ?? "");
}

const applicationStake = ({ ctx }: Economy, at = 0): bigint =>
  BigInt(getApplication(ctx, addressOf(`application ${at}`))?.stake?.amount ?? "0");

/** Beginnings of the keys of claims by session end, and of proofs. */
const [CLAIMS_BY_END, PROOFS] = ["proof/\x02", "proof/\x04"];
const SUPPLIERS = 40;
const STAKE = 10n ** 9n;
const LIMIT = 10_000n;

/** An economy with a session of many suppliers, each of whose claims exceeds the session's whole limit. */
function crowded(): Economy {
  const econ = makeEconomy({
    applicationStakes: [STAKE],
    supplierStakes: Array.from({ length: SUPPLIERS }, () => 10n ** 6n),
    computeUnitsPerRelay: UNITS,
    tokenomics: { globalInflationPerClaim: 0 },
    proofRequestProbability: 0,
    penaltyUpokt: 1000n,
    minStakeUpokt: 1n,
    spendLimitUpokt: LIMIT,
  });
  for (let supplier = 0; supplier < SUPPLIERS; supplier++) {
    addClaim(econ.ctx, { application: 0, supplier, end: 20n, relays: 100_000n, units: UNITS });
  }
  return econ;
}

const keysOf = ({ ctx }: Economy): ReturnType<typeof claimKey>[] => [...claims.entries(ctx)].map(([key]) => key);

suite("a session has one budget, whenever its claims are settled", () => {
  const expected = (): bigint => {
    const econ = crowded();
    endBlockOf(econ, 30n);
    assert.deepEqual(keysOf(econ), []);
    return STAKE - applicationStake(econ);
  };

  test("attack: forty held claims of one session are tried again together, and are paid its limit once", () => {
    const econ = crowded();
    for (const key of keysOf(econ)) holdClaim({ ...econ.ctx, block: blockAt(30n) }, key);
    endBlockOf(econ, 30n);
    assert.equal(keysOf(econ).length, SUPPLIERS);
    for (let height = 130n; height <= 170n; height += 10n) endBlockOf(econ, height);
    assert.deepEqual(keysOf(econ), []);
    assert.equal(STAKE - applicationStake(econ), expected());
  });

  test("attack: a session waits for its one claim that is held, and is paid its limit once", () => {
    const econ = crowded();
    const [heldKey] = keysOf(econ);
    assert.ok(heldKey);
    holdClaim({ ...econ.ctx, block: blockAt(28n) }, heldKey);
    assert.deepEqual(endBlockOf(econ, 30n), []);
    assert.deepEqual(endBlockOf(econ, 120n), []);
    endBlockOf(econ, 130n);
    assert.deepEqual(keysOf(econ), []);
    assert.equal(STAKE - applicationStake(econ), expected());
  });

  test("attack: sessions that share a stake are held together", () => {
    const stakesAfter = [false, true].map((isBroken) => {
      const econ = economy(0);
      addClaim(econ.ctx, { application: 0, supplier: 1, end: 20n, relays: 90_000n, units: UNITS, session: "other" });
      if (isBroken) setRevShare(econ, "supplier 0", ["not an address"]);
      endBlockOf(econ, 30n);
      if (isBroken) setRevShare(econ, "supplier 0", [addressOf("owner 0")]);
      if (isBroken) assert.equal(keysOf(econ).length, 3);
      endBlockOf(econ, 130n);
      assert.deepEqual(keysOf(econ), []);
      return applicationStake(econ);
    });
    assert.equal(stakesAfter[0], stakesAfter[1]);
  });
});

suite("what a block leaves out is done in the next one", () => {
  test("attack: claims whose settlement fails as a whole are settled in the next block", () => {
    const econ = economy();
    assert.deepEqual(endBlockOf(econ, 30n, CLAIMS_BY_END), ["block_part_failed"]);
    assert.equal(keysOf(econ).length, 2);
    assert.ok(hasClaim(econ.ctx, addressOf("supplier 0")));
    assert.equal(endBlockOf(econ, 31n).filter((type) => type === "EventClaimSettled").length, 2);
    assert.deepEqual(keysOf(econ), []);
  });

  test("attack: a claim whose proof was not looked at is neither expired nor slashed before it was", () => {
    const econ = economy();
    const [key] = keysOf(econ);
    const claim = key === undefined ? undefined : claims.get(econ.ctx, key);
    assert.ok(claim?.sessionHeader);
    const { supplierOperatorAddress, sessionHeader } = claim;
    setProof(econ.ctx, createMessage(proof.ProofSchema, { supplierOperatorAddress, sessionHeader }));
    assert.deepEqual(endBlockOf(econ, 30n, PROOFS), ["block_part_failed", "block_part_failed"]);
    const next = endBlockOf(econ, 31n);
    assert.equal(next.indexOf("EventProofValidityChecked"), 0);
    assert.ok(next.includes("EventClaimExpired") && next.includes("EventClaimSettled"));
    assert.deepEqual(keysOf(econ), []);
  });
});

suite("a block settles a maximum of claims", () => {
  const SUPPLIERS_OF_ONE = 20;
  const economyOf = (applications: number, relays: bigint): Economy => {
    const econ = makeEconomy({
      applicationStakes: Array.from({ length: applications }, () => STAKE),
      supplierStakes: Array.from({ length: SUPPLIERS_OF_ONE }, () => 10n ** 6n),
      computeUnitsPerRelay: UNITS,
      tokenomics: { globalInflationPerClaim: 0 },
      proofRequestProbability: 0,
      penaltyUpokt: 1000n,
      minStakeUpokt: 1n,
    });
    for (let application = 0; application < applications; application++) {
      for (let supplier = 0; supplier < SUPPLIERS_OF_ONE; supplier++) {
        addClaim(econ.ctx, { application, supplier, end: 20n, relays, units: UNITS });
      }
    }
    return econ;
  };
  const count = (types: readonly string[], name: string): number => types.filter((type) => type === name).length;
  const difficultyOf = ({ ctx }: Economy): unknown => {
    const { targetHash, numRelaysEma } = difficulties.get(ctx, SERVICE) ?? {};
    return [targetHash, numRelaysEma];
  };
  const SETTLED = "EventClaimSettled";
  const MOVED = "EventRelayMiningDifficultyUpdated";

  test("attack: claims of a whole session's end that are too many for one block are settled in the next ones, by whole sessions", () => {
    const econ = economyOf(120, 100n);
    // Sessions of one block from 21 on.
    const params = getSharedParams(econ.ctx);
    const shorter = { numBlocksPerSession: 1n, sessionGridAnchorHeight: 21n, sessionNumberAtAnchor: 3n };
    sharedParamsHistory.set(econ.ctx, 1n, params);
    sharedParamsHistory.set(econ.ctx, 21n, { ...params, ...shorter });
    addClaim(econ.ctx, { application: 0, supplier: 0, end: 21n, relays: 100n, units: UNITS });
    const blocks = [30n, 31n].map((height) => endBlockOf(econ, height));
    const few = economyOf(12, 1_000n);
    endBlockOf(few, 30n);
    assert.deepEqual(difficultyOf(econ), difficultyOf(few));
    for (const height of [32n, 33n]) blocks.push(endBlockOf(econ, height));
    assert.deepEqual(
      blocks.map((types) => count(types, SETTLED)),
      [2_000, 400, 1, 0],
    );
    // As one settlement: for the sum of the relays.
    assert.deepEqual(
      blocks.map((types) => count(types, MOVED)),
      [0, 1, 1, 0],
    );
    for (let at = 2; at < 120; at++) assert.equal(applicationStake(econ, at), applicationStake(econ, 1));
  });
});
