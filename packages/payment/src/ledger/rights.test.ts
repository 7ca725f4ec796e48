import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { superuserUrl } from "@turnpike/testkit/servers";
import {
  claimed,
  journaled,
  LEDGER,
  leased,
  newAnswer,
  newEvidence,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import { LedgerOperator } from "./operator.ts";
import { TABLE_RIGHTS } from "./rights.ts";

const server = testServer();

/** A database, and a URL of it for a role that has what these statements grant. */
async function asRole(cleanup: AsyncDisposableStack, grants: (role: string) => string) {
  const url = await server().database();
  // Roles are of the whole server, which other files may use.
  const role = `gateway_${randomBytes(6).toString("hex")}`;
  await sql(superuserUrl(url), `create role ${role} login password 'g'`);
  cleanup.defer(async () => void (await sql(superuserUrl(url), `drop owned by ${role}; drop role ${role}`)));
  await sql(url, grants(role));
  const own = new URL(url);
  own.username = role;
  own.password = "g";
  return { url, role, own: own.href };
}

const listed = (role: string): string =>
  [
    `grant usage on schema ledger to ${role}`,
    ...Object.entries(TABLE_RIGHTS).map(
      ([table, rights]) => `grant ${rights.join(", ")} on ledger.${table} to ${role}`,
    ),
  ].join("; ");

test("the rights that a start asks for are enough for all that a ledger does", async () => {
  await using cleanup = new AsyncDisposableStack();
  const { url, own } = await asRole(cleanup, listed);
  await using ledger = await openLedger(own, { releasedRetentionSeconds: 0 });
  const unused = await claimed(ledger);
  await ledger.release(unused, "SERVICE_UNAVAILABLE");
  await ledger.swept([unused]);
  assert.equal(await ledger.pruneReleased(), 1);
  const [signed, sent] = [await claimed(ledger), await claimed(ledger)];
  const lease = await leased(ledger);
  const { batchId } = await journaled(ledger, lease, 0, [signed]);
  await ledger.closeBatch(batchId, newEvidence().transaction);
  await ledger.journalSubmission(sent, newAnswer());
  await ledger.settled(signed, newEvidence());
  await ledger.reorganised(signed);
  await ledger.failed(sent, "PAYMENT_NONCE_USED");
  await sql(url, "update payments set answer_expires_at = now()");
  await sql(url, "update answers set expires_at = now()");
  assert.equal(await ledger.expireAnswers(), 1);
  assert.equal(await ledger.releaseOrphans(), 0);
  await ledger.openResult(sent);
  assert.equal(await ledger.isResultOpen(sent), true);
  assert.equal(await ledger.takeResult(sent, false), true);
  await ledger.leaseResult(signed);
  for (const id of [sent, signed]) ledger.closeResult(id);
  const rows = (): Promise<unknown[]> => sql(url, "select from open_results");
  await eventually("their rows are deleted", async () => (await rows()).length === 0);
  const budgets = [{ name: "payer", perDay: 1 }];
  assert.equal(await ledger.takeBudgets(budgets), undefined);
  assert.equal(await ledger.usedUpBudget(budgets), "payer");
  await ledger.returnBudgets(["payer"]);
  assert.equal((await ledger.sums()).length, 1);
  await ledger.returnRelayer(lease);
});

test("an operator's command without a right says which table it is about", async () => {
  await using cleanup = new AsyncDisposableStack();
  const { own } = await asRole(cleanup, listed);
  const blocked = new LedgerOperator(own, LEDGER).blocked(10);
  await assert.rejects(blocked, { code: "LEDGER_SCHEMA", message: /refuses blocked: .*blocked_payers/ });
});

test("each table is listed, so that a new one is asked for at the start", async () => {
  const url = await server().database();
  const rows = await sql<{ name: string }>(
    url,
    "select relname as name from pg_class where relnamespace = 'ledger'::regnamespace and relkind = 'r'",
  );
  // Its owner's rights are used: see the migration.
  const tables = rows.map(({ name }) => name).filter((name) => name !== "blocked_payers" && name !== "foreign_scans");
  assert.deepEqual(
    tables.filter((name) => !Object.hasOwn(TABLE_RIGHTS, name)),
    [],
  );
});

test("a role that lacks a right is refused at the start, by table and with the grant to run", async () => {
  const cases = [
    [
      (role: string) => `revoke all on ledger.answers from ${role}`,
      /may not SELECT, INSERT, UPDATE, DELETE on answers/,
    ],
    [(role: string) => `revoke delete on ledger.holders from ${role}`, /may not DELETE on holders/],
    [(role: string) => `revoke select on ledger.books from ${role}`, /may not SELECT on books/],
    [
      (role: string) => `revoke execute on all functions in schema ledger from public, ${role}`,
      /may not EXECUTE on the functions admit_plain, admit_wallet, admit_wallets and \d+ more/,
    ],
    [(role: string) => `revoke usage on schema ledger from ${role}`, /may not USAGE on the schema ledger/],
    [(role: string) => `revoke select on ledger.migrations from ${role}`, /may not SELECT on migrations/],
  ] as const;
  for (const [revoke, said] of cases) {
    await using cleanup = new AsyncDisposableStack();
    const { url, own, role } = await asRole(cleanup, (name) => `${listed(name)}; ${revoke(name)}`);
    const error: unknown = await openLedger(own).then(
      async (ledger) => ledger[Symbol.asyncDispose](),
      (reason: unknown) => reason,
    );
    assert.ok(isAppError(error, "LEDGER_SCHEMA"), String(said));
    assert.match(error.message, said);
    assert.match(error.message, new RegExp(`role ${role}`));
    // What it says to run is enough.
    const grants = error.message.slice(error.message.indexOf("grant "));
    await sql(url, grants);
    await using _ = await openLedger(own);
  }
});
