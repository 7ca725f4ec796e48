import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AppError, type MetricSpec, noFaults, noMetrics, type SettlementId, systemClock } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, randomNonce } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import {
  ANSWER,
  type Bed,
  claim,
  mineUntil,
  NETWORK,
  openBed,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import { overrideRpc } from "../../test/override-rpc.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { createEngine } from "./engine.ts";
import { settlementLeasedKeys } from "./metrics.ts";

let server: TestServer;
let bed: Bed;
before(async () => {
  server = await startTestServer();
  bed = await openBed(server);
});
after(async () => {
  await bed?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

test("one payment settles through the contract, and its answer is kept", async () => {
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  assert.deepEqual(engine.missing(), []);
  const payer = await bed.payer(10n * PRICE);
  const paid = await bed.balance(PAY_TO);
  const payment = await claim(ledger, payer);
  const evidence = await engine.settle(payment, ANSWER, timeLimit());
  const settled = await stateOf(ledger, payment);
  assert.equal(settled.state, "settled");
  assert.deepEqual(evidence, settled.evidence, "told as it was committed");
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
  assert.equal((await ledger.answer(payment.id))?.contentType, ANSWER.contentType);
  const transaction = (await devRpc(bed.anvil.url, "eth_getTransactionByHash", [settled.evidence?.transaction])) as {
    to: string;
  };
  assert.equal(transaction.to.toLowerCase(), SETTLEMENT_BATCH_ADDRESS);
});

test("twenty payments at once with two keys all settle, each once, several to a transaction", async () => {
  await using ledger = await bed.openLedger();
  const keys = [await bed.relayerKey(), await bed.relayerKey()];
  await using engine = await createEngine(bed.options(keys, { maxBatch: 7 }), bed.modules(ledger));
  const payers = await Promise.all(Array.from({ length: 20 }, () => bed.payer(PRICE)));
  const paid = await bed.balance(PAY_TO);
  const payments = await Promise.all(payers.map((payer) => claim(ledger, payer)));
  await Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  const records = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(records.map(({ state }) => state)), new Set(["settled"]));
  assert.equal((await bed.balance(PAY_TO)) - paid, 20n * PRICE);
  assert.ok(new Set(records.map(({ evidence }) => evidence?.transaction)).size <= 4);
});

test("with nothing under way payments of one turn share a transaction, and wait for no time to pass", async () => {
  await using ledger = await bed.openLedger();
  const options = bed.options([await bed.relayerKey()], { batchWindowMs: 600_000 });
  const clock = { ...systemClock, monotonicMs: () => 0 };
  await using engine = await createEngine(options, bed.modules(ledger, noFaults, clock));
  const payers = await Promise.all(Array.from({ length: 3 }, () => bed.payer(PRICE)));
  const payments = await Promise.all(payers.map((payer) => claim(ledger, payer)));
  await Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  const records = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(records.map(({ state }) => state)), new Set(["settled"]));
  assert.equal(new Set(records.map(({ evidence }) => evidence?.transaction)).size, 1);
});

test("a lone payment does not wait for others; while one is under way, those that follow share a transaction", async () => {
  await using quiet = await openOwnBed(server, { noMining: true });
  await using ledger = await quiet.openLedger();
  // Nothing here waits for the window's end: what follows goes when two are there.
  const options = quiet.options([await quiet.relayerKey()], { batchWindowMs: 600_000, maxBatch: 2 });
  await using engine = await createEngine(options, quiet.modules(ledger));
  const settle = async (): Promise<{ readonly id: SettlementId; readonly settling: Promise<unknown> }> => {
    const payment = await claim(ledger, await quiet.payer(PRICE));
    return { id: payment.id, settling: engine.settle(payment, ANSWER, timeLimit()) };
  };
  const committed = (id: SettlementId): Promise<string> =>
    eventually("it is committed", async () => (await ledger.get(id))?.transaction);
  const first = await settle();
  const alone = await committed(first.id);
  const others = [await settle(), await settle()];
  const [second, third] = await Promise.all(others.map(({ id }) => committed(id)));
  assert.notEqual(second, alone);
  assert.equal(second, third);
  const payments = [first, ...others];
  await mineUntil(quiet, Promise.all(payments.map(({ settling }) => settling)));
  for (const { id } of payments) assert.equal((await ledger.get(id))?.state, "settled");
});

test("the queue gives a payment back unharmed when no key can take it", async () => {
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  // Each reconciliation gives the queue to the keys, and then says how many these are.
  let passes = 0;
  const metrics = {
    ...noMetrics,
    set(spec: MetricSpec) {
      if (spec.name === settlementLeasedKeys.name) passes++;
    },
  };
  await using engine = await createEngine(bed.options([key]), { ...bed.modules(ledger), metrics });
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 0n);
  await eventually("gas is missing", () => engine.missing().length > 0);
  assert.deepEqual(engine.missing(), ["relayer gas (eip155:84532)"]);
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  const settling = assert.rejects(engine.settle(payment, ANSWER, patience.signal), { code: "SETTLEMENT_UNAVAILABLE" });
  const seen = passes;
  await eventually("the keys have been offered it", () => passes >= seen + 2);
  patience.abort();
  await settling;
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  assert.equal(await ledger.release(payment.id, "SETTLEMENT_UNAVAILABLE"), true);
});

test("attack: a payment that is claimed again settles, though its first claim comes back from a simulation that failed", async () => {
  await using ledger = await bed.openLedger();
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let simulations = 0;
  /** The node's first answer about a batch comes late, and is that it has none. */
  const failing = async (method: string, [call]: readonly unknown[]): Promise<void> => {
    if (method !== "eth_call" || (call as { readonly from?: string }).from === undefined || simulations++ > 0) return;
    asked.resolve();
    await answered.promise;
    throw new AppError("SETTLEMENT_UNAVAILABLE");
  };
  const rpc = overrideRpc(bed.rpc, {
    async call(method, params, signal) {
      await failing(method, params);
      return bed.rpc.call(method, params, signal);
    },
    async batch(calls, signal) {
      for (const { method, params } of calls) await failing(method, params);
      return bed.rpc.batch(calls, signal);
    },
  });
  const options = bed.options([await bed.relayerKey()], { graceMs: 20 });
  await using engine = await createEngine(options, { ...bed.modules(ledger), rpc: new Map([[NETWORK, rpc]]) });
  const payer = await bed.payer(PRICE);
  const nonce = randomNonce();
  const first = await claim(ledger, payer, { nonce });
  const wait = new AbortController();
  const settling = engine.settle(first, ANSWER, wait.signal);
  await asked.promise;
  wait.abort();
  await settling;
  // As the stage does, whose buyer then presents the same payment.
  assert.equal(await ledger.release(first.id, "SETTLEMENT_UNAVAILABLE"), true);
  const second = await claim(ledger, payer, { nonce });
  const paid = engine.settle(second, ANSWER, timeLimit());
  await new Promise(setImmediate);
  answered.resolve();
  await paid;
  assert.equal((await stateOf(ledger, second)).state, "settled");
});
