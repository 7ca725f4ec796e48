import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
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
