import assert from "node:assert/strict";
import { test } from "node:test";
import type { Address, SettlementId } from "@turnpike/base";
import {
  claimed,
  journaled,
  LEDGER,
  leased,
  NETWORK,
  newAnswer,
  newClaim,
  newKey,
  newTransaction,
  openLedger,
  RELAYER,
  testServer,
} from "../../test/ledger-fixtures.ts";
import { LedgerOperator } from "./operator.ts";

const server = testServer();

test("open transactions are listed with key, nonce and payments, and an operator can request a cancellation", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  assert.deepEqual(await operator.openTransactions(10), []);
  const lease = await leased(ledger);
  const [first, second] = [newTransaction(), { ...newTransaction(), maxFeePerGas: 3_000_000_000n }];
  const { batchId } = await journaled(ledger, lease, 0, [await claimed(ledger), await claimed(ledger)], first);
  await ledger.journalReplacement(lease, batchId, second);
  const [open, ...others] = await operator.openTransactions(10);
  assert.deepEqual(others, []);
  assert.deepEqual(
    { ...open, ageSeconds: 0 },
    {
      network: NETWORK,
      relayer: RELAYER.toLowerCase(),
      nonce: 0,
      held: true,
      ageSeconds: 0,
      attempts: 2,
      transaction: second.hash,
      maxFeePerGas: 3_000_000_000n,
      payments: 2,
      cancellation: "none",
    },
  );
  assert.equal(await operator.cancel(NETWORK, RELAYER, 1), false);
  assert.equal(await operator.cancel(NETWORK, RELAYER, 0), true);
  assert.equal((await operator.openTransactions(10))[0]?.cancellation, "requested");
  assert.equal((await ledger.openBatches(NETWORK, RELAYER))[0]?.cancelRequested, true);
  await ledger.journalReplacement(lease, batchId, { ...newTransaction(), cancels: true });
  assert.equal((await operator.openTransactions(10))[0]?.cancellation, "sent");
});

test("a payment that has used up its batches is sent again after an operator resets them", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  const lease = await leased(ledger);
  const id = await claimed(ledger);
  for (let nonce = 0; nonce < 4; nonce++) {
    const { batchId } = await journaled(ledger, lease, nonce, [id]);
    assert.equal(await operator.retry(id), "not-waiting", "it is in an open transaction");
    await ledger.closeBatch(batchId, newTransaction().hash);
  }
  await assert.rejects(journaled(ledger, lease, 4, [id]), { code: "LEDGER_FENCED" });
  assert.equal(await operator.retry(id), "requested");
  await journaled(ledger, lease, 4, [id]);
});

test("a payment whose window is closed is not sent again, and the operator gets to know", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  const lease = await leased(ledger);
  const id = await claimed(ledger, { validBefore: 1n });
  for (let nonce = 0; nonce < 4; nonce++) {
    const { batchId } = await journaled(ledger, lease, nonce, [id]);
    await ledger.closeBatch(batchId, newTransaction().hash);
  }
  assert.equal(await operator.retry(id), "window-closed");
  await assert.rejects(journaled(ledger, lease, 4, [id]), { code: "LEDGER_FENCED" });
  assert.equal(await operator.retry("stl_none" as SettlementId), "not-waiting");
});

test("a payment that a remote facilitator settles is not sent from here, and the operator gets to know", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  const id = await claimed(ledger);
  assert.equal(await operator.retry(id), "not-waiting", "it is claimed");
  await ledger.journalSubmission(id, { contentType: "application/json", body: Buffer.from("{}") });
  assert.equal(await operator.retry(id), "submitted");
});

test("a claim that an operator releases can no longer be signed or submitted", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  const lease = await leased(ledger);
  const [one, other] = [await claimed(ledger), await claimed(ledger)];
  assert.equal(await operator.release(one), true);
  assert.equal(await operator.release(one), false);
  await assert.rejects(journaled(ledger, lease, 0, [one]), { code: "LEDGER_FENCED" });
  await assert.rejects(ledger.journalSubmission(one, newAnswer()), { code: "LEDGER_FENCED" });
  await journaled(ledger, lease, 0, [other]);
  assert.equal(await operator.release(other), false, "what is signed can only be settled");
});

test("a blocked payer can claim nothing until the block ends; its earlier claims stay", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const operator = new LedgerOperator(url, LEDGER);
  const key = newKey();
  const before = newClaim({ key });
  assert.equal((await ledger.claim(before)).kind, "claimed");
  const payer = key.from.toUpperCase().replace("0X", "0x") as Address;
  await operator.block({ network: NETWORK, payer, reason: "burns gas", untilMs: undefined });
  const next = newClaim({ key: { ...newKey(), from: key.from } });
  assert.deepEqual(await ledger.claim(next), { kind: "blocked" });
  assert.equal((await ledger.claim(before)).kind, "exists");
  assert.equal((await ledger.claim(newClaim())).kind, "claimed", "others are not refused");
  assert.deepEqual(await operator.blocked(10), [
    { network: NETWORK, payer: key.from.toLowerCase(), reason: "burns gas", untilMs: undefined },
  ]);
  // A time that is over is none.
  await operator.block({ network: NETWORK, payer, reason: "burns gas", untilMs: 1 });
  assert.deepEqual(await operator.blocked(10), []);
  await operator.block({ network: NETWORK, payer, reason: "again", untilMs: undefined });
  assert.equal(await operator.unblock(NETWORK, payer), true);
  assert.equal(await operator.unblock(NETWORK, payer), false);
  assert.equal((await ledger.claim(next)).kind, "claimed");
});
