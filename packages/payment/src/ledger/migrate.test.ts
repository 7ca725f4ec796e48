import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { superuserUrl } from "@turnpike/testkit/servers";
import { claimed, LEDGER, openLedger, sql, testServer } from "../../test/ledger-fixtures.ts";
import { migrate } from "./migrate.ts";

const server = testServer();

let made = 0;
const emptyDatabase = (): Promise<string> => server().postgres.createDatabase(`empty_${made++}`);
const schemaError = (error: unknown): boolean => isAppError(error, "LEDGER_SCHEMA");

test("migrations are applied once, in order, to a schema of any plain name", async () => {
  const url = await emptyDatabase();
  const names = (await readdir(new URL("../../migrations/", import.meta.url)))
    .filter((name) => name.endsWith(".sql"))
    .sort();
  assert.ok(names.length > 0);
  assert.deepEqual(await migrate(url, { ...LEDGER, schema: "turnpike" }), { applied: names });
  assert.deepEqual(await migrate(url, { ...LEDGER, schema: "turnpike" }), { applied: [] });
  await assert.rejects(openLedger(url), schemaError, "the other schema has no tables");
  assert.deepEqual(await migrate(url, LEDGER), { applied: names });
  await using one = await openLedger(url);
  await using two = await openLedger(url, { schema: "turnpike" });
  const id = await claimed(one);
  assert.equal(await two.get(id), undefined);
  for (const schema of ["pg_x", "a-b", 'a"; drop', "A", ""]) {
    await assert.rejects(migrate(url, { ...LEDGER, schema }), (error) => isAppError(error, "CONFIG_INVALID"));
  }
});

test("several that migrate at once apply each migration once", async () => {
  const url = await emptyDatabase();
  // Each is a session of its own, which is all that the database sees of a process.
  const counts = await Promise.all(Array.from({ length: 5 }, async () => (await migrate(url, LEDGER)).applied.length));
  const all = (await sql(url, "select name from migrations")).length;
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    [0, 0, 0, 0, all],
  );
});

test("a migration that was changed is refused", async () => {
  const url = await emptyDatabase();
  await migrate(url, LEDGER);
  await sql(url, "update migrations set checksum = 'other' where name like '0001%'");
  await assert.rejects(migrate(url, LEDGER), (error) => schemaError(error) && /0001/.test(String(error)));
  await assert.rejects(openLedger(url), schemaError);
});

test("a database that is newer than the code is refused", async () => {
  const url = await emptyDatabase();
  await migrate(url, LEDGER);
  await sql(url, "insert into migrations (name, checksum) values ('9999-later.sql', 'x')");
  await assert.rejects(migrate(url, LEDGER), (error) => schemaError(error) && /9999-later\.sql/.test(String(error)));
  await assert.rejects(openLedger(url), schemaError);
});

/** A role without any rights on the file's databases; gives a function from a database's URL to that of the role. */
async function stranger(cleanup: AsyncDisposableStack, url: string) {
  const role = `tenant_${randomBytes(6).toString("hex")}`;
  const superuser = superuserUrl(url);
  await sql(superuser, `create role ${role} login password 't'`);
  cleanup.defer(async () => void (await sql(superuser, `drop owned by ${role}; drop role ${role}`)));
  const asRole = new URL(url);
  asRole.username = role;
  asRole.password = "t";
  return { role, roleUrl: asRole.href };
}

const messageOf = async (url: string): Promise<string> => {
  const error: unknown = await migrate(url, LEDGER).catch((reason: unknown) => reason);
  assert.ok(schemaError(error), String(error));
  return error instanceof Error ? error.message : "";
};

test("the owner of the tests' databases is a plain role, as of docs/operate/gateway.md", async () => {
  const roles = await sql(
    server().postgres.url,
    "select rolsuper, rolcreaterole, rolcreatedb, rolbypassrls from pg_roles where rolname = current_user",
  );
  assert.deepEqual(roles, [{ rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolbypassrls: false }]);
});

