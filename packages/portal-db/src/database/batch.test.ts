import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  as,
  caller,
  openPool,
  sql,
  sqlState,
  startTestServer,
  statement,
  type TestServer,
} from "../../test/database-fixtures.ts";
import type { RolePool } from "./pool.ts";
import { runWithRole, type SessionOptions } from "./session.ts";

const READ: SessionOptions = { statementTimeoutMs: 10_000, lockTimeoutMs: 10_000, isWrite: false };
const WRITE: SessionOptions = { ...READ, isWrite: true };
const reader = caller("reader");
const admin = caller("admin");

let server: TestServer;
let owner: string;
let pool: RolePool;
before(async () => {
  server = await startTestServer();
  let url: string;
  ({ owner, url } = await server.database());
  pool = openPool(url, { poolSize: 1 });
});
after(async () => {
  await pool?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const insert = (name: string) =>
  statement("insert into portal.organizations (organization_name) values ($1) returning organization_name", [name]);
const count = async (): Promise<number> => (await sql(owner, "select from organizations")).length;

test("statements come back in order with their columns, however often they come and by whichever way", async () => {
  const first = statement("select $1::int as n, $2::text as t, null::text as nothing", [7, 'a"\\ü']);
  const second = statement("select x from generate_series(1, 3) x");
  const none = statement("select from generate_series(1, 2)");
  const expected = [{ n: 7, t: 'a"\\ü', nothing: null }];
  for (let round = 0; round < 8; round++) {
    const gave = await runWithRole(pool, reader, READ, [first, second, none]);
    assert.deepEqual(gave, [expected, [{ x: 1 }, { x: 2 }, { x: 3 }], [{}, {}]], `round ${round}`);
    assert.deepEqual(await as(pool, reader, first.text, first.values), expected, "the driver's own way");
  }
});

test("a batch of writes is stored as a whole or not at all, and the connection goes on", async () => {
  const size = await count();
  const [gave] = await runWithRole(pool, admin, WRITE, [insert("one"), insert("two")]);
  assert.deepEqual(gave, [{ organization_name: "one" }]);
  assert.equal(await count(), size + 2);
  const { totalCount } = pool.connections;
  for (const bad of [statement("select 1 / 0"), statement("selec"), insert("x".repeat(70)), insert("nul \0")]) {
    await assert.rejects(runWithRole(pool, admin, WRITE, [insert("three"), bad, insert("four")]));
    await assert.rejects(runWithRole(pool, reader, READ, [statement("select 1"), bad]));
    const [state] = await runWithRole(pool, reader, READ, [
      statement("select current_user as who, current_setting('transaction_read_only') as only"),
    ]);
    assert.deepEqual(state, [{ who: "portal_reader", only: "on" }]);
  }
  assert.equal(await count(), size + 2);
  assert.equal(pool.connections.totalCount, totalCount);
});

test("between two batches nothing is left on a connection, after errors too", async () => {
  const bare = async (): Promise<unknown> =>
    (
      await pool.connections.query(
        `select current_user as who, current_setting('search_path') as path, current_setting('statement_timeout') as time,
          current_setting('transaction_read_only') as only, current_setting('request.jwt.claims', true) as claims,
          current_setting('request.deleted', true) as deleted`,
      )
    ).rows[0];
  const clean = { who: "portal_authenticator", path: '"$user", public', time: "0", only: "off" };
  const shown = { ...READ, showsDeleted: true };
  for (const [who, opts, one] of [
    [reader, shown, statement("select 1")],
    [admin, WRITE, statement("select 1 / 0")],
    [reader, shown, statement("select 1 / 0")],
  ] as const) {
    await runWithRole(pool, who, opts, [one]).catch(sqlState("22012"));
    assert.deepEqual(await bare(), { ...clean, claims: "", deleted: "" });
  }
});

test("a read cannot write, and writes run read committed whatever the database's default is", async () => {
  await assert.rejects(runWithRole(pool, admin, READ, [insert("of a read")]), sqlState("25006"));
  await assert.rejects(
    runWithRole(pool, admin, READ, [statement("set transaction read write"), insert("of a read")]),
    sqlState("25001"),
  );
  const { owner: other, url } = await server.database();
  const { pathname } = new URL(other);
  await sql(other, `alter database ${pathname.slice(1)} set default_transaction_isolation = 'serializable'`);
  await using fresh = openPool(url, { poolSize: 1 });
  const [rows] = await runWithRole(fresh, admin, WRITE, [statement("show transaction_isolation")]);
  assert.deepEqual(rows, [{ transaction_isolation: "read committed" }]);
});
