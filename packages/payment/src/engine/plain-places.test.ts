import assert from "node:assert/strict";
import { test } from "node:test";
import { ANSWER, type Bed, claim, openBed, openOwnBed, PRICE, stateOf, timeLimit } from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

async function claimMany(bed: Bed, ledger: Ledger, count: number): Promise<PaymentRecord[]> {
  const payer = await bed.payer(BigInt(count) * PRICE);
  return Promise.all(Array.from({ length: count }, () => claim(ledger, payer)));
}

test("64 payments of a new payer at once are all served and settled: they wait for places, which each settlement makes more of", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = await claimMany(bed, ledger, 64);
  assert.equal(payments.filter(({ waits }) => waits === true).length, 56);
  const pay = async (payment: PaymentRecord): Promise<void> => {
    assert.equal(await engine.reserve(payment, 60_000, timeLimit()), undefined);
    await engine.settle(payment, ANSWER, timeLimit());
  };
  await Promise.all(payments.map(pay));
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
  assert.ok(new Set(ends.map(({ evidence }) => evidence?.transaction)).size <= 12, "transactions are shared");
});

test("at a facilitator, which settles at once, they wait in the queue", async () => {
  await using bed = await openBed(server());
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = await claimMany(bed, ledger, 64);
  await Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit())));
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
});

test("of one payer at most 256 wait; more are refused at once, and those that wait when their time is over, as their payer's doing", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const payments = await claimMany(bed, ledger, 280);
  const ends = { served: 0, refused: 0 };
  const reserve = async (payment: PaymentRecord): Promise<void> => {
    const refusal = await engine.reserve(payment, 500, timeLimit());
    if (refusal === undefined) ends.served++;
    else {
      assert.equal(refusal.code, "PAYMENT_RATE_LIMITED");
      ends.refused++;
    }
  };
  const [others, waiting] = [payments.slice(264), payments.slice(0, 264)];
  const reserving = waiting.map(reserve);
  await Promise.all(others.map(reserve));
  assert.equal(ends.refused, others.length, "they do not wait");
  await Promise.all(reserving);
  assert.deepEqual(ends, { served: 8, refused: 272 });
});

test("attack: of one client at most 256 wait, whatever its payers; another client's payments still wait for their places", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(ledger));
  const burst = async (): Promise<PaymentRecord[]> => {
    const payments = await claimMany(bed, ledger, 200);
    return payments.filter(({ waits }) => waits === true);
  };
  const [first, second, third] = [await burst(), await burst(), await burst()];
  const leaving = new AbortController();
  const reserve = (payments: readonly PaymentRecord[], client: string): Promise<PaymentRefusal | undefined>[] =>
    payments.map((payment) => engine.reserve(payment, 60_000, leaving.signal, client));
  const waiting = reserve(first, "192.0.2.1");
  const atOnce = await Promise.all(reserve(second, "192.0.2.1").slice(256 - first.length));
  assert.deepEqual(new Set(atOnce.map((refusal) => refusal?.code)), new Set(["PAYMENT_RATE_LIMITED"]));
  let ended = 0;
  const others = reserve(third, "192.0.2.2").map((refusal) => refusal.finally(() => ended++));
  // Refusals at once come before the answers to many queries of the ledger.
  await burst();
  assert.equal(ended, 0);
  leaving.abort();
  await Promise.all([...waiting, ...others]);
});
