import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, type FaultPoints, type Metrics, noFaults, noMetrics } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { delegateCode, deployGasBurner } from "@turnpike/testkit/servers";
import {
  ANSWER,
  type Bed,
  claim,
  countingBackOff,
  mineUntil,
  openBedWithoutContract,
  openOwnBed,
  PAY_TO,
  type Payer,
  PRICE,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { PaymentRecord } from "../types.ts";
import { MAX_UNLIMITED } from "./batch-contract.ts";
import { createEngine } from "./engine.ts";
import { settlementCostWeiTotal } from "./metrics.ts";

const server = testServer();

const deployBurner = (bed: Bed): Promise<Address> => deployGasBurner(bed.anvil.url);

const delegate = (bed: Bed, payer: Payer, to: Address | undefined): Promise<void> =>
  delegateCode(bed.anvil.url, payer.address, to);

/** Of an engine whose clock stands still: so many payments wait for each other, and share a transaction. */
const together = (maxBatch: number) => ({ batchWindowMs: 1_000, maxBatch, maxQueueMs: 1_000_000_000 });

const nonceOf = async (bed: Bed, key: Uint8Array): Promise<number> =>
  Number(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "latest"]));

test("an account that delegated its code after its verification (EIP-7702) is left out of the shared transaction", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const backOff = countingBackOff();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key], together(11)), {
    ...bed.modules(ledger, noFaults, virtualClock()),
    backOff,
  });
  const attacker = await bed.payer(PRICE);
  const honest = await Promise.all(Array.from({ length: 10 }, () => bed.payer(PRICE)));
  const attack = await claim(ledger, attacker);
  const payments = await Promise.all(honest.map((payer) => claim(ledger, payer)));
  await delegate(bed, attacker, await deployBurner(bed));
  const refused = assert.rejects(engine.settle(attack, ANSWER, timeLimit()), { code: "PAYMENT_SIMULATION_FAILED" });
  await Promise.all([refused, ...payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))]);
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
  assert.equal(new Set(ends.map(({ evidence }) => evidence?.transaction)).size, 1);
  assert.equal((await stateOf(ledger, attack)).state, "claimed");
  assert.equal(await nonceOf(bed, key), 1);
  assert.deepEqual([...backOff.blamed], [attacker.address.toLowerCase()]);
});

test("without the contract, an account that delegates behind the signed transaction spoils that one alone: the others settle by themselves", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const backOff = countingBackOff();
  const key = await bed.relayerKey();
  const attacker = await bed.payer(PRICE);
  const burner = await deployBurner(bed);
  const faults: FaultPoints = {
    reach: (name) => (name === "engine.journal.after" ? delegate(bed, attacker, burner) : undefined),
  };
  // More than share a transaction by Multicall3.
  await using engine = await createEngine(bed.options([key], together(50)), {
    ...bed.modules(ledger, faults, virtualClock()),
    backOff,
  });
  const honest = await Promise.all(Array.from({ length: MAX_UNLIMITED - 1 }, () => bed.payer(PRICE)));
  const attack = await claim(ledger, attacker);
  const payments = await Promise.all(honest.map((payer) => claim(ledger, payer)));
  // In front of all others, it burns their gas as well.
  const patience = new AbortController();
  const attacking = engine.settle(attack, ANSWER, patience.signal);
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()));
  await mineUntil(bed, Promise.all(settling));
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
  assert.equal(new Set(ends.map(({ evidence }) => evidence?.transaction)).size, honest.length, "each by itself");
  await eventually("the attacker is blamed", () => backOff.blamed.size > 0);
  assert.deepEqual([...backOff.blamed], [attacker.address.toLowerCase()]);
  assert.equal((await stateOf(ledger, attack)).state, "signed");
  assert.equal(await nonceOf(bed, key), 1 + honest.length);
  patience.abort();
  await attacking;
});

