import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { SettlementId } from "@turnpike/base";
import { devRpc, fundGas, type LocalPostgres } from "@turnpike/localnet";
import {
  ANSWER,
  type Bed,
  claim,
  openBed,
  PAY_TO,
  PRICE,
  startServer,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { createEngine } from "./engine.ts";

let postgres: LocalPostgres;
let bed: Bed;
before(async () => {
  postgres = await startServer();
  bed = await openBed(postgres);
});
after(async () => {
  await bed[Symbol.asyncDispose]();
  await postgres[Symbol.asyncDispose]();
});

test("one payment settles by a direct call, and its answer is kept", async () => {
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  assert.deepEqual(engine.missing(), []);
  const payer = await bed.payer(10n * PRICE);
  const paid = await bed.balance(PAY_TO);
  const payment = await claim(ledger, payer);
  await engine.settle(payment, ANSWER, timeLimit());
  const settled = await stateOf(ledger, payment);
  assert.equal(settled.state, "settled");
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
  assert.equal((await ledger.answer(payment.id))?.contentType, ANSWER.contentType);
  const transaction = (await devRpc(bed.anvil.url, "eth_getTransactionByHash", [settled.evidence?.transaction])) as {
    to: string;
  };
  assert.equal(transaction.to.toLowerCase(), payment.key.asset);
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

test("a lone payment does not wait for others; while one is under way, those that follow share a transaction", async () => {
  await using quiet = await openBed(postgres, { noMining: true });
  await using ledger = await quiet.openLedger();
  // Nothing here waits for the window's end: what follows goes when two are there.
  const options = quiet.options([await quiet.relayerKey()], { batchWindowMs: 60_000, maxBatch: 2 });
  await using engine = await createEngine(options, quiet.modules(ledger));
  const settle = async (): Promise<{ readonly id: SettlementId; readonly settling: Promise<void> }> => {
    const payment = await claim(ledger, await quiet.payer(PRICE));
    return { id: payment.id, settling: engine.settle(payment, ANSWER, timeLimit()) };
  };
  const committed = async (id: SettlementId): Promise<string> => {
    for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 5))) {
      const transaction = (await ledger.get(id))?.transaction;
      if (transaction !== undefined) return transaction;
    }
    return assert.fail("not committed");
  };
  const first = await settle();
  const alone = await committed(first.id);
  const others = [await settle(), await settle()];
  const [second, third] = await Promise.all(others.map(({ id }) => committed(id)));
  assert.notEqual(second, alone);
  assert.equal(second, third);
  for (const { settling } of [first, ...others]) {
    await devRpc(quiet.anvil.url, "anvil_mine", ["0x1"]);
    await settling;
  }
});

test("the queue gives a payment back unharmed when no key can take it", async () => {
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key]), bed.modules(ledger));
  const { privateKeyToAddress } = await import("@turnpike/crypto");
  await fundGas(bed.anvil.url, privateKeyToAddress(key), 0n);
  for (const end = Date.now() + 30_000; engine.missing().length === 0 && Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.deepEqual(engine.missing(), ["relayer gas (eip155:84532)"]);
  const payment = await claim(ledger, await bed.payer(PRICE));
  await assert.rejects(engine.settle(payment, ANSWER, timeLimit(200)), { code: "SETTLEMENT_UNAVAILABLE" });
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  assert.equal(await ledger.release(payment.id, "SETTLEMENT_UNAVAILABLE"), true);
});
