import assert from "node:assert/strict";
import { test } from "node:test";
import { type FaultPoints, isAppError, noFaults } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import {
  ANSWER,
  AT_ONCE,
  claim,
  mineUntil,
  NETWORK,
  openBed,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { encodeTransferVrs } from "../evm/abi.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

/** Stops for ever at one point, as a killed process does. */
function stopAt(name: string): FaultPoints & { readonly reached: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    reached: promise,
    reach(at) {
      if (at !== name) return undefined;
      resolve();
      return new Promise(() => undefined);
    },
  };
}

/** Of an engine that is killed: it does not wait for what is under way. */
const KILLED = { graceMs: 20 };

for (const point of [
  "engine.journal.after",
  "engine.broadcast.before",
  "engine.broadcast.after",
  "engine.receipt.seen",
  "engine.settled.before",
  "engine.settled.after",
]) {
  test(`an engine that dies at ${point} leaves a payment that the next one settles, once`, async () => {
    await using bed = await openBed(server());
    const key = await bed.relayerKey();
    const ledger = await bed.openLedger();
    const faults = stopAt(point);
    const dead = await createEngine(bed.options([key], KILLED), bed.modules(ledger, faults));
    const paid = await bed.balance(PAY_TO);
    const payment = await claim(ledger, await bed.payer(PRICE));
    const patience = new AbortController();
    const settling = dead.settle(payment, ANSWER, patience.signal);
    await faults.reached;
    patience.abort();
    await settling;
    await dead[Symbol.asyncDispose]();
    await ledger[Symbol.asyncDispose]();

    await using again = await bed.openLedger();
    await using engine = await createEngine(bed.options([key]), bed.modules(again));
    await engine.wait(payment, timeLimit());
    assert.equal((await stateOf(again, payment)).state, "settled");
    assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
    assert.equal((await again.answer(payment.id))?.contentType, ANSWER.contentType);
  });
}

test("an engine that dies before the journal has promised nothing: the claim is released with its process", async () => {
  await using bed = await openBed(server());
  const key = await bed.relayerKey();
  const ledger = await bed.openLedger();
  const faults = stopAt("engine.journal.before");
  const dead = await createEngine(bed.options([key], KILLED), bed.modules(ledger, faults));
  const paid = await bed.balance(PAY_TO);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  const settling = dead.settle(payment, ANSWER, patience.signal);
  await faults.reached;
  patience.abort();
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  await dead[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();
  await using again = await bed.openLedger();
  assert.equal((await stateOf(again, payment)).state, "released");
  assert.equal(await bed.balance(PAY_TO), paid);
});

test("a stuck transaction is replaced with higher fees, and settles under one nonce", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const clock = virtualClock();
  const options = bed.options([key], { ...AT_ONCE, bumpAfterMs: 30_000 });
  await using engine = await createEngine(options, bed.modules(ledger, noFaults, clock));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  const transactions = async () =>
    (await ledger.openBatches(NETWORK, privateKeyToAddress(key))).flatMap((batch) => batch.transactions);
  for (let count = 1; ; count++) {
    await eventually(`${count} transactions`, async () => (await transactions()).length === count);
    if (count === 3) break;
    clock.advance(30_000);
  }
  const fees = (await transactions()).map(({ maxFeePerGas }) => maxFeePerGas);
  for (const [at, fee] of fees.entries()) assert.ok(at === 0 || fee * 1_000n >= (fees[at - 1] ?? 0n) * 1_125n);
  await mineUntil(bed, settling);
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "latest"]), "0x1");
});

test("a transaction that the node dropped is sent again", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const clock = virtualClock();
  await using engine = await createEngine(bed.options([key], AT_ONCE), bed.modules(ledger, noFaults, clock));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  const isPending = async (): Promise<boolean> =>
    Number(((await devRpc(bed.anvil.url, "txpool_status", [])) as { pending: string }).pending) === 1;
  await eventually("it is sent", isPending);
  await devRpc(bed.anvil.url, "anvil_dropAllTransactions", []);
  assert.equal(await isPending(), false);
  await eventually("it is sent again", () => {
    // A look while the first attempt is still under way sends nothing, and counts as none.
    clock.advance(2_000);
    return isPending();
  });
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "settled");
});