/** Undoes the migrations from 0015 on, but for the text of the function that 0015 replaces. */
const BEFORE_0015 = `
  delete from migrations where name >= '0015';
  drop function take_budgets(text[], bigint[]);
  drop function return_budgets(text[]);
  drop table settlement_budgets;
  drop function open_result(text, interval);
  drop table open_results;
  drop function admit_wallets(json, interval);
  drop function close_results(text[], text[]);
  drop function admit_wallet(text, text, text, text[], interval);
  drop function end_wallet(text, text, text, text[], boolean, bigint);
  drop function plain_places(text, text, text, text);
  drop function admit_plain(text, text, text[]);
  drop function fail_plain(text, text, text, text, bigint, boolean);
  drop function credit_plain(bigint[]);
  drop function vouched_for(text, text[]);
  drop function take_budgets(text[], bigint[], bigint);
  drop function return_budgets(text[], bigint);
  drop table wallet_runs, wallet_risks;
  alter table payments drop column placed;`;

test("a ledger that a superuser migrated by the first text of 0011 goes on, for its owner and for the superuser", async () => {
  const former = `${BEFORE_0015}
    update migrations set checksum = '9e64d6e34a443c32458a93b8887070db5acbed5ad187162c7b7d1da9cb6f78a1'
      where name like '0011%';
    alter function prune_released(interval, integer) set turnpike.pruning to 'on'`;
  for (const isSuperuser of [false, true]) {
    const owner = await emptyDatabase();
    const url = isSuperuser ? superuserUrl(owner) : owner;
    await migrate(url, LEDGER);
    await sql(superuserUrl(owner), former);
    await assert.rejects(openLedger(url), schemaError, "0015 is not applied");
    const { applied } = await migrate(url, LEDGER);
    assert.deepEqual(applied, [
      "0015-prune-without-superuser.sql",
      "0016-open-results.sql",
      "0017-wallet-risks.sql",
      "0018-settlement-budgets.sql",
      "0019-wallet-places.sql",
      "0020-settlement-bounds.sql",
      "0021-result-leases.sql",
      "0022-admissions-in-bulk.sql",
    ]);
    const settings = await sql(url, "select from pg_proc where array_to_string(proconfig, ' ') like '%pruning%'");
    assert.deepEqual(settings, []);
    await using ledger = await openLedger(url, { releasedRetentionSeconds: 0 });
    const id = await claimed(ledger);
    await ledger.release(id, "SERVICE_UNAVAILABLE");
    await ledger.swept([id]);
    assert.equal(await ledger.pruneReleased(), 1);
  }
});

test("the refusal of a role that lacks a right to migrate names the grant, with which it migrates", async () => {
  await using cleanup = new AsyncDisposableStack();
  const owner = await emptyDatabase();
  const { role, roleUrl } = await stranger(cleanup, owner);
  const message = await messageOf(roleUrl);
  assert.match(message, new RegExp(`The role ${role} may not create the schema ledger in the database`));
  await sql(owner, message.slice(message.indexOf("grant ")));
  await migrate(roleUrl, LEDGER);

  // An administrator made the schema, and the role may create no other.
  const other = await emptyDatabase();
  const tenant = await stranger(cleanup, other);
  await sql(other, "create schema ledger");
  const closed = await messageOf(tenant.roleUrl);
  await sql(other, closed.slice(closed.indexOf("grant ")));
  await migrate(tenant.roleUrl, LEDGER);
});

test("the refusal of a role that does not own the tables names their owner", async () => {
  const owner = await emptyDatabase();
  await migrate(superuserUrl(owner), LEDGER);
  await sql(superuserUrl(owner), "grant usage on schema ledger to public; grant select on migrations to public");
  await migrate(owner, LEDGER);
  await sql(superuserUrl(owner), BEFORE_0015);
  assert.match(
    await messageOf(owner),
    /belong to the role postgres, and the role turnpike_test_owner may not change them/,
  );
});

test("a migration that fails leaves nothing behind", async () => {
  const url = await emptyDatabase();
  await sql(url, "create schema ledger");
  await sql(url, "create table ledger.answers ()");
  await assert.rejects(migrate(url, LEDGER));
  const tables = await sql<{ name: string }>(
    url,
    "select tablename as name from pg_tables where schemaname = 'ledger'",
  );
  assert.deepEqual(tables, [{ name: "answers" }]);
});
