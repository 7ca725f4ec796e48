import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { readdir } from "node:fs/promises";
import { after, before, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { claimed, openLedger, sql, startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import { migrate } from "./migrate.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server[Symbol.asyncDispose]());

let made = 0;
const emptyDatabase = (): Promise<string> => server.postgres.createDatabase(`empty_${made++}`);
const schemaError = (error: unknown): boolean => isAppError(error, "LEDGER_SCHEMA");

test("migrations are applied once, in order, to a schema of any plain name", async () => {
  const url = await emptyDatabase();
  const names = (await readdir(new URL("../../migrations/", import.meta.url)))
    .filter((name) => name.endsWith(".sql"))
    .sort();
  assert.ok(names.length > 0);
  assert.deepEqual(await migrate(url, { schema: "turnpike" }), { applied: names });
  assert.deepEqual(await migrate(url, { schema: "turnpike" }), { applied: [] });
  await assert.rejects(openLedger(url), schemaError, "the other schema has no tables");
  assert.deepEqual(await migrate(url), { applied: names });
  await using one = await openLedger(url);
  await using two = await openLedger(url, { schema: "turnpike" });
  const id = await claimed(one);
  assert.equal(await two.get(id), undefined);
  for (const schema of ["pg_x", "a-b", 'a"; drop', "A", ""]) {
    await assert.rejects(migrate(url, { schema }), (error) => isAppError(error, "CONFIG_INVALID"));
  }
});

test("several processes that migrate at once apply each migration once", async () => {
  const url = await emptyDatabase();
  const program = new URL("../../test/migrate-child.ts", import.meta.url);
  const counts = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const child = fork(program, [url], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      child.once("message", (message) => resolve(Number(message)));
      child.once("exit", (code) => reject(new TypeError(`ended with ${code}`)));
      return promise;
    }),
  );
  const all = (await sql(url, "select name from migrations")).length;
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    [0, 0, all],
  );
});

test("a migration that was changed is refused", async () => {
  const url = await emptyDatabase();
  await migrate(url);
  await sql(url, "update migrations set checksum = 'other' where name like '0001%'");
  await assert.rejects(migrate(url), (error) => schemaError(error) && /0001/.test(String(error)));
  await assert.rejects(openLedger(url), schemaError);
});

test("a database that is newer than the code is refused", async () => {
  const url = await emptyDatabase();
  await migrate(url);
  await sql(url, "insert into migrations (name, checksum) values ('9999-later.sql', 'x')");
  await assert.rejects(migrate(url), (error) => schemaError(error) && /9999-later\.sql/.test(String(error)));
  await assert.rejects(openLedger(url), schemaError);
});

test("a migration that fails leaves nothing behind", async () => {
  const url = await emptyDatabase();
  await sql(url, "create schema ledger");
  await sql(url, "create table ledger.answers ()");
  await assert.rejects(migrate(url));
  const tables = await sql<{ name: string }>(
    url,
    "select tablename as name from pg_tables where schemaname = 'ledger'",
  );
  assert.deepEqual(tables, [{ name: "answers" }]);
});