test("without the contract, after a spoiled transaction fewer payments share one, and later as many as before", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const burner = await deployBurner(bed);
  const attackers: Payer[] = [];
  const faults: FaultPoints = {
    async reach(name) {
      if (name !== "engine.journal.after") return;
      for (const attacker of attackers.splice(0)) await delegate(bed, attacker, burner);
    },
  };
  const options = bed.options([key], together(2));
  let mined = 0;
  const metrics: Metrics = {
    ...noMetrics,
    count(spec) {
      if (spec === settlementCostWeiTotal) mined++;
    },
  };
  const modules = { ...bed.modules(ledger, faults, virtualClock()), metrics };
  await using engine = await createEngine(options, modules);
  // A payment may be settled a moment before the engine has drawn its conclusions of the transaction, or by a look at the chain that
  // sees it before its transaction is deep enough: then it takes another block.
  const learned = (transactions: number): Promise<boolean> =>
    mineUntil(
      bed,
      eventually(`${transactions} transactions are seen through`, () => mined >= transactions),
    );
  const patience = new AbortController();
  const attacker = await bed.payer(PRICE);
  attackers.push(attacker);
  const attack = await claim(ledger, attacker);
  const attacking = engine.settle(attack, ANSWER, patience.signal);
  const settled = async (count: number): Promise<Set<string | undefined>> => {
    const payments = await Promise.all(
      Array.from({ length: count }, async () => claim(ledger, await bed.payer(PRICE))),
    );
    await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
    const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
    return new Set(ends.map(({ evidence }) => evidence?.transaction));
  };
  await settled(1);
  await learned(2);
  // One by itself is settled, so two may share again.
  await settled(1);
  await learned(3);
  assert.equal((await settled(2)).size, 1);
  patience.abort();
  await attacking;
});

/** Numbers from 0 to 1 that a seed decides (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const SEED = Number(process.env.TURNPIKE_TEST_SEED ?? 7);

test(`whenever accounts delegate, sign and undelegate, honest payments settle, each once (seed ${SEED})`, async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const random = randomFrom(SEED);
  const burner = await deployBurner(bed);
  const attackers: Payer[] = [];
  // At every step of the engine each attacker may change its mind.
  const faults: FaultPoints = {
    async reach() {
      for (const attacker of attackers) {
        if (random() < 0.4) await delegate(bed, attacker, random() < 0.5 ? burner : undefined);
      }
    },
  };
  const keys = await Promise.all([bed.relayerKey(), bed.relayerKey()]);
  const engine = await createEngine(bed.options(keys), bed.modules(ledger, faults));
  const paid = await bed.balance(PAY_TO);
  let honestCount = 0;
  const patience = new AbortController();
  const attacks: Promise<unknown>[] = [];
  const attackPayments: PaymentRecord[] = [];
  for (let round = 0; round < 5; round++) {
    const settling: Promise<unknown>[] = [];
    for (let place = 0; place < 8; place++) {
      const payer = await bed.payer(PRICE);
      const payment = await claim(ledger, payer);
      if (random() < 0.3) {
        attackers.push(payer);
        attackPayments.push(payment);
        attacks.push(engine.settle(payment, ANSWER, patience.signal).catch(() => undefined));
      } else {
        honestCount++;
        settling.push(engine.settle(payment, ANSWER, timeLimit()));
      }
    }
    await mineUntil(bed, Promise.all(settling));
  }
  patience.abort();
  await Promise.all(attacks);
  assert.deepEqual(engine.missing(), []);
  await engine[Symbol.asyncDispose]();
  const ends = await Promise.all(attackPayments.map((payment) => stateOf(ledger, payment)));
  const settledAttacks = ends.filter(({ state }) => state === "settled").length;
  const sums = await ledger.sums();
  const settled = sums.reduce((sum, { states }) => sum + states.settled.count, 0);
  assert.equal(settled, honestCount + settledAttacks);
  // An attacker's own payment may still get through, which is all that the receiver may have beside.
  const received = (await bed.balance(PAY_TO)) - paid;
  assert.ok(received >= BigInt(settled) * PRICE && received <= BigInt(honestCount + attackers.length) * PRICE);
});