test("a window that closes before the transaction is mined ends the payment; the nonce is used up all the same", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const payment = await claim(ledger, await bed.payer(PRICE), { validBefore });
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  await devRpc(bed.anvil.url, "evm_increaseTime", [700]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await settling;
  const end = await stateOf(ledger, payment);
  assert.equal(end.state, "failed");
  const next = await claim(ledger, await bed.payer(PRICE));
  const second = engine.settle(next, ANSWER, timeLimit());
  await untilState(ledger, next, "signed");
  await mineUntil(bed, second);
  assert.equal((await stateOf(ledger, next)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
});

test("a settled payment whose block is re-organised away is sent again and settles again", async () => {
  await using bed = await openOwnBed(server());
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const options = bed.options([key]);
  const deep = { ...options, networks: options.networks.map((net) => ({ ...net, finalityBlocks: 50 })) };
  await using engine = await createEngine(deep, bed.modules(ledger));
  const payers = [await bed.payer(PRICE), await bed.payer(PRICE)];
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  const payments = [];
  for (const payer of payers) {
    const payment = await claim(ledger, payer);
    await engine.settle(payment, ANSWER, timeLimit());
    payments.push(payment);
  }
  const [first, second] = payments;
  assert.ok(first !== undefined && second !== undefined);
  const before = (await stateOf(ledger, second)).evidence;
  await devRpc(bed.anvil.url, "anvil_rollback", [2]);
  assert.equal(await bed.balance(PAY_TO), 0n);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x2"]);
  for (const payment of payments) {
    await eventually("it is settled again", async () => {
      const { state, evidence } = await stateOf(ledger, payment);
      const isElsewhere = state === "settled" && evidence?.blockHash !== before?.blockHash;
      return isElsewhere && (await bed.balance(PAY_TO)) === 2n * PRICE;
    });
  }
  assert.equal(await bed.balance(PAY_TO), 2n * PRICE);
});

test("a re-organised payment that can no longer be settled is disputed", async () => {
  await using bed = await openOwnBed(server());
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const options = bed.options([key]);
  const deep = { ...options, networks: options.networks.map((net) => ({ ...net, finalityBlocks: 50 })) };
  await using engine = await createEngine(deep, bed.modules(ledger));
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const payer = await bed.payer(PRICE);
  const payment = await claim(ledger, payer, { validBefore });
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  await devRpc(bed.anvil.url, "anvil_rollback", [1]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x3", "0x2bc"]);
  const end = await untilState(ledger, payment, "disputed");
  assert.equal(end.reason, "PAYMENT_EXPIRED");
});

test("two engines with one key: one holds it, the other takes over when it ends, and no nonce is used twice", async () => {
  await using bed = await openBed(server());
  const key = await bed.relayerKey();
  const ledgers = [await bed.openLedger(), await bed.openLedger()] as const;
  const first = await createEngine(bed.options([key]), bed.modules(ledgers[0]));
  await using second = await createEngine(bed.options([key]), bed.modules(ledgers[1]));
  assert.deepEqual(second.missing(), [`relayer key (${NETWORK})`]);
  const paid = await bed.balance(PAY_TO);
  const payment = await claim(ledgers[0], await bed.payer(PRICE));
  await first.settle(payment, ANSWER, timeLimit());
  await first[Symbol.asyncDispose]();
  await ledgers[0][Symbol.asyncDispose]();
  await eventually("the second one holds it", () => second.missing().length === 0);
  const next = await claim(ledgers[1], await bed.payer(PRICE));
  await second.settle(next, ANSWER, timeLimit());
  assert.equal((await stateOf(ledgers[1], next)).state, "settled");
  assert.equal((await bed.balance(PAY_TO)) - paid, 2n * PRICE);
  await ledgers[1][Symbol.asyncDispose]();
});

test("a payment whose claim is lost in the queue is dropped from its batch; the others settle", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const paid = await bed.balance(PAY_TO);
  const payments = await Promise.all([1, 2, 3].map(async () => claim(ledger, await bed.payer(PRICE))));
  const [gone, ...kept] = payments;
  assert.ok(gone !== undefined);
  assert.equal(await ledger.release(gone.id, "SERVICE_UNAVAILABLE"), true);
  const results = await Promise.allSettled(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  assert.ok(results[0]?.status === "rejected" && isAppError(results[0].reason, "LEDGER_FENCED"));
  for (const payment of kept) assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal((await bed.balance(PAY_TO)) - paid, 2n * PRICE);
});

test("a key that something else used goes on behind the chain's nonce", async () => {
  await using bed = await openBed(server());
  const key = await bed.relayerKey();
  const relayer = privateKeyToAddress(key);
  await using ledger = await bed.openLedger();
  const clock = virtualClock();
  await using engine = await createEngine(bed.options([key], AT_ONCE), bed.modules(ledger, noFaults, clock));
  await devRpc(bed.anvil.url, "anvil_impersonateAccount", [relayer]);
  await devRpc(bed.anvil.url, "eth_sendTransaction", [{ from: relayer, to: relayer }]);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await eventually("its nonce counts as taken by something else", async () => {
    clock.advance(1_000);
    return (await stateOf(ledger, payment)).state === "settled";
  });
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "settled", "in a batch of another nonce");
  const next = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(next, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, next)).state, "settled");
});

