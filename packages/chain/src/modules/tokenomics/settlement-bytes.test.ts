import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, proof, session, shared } from "@turnpike/proto";
import {
  addClaim,
  addressOf,
  type Economy,
  makeEconomy,
  SERVICE,
  sumOfBalances,
} from "../../../test/modules/tokenomics/economy.ts";
import { blockAt, settlementMachine } from "../../../test/modules/tokenomics/recorded.ts";
import { planted } from "../../../test/planted.ts";
import { addressText } from "../../state/addresses.ts";
import type { ChainEvent } from "../../state/context.ts";
import { eventBytes, sumOfEventBytes } from "../../state/event-bytes.ts";
import { getApplication, setApplication } from "../application/state.ts";
import { balances, getSupply } from "../bank/balances.ts";
import { claims, proofs } from "../proof/state.ts";
import { dueSessions } from "../proof/unsettled-claims.ts";
import { difficulties } from "../service/state.ts";
import { SessionFacts } from "../session/facts.ts";
import { serviceConfigs } from "../supplier/state.ts";
import { settleDueClaims } from "./settle-claims.ts";
import { MAX_SETTLEMENT_BYTES, SettlementBytes } from "./settlement-bytes.ts";

const machine = settlementMachine();
const UNITS = 7n;
const STAKE = 10n ** 9n;

interface Crowd {
  readonly applications: number;
  readonly suppliers: number;
  /** Receivers of each supplier's rewards. */
  readonly shares: number;
  readonly addressBytes: number;
  readonly relays?: bigint;
  readonly minStakeUpokt?: bigint;
  readonly status?: 0 | 2;
  readonly inflation?: number;
}

/** An economy of applications that each have a session with all suppliers, all of whose rewards have other receivers. */
function crowd({ applications, suppliers, shares, addressBytes, ...rest }: Crowd): Economy {
  const econ = makeEconomy({
    applicationStakes: Array.from({ length: applications }, () => STAKE),
    supplierStakes: Array.from({ length: suppliers }, () => 10n ** 6n),
    computeUnitsPerRelay: UNITS,
    tokenomics: { globalInflationPerClaim: rest.inflation ?? 0.1 },
    proofRequestProbability: 0,
    penaltyUpokt: 1000n,
    minStakeUpokt: rest.minStakeUpokt ?? 1n,
  });
  for (let supplier = 0; supplier < suppliers; supplier++) {
    const key = [SERVICE, [1n, addressOf(`supplier ${supplier}`)]] as const;
    const config = serviceConfigs.get(econ.ctx, key);
    assert.ok(config?.service);
    const revShare = Array.from({ length: shares }, (_, i) => {
      const bytes = Buffer.alloc(addressBytes, 7);
      bytes.writeUInt16BE(supplier);
      bytes.writeUInt16BE(i, 2);
      const percentage = i === 0 ? 101n - BigInt(shares) : 1n;
      const share = { address: addressText(bytes), revSharePercentage: percentage };
      return planted(createMessage(shared.ServiceRevenueShareSchema, share));
    });
    serviceConfigs.set(econ.ctx, key, { ...config, service: { ...config.service, revShare } });
  }
  for (let application = 0; application < applications; application++) {
    for (let supplier = 0; supplier < suppliers; supplier++) {
      const { relays = 100n, status = 0 } = rest;
      addClaim(econ.ctx, { application, supplier, end: 20n, relays, units: UNITS, status });
    }
  }
  return econ;
}

