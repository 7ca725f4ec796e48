import assert from "node:assert/strict";
import { test } from "node:test";
import type { SettlementId } from "@turnpike/base";
import { superuserUrl } from "@turnpike/testkit/servers";
import {
  claimed,
  journaled,
  LEDGER,
  leased,
  NETWORK,
  newEvidence,
  newKey,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import { auditLedger } from "./audit.ts";

const server = testServer();

/** A released claim that the sweep has found unused. */
async function unused(ledger: Ledger, isKept = false): Promise<SettlementId> {
  const id = await claimed(ledger);
  await ledger.release(id, "DEADLINE_EXCEEDED");
  await ledger.swept([id], isKept);
  return id;
}

/** Moves what was written into the past; the guard would say that it was written now. */
const letTimePass = (url: string, seconds: number): Promise<unknown> =>
  sql(
    superuserUrl(url),
    `set session_replication_role = replica;
    update payments set updated_at = updated_at - interval '${seconds} seconds'`,
  );

const counts = async (url: string): Promise<Readonly<Record<string, number>>> => {
  const [row] = await sql<Record<string, number>>(
    url,
    `select (select count(*)::integer from payments) as payments, (select count(*)::integer from events) as events,
      (select count(*)::integer from former_ids) as former_ids`,
  );
  return row ?? {};
};

test("released claims that were never used go after their retention, whole; what money depends on stays", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url, { releasedRetentionSeconds: 10_000 });
  const lease = await leased(ledger);
  const key = newKey();
  const former = await claimed(ledger, { key });
  await ledger.release(former, "DEADLINE_EXCEEDED");
  const again = await claimed(ledger, { key });
  await ledger.release(again, "ANSWER_TOO_LARGE");
  await ledger.swept([again]);
  const old = await unused(ledger);

  const open = await claimed(ledger);
  await ledger.release(open, "DEADLINE_EXCEEDED");
  const doubtful = await unused(ledger, true);
  const [owed, working] = [await claimed(ledger), await claimed(ledger)];
  await ledger.release(owed, "DEADLINE_EXCEEDED");
  await ledger.owed(owed, newEvidence());
  const [settled, failed] = [await claimed(ledger), await claimed(ledger)];
  await journaled(ledger, lease, 0, [settled, failed]);
  await ledger.settled(settled, newEvidence());
  await ledger.failed(failed, "PAYMENT_NONCE_USED");
  await ledger.swept([failed]);
  const kept = [open, doubtful, owed, working, settled, failed];

  await letTimePass(url, 9_000);
  const young = await unused(ledger);
  assert.equal(await ledger.pruneReleased(), 0);
  await letTimePass(url, 2_000);
  assert.equal(await ledger.pruneReleased(), 2);
  for (const id of [former, again, old]) assert.equal(await ledger.get(id), undefined);
  for (const id of [...kept, young]) assert.equal((await ledger.get(id))?.id, id);
  assert.deepEqual(await auditLedger(url, LEDGER), { ok: true, differences: [] });
  const { events, former_ids } = await counts(url);
  const left = await sql(url, "select 1 from events e join payments p on p.seq = e.payment");
  assert.deepEqual([events, former_ids], [left.length, 0]);
  await letTimePass(url, 100_000_000);
  assert.equal(await ledger.pruneReleased(), 1);
  for (const id of kept) assert.equal((await ledger.get(id))?.id, id);
});

test("a flood of unpaid calls leaves nothing behind", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url, { releasedRetentionSeconds: 0 });
  const flood = await Promise.all(Array.from({ length: 1_200 }, () => claimed(ledger)));
  await Promise.all(flood.map((id) => ledger.release(id, "DEADLINE_EXCEEDED")));
  const due = await ledger.unswept(NETWORK, 2_000_000_000, 2_000);
  assert.equal(due.length, 1_200);
  await ledger.swept(due.map(({ id }) => id));
  // Every process of the ledger does it.
  const [one, other] = await Promise.all([ledger.pruneReleased(), ledger.pruneReleased()]);
  assert.equal(one + other, 1_200);
  assert.deepEqual(await counts(url), { payments: 0, events: 0, former_ids: 0 });
});

test("the database refuses every other deletion", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const lease = await leased(ledger);
  const key = newKey();
  await ledger.release(await claimed(ledger, { key }), "DEADLINE_EXCEEDED");
  const [settled, open] = [await claimed(ledger, { key }), await claimed(ledger)];
  await journaled(ledger, lease, 0, [settled]);
  await ledger.settled(settled, newEvidence());
  await ledger.release(open, "DEADLINE_EXCEEDED");
  await unused(ledger, true);
  for (const text of [
    "delete from payments",
    "delete from payments where state = 'released'",
    "delete from events",
    "delete from former_ids",
    "delete from transactions",
    "update events set at = now()",
    "update former_ids set id = id || 'x'",
    "truncate payments cascade",
    "truncate events",
  ]) {
    await assert.rejects(sql(url, text), { code: "TP002" }, text);
    await assert.rejects(sql(url, `set turnpike.pruning to 'on'; ${text}`), { code: "TP002" }, text);
  }
});