test("a chain that lost its newest blocks with the ledger intact gets its missing nonces filled", async () => {
  await using bed = await openBed(server());
  const key = await bed.relayerKey();
  const relayer = privateKeyToAddress(key);
  const ledger = await bed.openLedger();
  // The ledger knows of nonces that this chain has never seen.
  await ledger.leaseRelayer(NETWORK, relayer, 3);
  await ledger[Symbol.asyncDispose]();
  await using again = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(again));
  const payment = await claim(again, await bed.payer(PRICE));
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(again, payment)).state, "settled");
  assert.equal(await devRpc(bed.anvil.url, "eth_getTransactionCount", [relayer, "latest"]), "0x4");
});

test("a settlement that is lost while nothing runs is found however deep the chain is by then", async () => {
  await using bed = await openOwnBed(server());
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const engine = await createEngine(bed.options([key]), bed.modules(ledger));
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  const payment = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(payment, ANSWER, timeLimit());
  const before = (await stateOf(ledger, payment)).evidence;
  await engine[Symbol.asyncDispose]();
  await devRpc(bed.anvil.url, "anvil_rollback", [1]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x20"]);
  assert.equal(await bed.balance(PAY_TO), 0n);
  await using again = await createEngine(bed.options([key]), bed.modules(ledger));
  await eventually("it is on the chain again", async () => (await bed.balance(PAY_TO)) > 0n);
  await again.wait(payment, timeLimit());
  const { state, evidence } = await untilState(ledger, payment, "settled");
  assert.equal(state, "settled");
  assert.notEqual(evidence?.blockHash, before?.blockHash);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  await eventually("it is noted as final", async () => (await ledger.unfinalBlocks(NETWORK, 1)).length === 0);
});

test("what was journaled with a key that is configured no more is sent, and settles", async () => {
  await using bed = await openBed(server());
  const ledger = await bed.openLedger();
  const faults = stopAt("engine.broadcast.before");
  const dead = await createEngine(bed.options([await bed.relayerKey()], KILLED), bed.modules(ledger, faults));
  const paid = await bed.balance(PAY_TO);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  const settling = dead.settle(payment, ANSWER, patience.signal);
  await faults.reached;
  patience.abort();
  await settling;
  await dead[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();
  assert.equal(await bed.balance(PAY_TO), paid);

  await using again = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(again));
  await engine.wait(payment, timeLimit());
  assert.equal((await stateOf(again, payment)).state, "settled");
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
});

test("what a facilitator was asked for in another mode ends by the chain when its window has closed", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const [unpaid, paid] = [
    await claim(ledger, await bed.payer(PRICE), { validBefore }),
    await claim(ledger, await bed.payer(PRICE), { validBefore }),
  ];
  for (const payment of [unpaid, paid]) await ledger.journalSubmission(payment.id, ANSWER);
  const { key, payTo, value, validAfter, signature } = paid;
  const fields = { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce };
  const data = encodeTransferVrs(fields, signature);
  await devRpc(bed.anvil.url, "anvil_impersonateAccount", [paid.payTo]);
  await fundGas(bed.anvil.url, paid.payTo, 10n ** 18n);
  await devRpc(bed.anvil.url, "eth_sendTransaction", [{ from: paid.payTo, to: USDC_ADDRESS, data, gas: "0x40000" }]);
  await using _engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  await devRpc(bed.anvil.url, "anvil_mine", ["0x6", "0x2bc"]);
  await untilState(ledger, paid, "settled");
  assert.equal((await untilState(ledger, unpaid, "failed")).reason, "PAYMENT_EXPIRED");
});
