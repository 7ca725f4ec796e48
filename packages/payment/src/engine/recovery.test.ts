import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type FaultPoints, isAppError } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, type LocalPostgres, USDC_ADDRESS } from "@turnpike/localnet";
import {
  ANSWER,
  claim,
  NETWORK,
  openBed,
  PAY_TO,
  PRICE,
  startServer,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { encodeTransferVrs } from "../evm/abi.ts";
import { createEngine } from "./engine.ts";

let postgres: LocalPostgres;
before(async () => {
  postgres = await startServer();
});
after(() => postgres[Symbol.asyncDispose]());

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

for (const point of [
  "engine.journal.after",
  "engine.broadcast.before",
  "engine.broadcast.after",
  "engine.receipt.seen",
  "engine.settled.before",
  "engine.settled.after",
]) {
  test(`an engine that dies at ${point} leaves a payment that the next one settles, once`, async () => {
    await using bed = await openBed(postgres);
    const key = await bed.relayerKey();
    const ledger = await bed.openLedger();
    const faults = stopAt(point);
    const dead = await createEngine(bed.options([key]), bed.modules(ledger, faults));
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
    assert.equal(await bed.balance(PAY_TO), PRICE);
    assert.equal((await again.answer(payment.id))?.contentType, ANSWER.contentType);
  });
}

test("an engine that dies before the journal has promised nothing: the claim is released with its process", async () => {
  await using bed = await openBed(postgres);
  const key = await bed.relayerKey();
  const ledger = await bed.openLedger();
  const faults = stopAt("engine.journal.before");
  const dead = await createEngine(bed.options([key]), bed.modules(ledger, faults));
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
  assert.equal(await bed.balance(PAY_TO), 0n);
});

test("a stuck transaction is replaced with higher fees, and settles under one nonce", async () => {
  await using bed = await openBed(postgres, { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([key], { bumpAfterMs: 150 }), bed.modules(ledger));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  for (const end = Date.now() + 30_000; ; ) {
    const [batch] = await ledger.openBatches(NETWORK, privateKeyToAddress(key));
    const count = batch?.transactions.length ?? 0;
    if (count >= 3) break;
    assert.ok(Date.now() < end, `${count} transactions`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const [batch] = await ledger.openBatches(NETWORK, privateKeyToAddress(key));
  const fees = batch?.transactions.map(({ maxFeePerGas }) => maxFeePerGas) ?? [];
  for (const [at, fee] of fees.entries()) assert.ok(at === 0 || fee * 1_000n >= (fees[at - 1] ?? 0n) * 1_125n);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
  assert.equal(await devRpc(bed.anvil.url, "eth_getTransactionCount", [privateKeyToAddress(key), "latest"]), "0x1");
});

test("a transaction that the node dropped is sent again", async () => {
  await using bed = await openBed(postgres, { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const settling = engine.settle(payment, ANSWER, timeLimit());
  const pending = async (): Promise<number> =>
    Number(((await devRpc(bed.anvil.url, "txpool_status", [])) as { pending: string }).pending);
  const until = async (count: number): Promise<void> => {
    for (const end = Date.now() + 30_000; (await pending()) !== count; ) {
      assert.ok(Date.now() < end);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await until(1);
  await devRpc(bed.anvil.url, "anvil_dropAllTransactions", []);
  await until(1);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "settled");
});

test("a window that closes before the transaction is mined ends the payment; the nonce is used up all the same", async () => {
  await using bed = await openBed(postgres, { noMining: true });
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const validBefore = BigInt((await bed.chainTime()) + 30);
  const payment = await claim(ledger, await bed.payer(PRICE), { validBefore });
  const settling = engine.settle(payment, ANSWER, timeLimit());
  await untilState(ledger, payment, "signed");
  await devRpc(bed.anvil.url, "evm_increaseTime", [60]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  await settling;
  const end = await stateOf(ledger, payment);
  assert.equal(end.state, "failed");
  const next = await claim(ledger, await bed.payer(PRICE));
  const second = engine.settle(next, ANSWER, timeLimit());
  await untilState(ledger, next, "signed");
  for (const limit = Date.now() + 30_000; (await stateOf(ledger, next)).state !== "settled"; ) {
    assert.ok(Date.now() < limit);
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  }
  await second;
  assert.equal(await bed.balance(PAY_TO), PRICE);
});

test("a settled payment whose block is re-organised away is sent again and settles again", async () => {
  await using bed = await openBed(postgres);
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
    for (const end = Date.now() + 30_000; ; ) {
      const { state, evidence } = await stateOf(ledger, payment);
      if (
        state === "settled" &&
        evidence?.blockHash !== before?.blockHash &&
        (await bed.balance(PAY_TO)) === 2n * PRICE
      )
        break;
      assert.ok(Date.now() < end, state);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  assert.equal(await bed.balance(PAY_TO), 2n * PRICE);
});

test("a re-organised payment that can no longer be settled is disputed", async () => {
  await using bed = await openBed(postgres);
  const key = await bed.relayerKey();
  await using ledger = await bed.openLedger();
  const options = bed.options([key]);
  const deep = { ...options, networks: options.networks.map((net) => ({ ...net, finalityBlocks: 50 })) };
  await using engine = await createEngine(deep, bed.modules(ledger));
  const validBefore = BigInt((await bed.chainTime()) + 40);
  const payer = await bed.payer(PRICE);
  const payment = await claim(ledger, payer, { validBefore });
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, payment)).state, "settled");
  await devRpc(bed.anvil.url, "anvil_rollback", [1]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x3", "0x40"]);
  const end = await untilState(ledger, payment, "disputed");
  assert.equal(end.reason, "PAYMENT_EXPIRED");
});

test("two engines with one key: one holds it, the other takes over when it ends, and no nonce is used twice", async () => {
  await using bed = await openBed(postgres);
  const key = await bed.relayerKey();
  const ledgers = [await bed.openLedger(), await bed.openLedger()] as const;
  const first = await createEngine(bed.options([key]), bed.modules(ledgers[0]));
  await using second = await createEngine(bed.options([key]), bed.modules(ledgers[1]));
  assert.deepEqual(second.missing(), [`relayer key (${NETWORK})`]);
  const payment = await claim(ledgers[0], await bed.payer(PRICE));
  await first.settle(payment, ANSWER, timeLimit());
  await first[Symbol.asyncDispose]();
  await ledgers[0][Symbol.asyncDispose]();
  for (const end = Date.now() + 30_000; second.missing().length > 0; ) {
    assert.ok(Date.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const next = await claim(ledgers[1], await bed.payer(PRICE));
  await second.settle(next, ANSWER, timeLimit());
  assert.equal((await stateOf(ledgers[1], next)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), 2n * PRICE);
  await ledgers[1][Symbol.asyncDispose]();
});

test("a payment whose claim is lost in the queue is dropped from its batch; the others settle", async () => {
  await using bed = await openBed(postgres);
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = await Promise.all([1, 2, 3].map(async () => claim(ledger, await bed.payer(PRICE))));
  const [gone, ...kept] = payments;
  assert.ok(gone !== undefined);
  assert.equal(await ledger.release(gone.id, "SERVICE_UNAVAILABLE"), true);
  const results = await Promise.allSettled(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  assert.ok(results[0]?.status === "rejected" && isAppError(results[0].reason, "LEDGER_FENCED"));
  for (const payment of kept) assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), 2n * PRICE);
});

test("a key that something else used goes on behind the chain's nonce", async () => {
  await using bed = await openBed(postgres);
  const key = await bed.relayerKey();
  const relayer = privateKeyToAddress(key);
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  await devRpc(bed.anvil.url, "anvil_impersonateAccount", [relayer]);
  await devRpc(bed.anvil.url, "eth_sendTransaction", [{ from: relayer, to: relayer }]);
  const payment = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, payment)).state, "settled", "in a batch of another nonce");
  const next = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(next, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, next)).state, "settled");
});

test("a chain that lost its newest blocks with the ledger intact gets its missing nonces filled", async () => {
  await using bed = await openBed(postgres);
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
  await using bed = await openBed(postgres);
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
  for (const end = Date.now() + 30_000; (await bed.balance(PAY_TO)) === 0n; ) {
    assert.ok(Date.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await again.wait(payment, timeLimit());
  const { state, evidence } = await untilState(ledger, payment, "settled");
  assert.equal(state, "settled");
  assert.notEqual(evidence?.blockHash, before?.blockHash);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  for (const end = Date.now() + 30_000; (await ledger.unfinalBlocks(NETWORK, 1)).length > 0; ) {
    assert.ok(Date.now() < end, "it is not noted as final");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("what was journaled with a key that is configured no more is sent, and settles", async () => {
  await using bed = await openBed(postgres);
  const ledger = await bed.openLedger();
  const faults = stopAt("engine.broadcast.before");
  const dead = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger, faults));
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  const settling = dead.settle(payment, ANSWER, patience.signal);
  await faults.reached;
  patience.abort();
  await settling;
  await dead[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();
  assert.equal(await bed.balance(PAY_TO), 0n);

  await using again = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(again));
  await engine.wait(payment, timeLimit());
  assert.equal((await stateOf(again, payment)).state, "settled");
  assert.equal(await bed.balance(PAY_TO), PRICE);
});

test("what a facilitator was asked for in another mode ends by the chain when its window has closed", async () => {
  await using bed = await openBed(postgres);
  await using ledger = await bed.openLedger();
  const validBefore = BigInt((await bed.chainTime()) + 60);
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
  await devRpc(bed.anvil.url, "anvil_mine", ["0x6", "0x28"]);
  await untilState(ledger, paid, "settled");
  assert.equal((await untilState(ledger, unpaid, "failed")).reason, "PAYMENT_EXPIRED");
});