function endBlockOf({ state, ctx }: Economy, height: bigint): readonly ChainEvent[] {
  const { changes, events } = machine.runBlock(state, blockAt(height, new Uint8Array(32)), []);
  for (const [key, value] of changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
  assert.equal(sumOfBalances(ctx), getSupply(ctx, "upokt"));
  return events;
}

function settledIn(
  econ: Economy,
  height: bigint,
): { readonly bytes: number; readonly claims: number; readonly moved: number } {
  const events = endBlockOf(econ, height);
  const count = (name: string): number => events.filter(({ type }) => type.endsWith(name)).length;
  const moved = count("EventRelayMiningDifficultyUpdated");
  return { bytes: sumOfEventBytes(events), claims: count("EventClaimSettled"), moved };
}

/** Upper bound of the bytes of all due claims, as settlement computes it. */
function boundOf({ ctx }: Economy, height: bigint): number {
  const at = { ...ctx, block: blockAt(height, new Uint8Array(32)) };
  const bytes = new SettlementBytes(at, (operator, header) => new SessionFacts(at, header).revenueShares(operator));
  for (const sessions of dueSessions(at)) for (const session of sessions) bytes.add(session);
  return bytes.sum;
}

suite("bytes of settlement's events", () => {
  const CROWDS: Readonly<Record<string, Crowd>> = {
    "one share": { applications: 20, suppliers: 20, shares: 1, addressBytes: 20 },
    "two shares": { applications: 90, suppliers: 20, shares: 2, addressBytes: 20 },
    "one claim of a hundred shares": { applications: 1, suppliers: 1, shares: 100, addressBytes: 20 },
    "a hundred shares of modules": { applications: 3, suppliers: 10, shares: 100, addressBytes: 32 },
    "a hundred shares of an earlier version": { applications: 3, suppliers: 10, shares: 100, addressBytes: 255 },
    "large sums": { applications: 3, suppliers: 10, shares: 10, addressBytes: 20, relays: 10n ** 11n },
    "sums above the stake, of an application that unbonds": {
      applications: 3,
      suppliers: 10,
      shares: 1,
      addressBytes: 20,
      relays: 10n ** 7n,
      minStakeUpokt: STAKE,
    },
    "invalid proofs of suppliers that unbond": {
      applications: 3,
      suppliers: 10,
      shares: 1,
      addressBytes: 20,
      status: 2,
      minStakeUpokt: 10n ** 6n,
    },
  };
  test("attack: long records of those who begin to unbond are in the events of claims without their lists", () => {
    const econ = crowd({ applications: 3, suppliers: 10, shares: 1, addressBytes: 20, minStakeUpokt: STAKE });
    const gateways = Array.from({ length: 1_000 }, (_, i) => addressOf(`gateway ${i}`));
    for (let at = 0; at < 3; at++) {
      const record = getApplication(econ.ctx, addressOf(`application ${at}`)) ?? assert.fail();
      setApplication(econ.ctx, { ...record, delegateeGatewayAddresses: gateways });
    }
    for (let supplier = 0; supplier < 10; supplier++) {
      const key = [SERVICE, [1n, addressOf(`supplier ${supplier}`)]] as const;
      const config = serviceConfigs.get(econ.ctx, key);
      assert.ok(config?.service);
      const endpoints = Array.from({ length: 600 }, (_, i) =>
        createMessage(shared.SupplierEndpointSchema, { url: `https://${"a".repeat(60)}.example/${i}`, rpcType: 1 }),
      );
      serviceConfigs.set(econ.ctx, key, { ...config, service: { ...config.service, endpoints } });
      addClaim(econ.ctx, { application: 1, supplier, end: 20n, relays: 100n, units: UNITS, status: 2 });
    }
    const bound = boundOf(econ, 30n);
    const events = endBlockOf(econ, 30n);
    const begun = events.filter(({ type }) => type.endsWith("UnbondingBegin"));
    assert.equal(begun.filter(({ type }) => type.endsWith("SupplierUnbondingBegin")).length, 10);
    assert.equal(begun.filter(({ type }) => type.endsWith("ApplicationUnbondingBegin")).length, 20);
    for (const event of begun) assert.ok(eventBytes(event) < 4_096, `${event.type}: ${eventBytes(event)} bytes`);
    const bytes = sumOfEventBytes(events);
    assert.ok(bytes <= bound, `${bytes} bytes of events, at most ${bound} expected`);
  });

  test("attack: a URL of characters that JSON writes as six is not in the event of a slashed supplier", () => {
    const econ = crowd({
      applications: 1,
      suppliers: 10,
      shares: 1,
      addressBytes: 20,
      minStakeUpokt: STAKE,
      status: 2,
    });
    for (let supplier = 0; supplier < 10; supplier++) {
      const key = [SERVICE, [1n, addressOf(`supplier ${supplier}`)]] as const;
      const config = serviceConfigs.get(econ.ctx, key);
      assert.ok(config?.service);
      const url = `https://a.example/?${"&".repeat(1_700)}`;
      const endpoints = [createMessage(shared.SupplierEndpointSchema, { url, rpcType: 1 })];
      serviceConfigs.set(econ.ctx, key, { ...config, service: { ...config.service, endpoints } });
    }
    const bound = boundOf(econ, 30n);
    const events = endBlockOf(econ, 30n);
    const begun = events.filter(({ type }) => type.endsWith("SupplierUnbondingBegin"));
    assert.equal(begun.length, 10);
    for (const event of begun) assert.ok(eventBytes(event) < 1_024, `${event.type}: ${eventBytes(event)} bytes`);
    const bytes = sumOfEventBytes(events);
    assert.ok(bytes <= bound, `${bytes} bytes of events, at most ${bound} expected`);
  });

  for (const [name, options] of Object.entries(CROWDS)) {
    test(`upper bound of the bytes of ${name}`, () => {
      const econ = crowd(options);
      const bound = boundOf(econ, 30n);
      const bytes = sumOfEventBytes(endBlockOf(econ, 30n));
      assert.ok(bytes <= bound, `${bytes} bytes of events, at most ${bound} expected`);
    });
  }

  test("attack: claims of suppliers with a hundred receivers are settled in as many blocks as their events need, to the same sums", () => {
    const options: Crowd = {
      applications: 12,
      suppliers: 20,
      shares: 100,
      addressBytes: 32,
      relays: 1_000n,
      inflation: 0,
    };
    const econ = crowd(options);
    const holders = (of: Economy): bigint[] =>
      [...balances.entries(of.ctx)].flatMap(([[address], amount]) => (address.length === 32 ? [amount] : []));
    const blocks: ReturnType<typeof settledIn>[] = [];
    for (let height = 30n; [...claims.entries(econ.ctx)].length > 0; height++) blocks.push(settledIn(econ, height));
    assert.ok(blocks.length > 1 && blocks.length < 6, `${blocks.length} blocks`);
    for (const { bytes } of blocks) assert.ok(bytes <= MAX_SETTLEMENT_BYTES, `${bytes} bytes`);
    // Whole sessions, as many as fit.
    for (const { claims: count } of blocks) assert.equal(count % options.suppliers, 0);
    for (const { bytes } of blocks.slice(0, -1)) assert.ok(bytes > MAX_SETTLEMENT_BYTES / 4, `${bytes} bytes`);
    assert.equal(
      blocks.reduce((sum, { claims: count }) => sum + count, 0),
      240,
    );
    // The difficulty moves once, by all relays.
    assert.deepEqual(
      blocks.map(({ moved }) => moved),
      blocks.map((_, i) => (i === blocks.length - 1 ? 1 : 0)),
    );
    // What one application's claims pay is the twelfth of it: each share is rounded for its claim.
    const one = crowd({ ...options, applications: 1 });
    settledIn(one, 30n);
    assert.deepEqual(
      holders(econ),
      holders(one).map((amount) => amount * 12n),
    );
    const left = STAKE - BigInt(getApplication(one.ctx, addressOf("application 0"))?.stake?.amount ?? "0");
    for (let at = 0; at < 12; at++) {
      assert.equal(
        STAKE - BigInt(getApplication(econ.ctx, addressOf(`application ${at}`))?.stake?.amount ?? "0"),
        left,
      );
    }
    assert.equal(difficulties.get(econ.ctx, SERVICE)?.numRelaysEma, 240_000n);
  });

  /** As {@link settledIn}, without the check of proofs before it. */
  function settledAlone({ ctx }: Economy, height: bigint): { readonly claims: number; readonly moved: number } {
    const events: ChainEvent[] = [];
    settleDueClaims({ ...ctx, block: blockAt(height, new Uint8Array(32)), events });
    const count = (name: string): number => events.filter(({ type }) => type.endsWith(name)).length;
    return { claims: count("EventClaimSettled"), moved: count("EventRelayMiningDifficultyUpdated") };
  }

  /** Gives a claim of an application a proof that was not looked at: its session waits until the proof is removed. */
  function waitForProof(econ: Economy, application: number): () => void {
    const address = addressOf(`application ${application}`);
    const keys = [...claims.entries(econ.ctx)].flatMap(([key, { sessionHeader }]) =>
      sessionHeader?.applicationAddress === address ? [key] : [],
    );
    const [key] = keys;
    assert.ok(key !== undefined);
    const [sessionId, supplierOperatorAddress] = key;
    const sessionHeader = createMessage(session.SessionHeaderSchema, { sessionId });
    proofs.set(econ.ctx, key, createMessage(proof.ProofSchema, { sessionHeader, supplierOperatorAddress }));
    return () => proofs.remove(econ.ctx, key);
  }

  test("attack: proofs that wait for the next block do not make the difficulty move twice for one end", () => {
    const econ = crowd({ applications: 3, suppliers: 2, shares: 1, addressBytes: 20, relays: 1_000n });
    const release = waitForProof(econ, 1);
    const first = settledAlone(econ, 30n);
    release();
    const blocks = [first, ...[31n, 32n].map((height) => settledAlone(econ, height))];
    assert.deepEqual(
      blocks.map(({ claims: count, moved }) => [count, moved]),
      [
        [4, 0],
        [2, 1],
        [0, 0],
      ],
    );
    assert.equal(difficulties.get(econ.ctx, SERVICE)?.numRelaysEma, 6_000n);
  });

  test("an end whose first part settles no relay is not joined with the next end", () => {
    const econ = crowd({ applications: 2, suppliers: 1, shares: 1, addressBytes: 20, relays: 1_000n });
    const invalid = { application: 0, supplier: 0, end: 20n, relays: 1_000n, units: UNITS, status: 2 } as const;
    addClaim(econ.ctx, invalid);
    const release = waitForProof(econ, 1);
    assert.deepEqual([settledAlone(econ, 30n).claims, settledAlone(econ, 31n).moved], [0, 0]);
    addClaim(econ.ctx, { application: 0, supplier: 0, end: 30n, relays: 3_000n, units: UNITS, status: 0 });
    release();
    const blocks = [40n, 41n, 42n].map((height) => settledAlone(econ, height));
    assert.deepEqual(
      blocks.map(({ claims: count, moved }) => [count, moved]),
      [
        [1, 1],
        [1, 1],
        [0, 0],
      ],
    );
  });

  test("attack: a session whose events alone exceed the maximum is settled", () => {
    const econ = crowd({ applications: 2, suppliers: 58, shares: 100, addressBytes: 255 });
    const counts = [30n, 31n, 32n].map((height) => settledIn(econ, height).claims);
    assert.deepEqual(counts, [58, 58, 0]);
  });
});
