import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Log, silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import {
  as,
  caller,
  FIXTURE,
  openPool,
  sql,
  sqlState,
  startTestServer,
  type TestServer,
} from "../../test/database-fixtures.ts";
import { revokeToken } from "../revoke.ts";
import type { RolePool } from "./pool.ts";
import { startRetention } from "./retention.ts";

let server: TestServer;
let owner: string;
let pool: RolePool;
before(async () => {
  server = await startTestServer();
  let url: string;
  ({ owner, url } = await server.database());
  pool = openPool(url);
});
after(async () => {
  await pool?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const audited = (days: number, rows: number): Promise<object[]> =>
  sql(
    owner,
    `insert into portal_private.audit (at, role, table_name, operation, row_key, columns)
     select now() - make_interval(days => $1), 'portal_admin', 'of ' || $1, 'DELETE', '{}', '{}' from generate_series(1, $2)`,
    [days, rows],
  );
const kept = (): Promise<{ name: string; rows: number }[]> =>
  sql(
    owner,
    `select table_name as name, count(*)::int as rows from portal_private.audit where table_name like 'of %'
     group by 1 order by 1`,
  );

test("what is too old goes in small batches, and what is younger stays", async () => {
  await audited(400, 25);
  await audited(100, 3);
  await sql(
    owner,
    `insert into portal_private.revoked_tokens (token_id, expires_at)
     values ('ended', now() - interval '2 days'), ('just ended', now()), ('alive', now() + interval '1 hour')`,
  );
  await sql(
    owner,
    `insert into portal_private.account_usage (portal_account_id, day, calls)
     values ($1, now() - interval '2 years', 5), ($1, now(), 7)`,
    [FIXTURE],
  );
  const told: unknown[] = [];
  const log: Log = { ...silentLog, info: (fields) => void told.push(fields) };
  await using retention = startRetention({ auditDays: 365, batchRows: 10 }, { pool, log });
  await retention.looked;
  assert.deepEqual(await kept(), [{ name: "of 100", rows: 3 }]);
  assert.deepEqual(await sql(owner, "select token_id from portal_private.revoked_tokens order by 1"), [
    { token_id: "alive" },
    { token_id: "just ended" },
  ]);
  assert.deepEqual(await sql(owner, "select calls from portal_private.account_usage"), [{ calls: "7" }]);
  assert.deepEqual(told, [{ rows: 27 }]);
  await using again = startRetention({ auditDays: 365, everyMs: 20 }, { pool, log });
  await again.looked;
  await audited(500, 2);
  await eventually("another look", async () => (await kept()).length === 1);
});

test("the audit keeps 30 days whatever is asked, and nobody but the function removes from it", async () => {
  await audited(29, 2);
  await assert.rejects(pool.connections.query("select portal_private.forget(29, 1000)"), sqlState("22023"));
  await assert.rejects(pool.connections.query("select portal_private.forget(null, 1000)"), sqlState("22023"));
  await assert.rejects(
    pool.connections.query("delete from portal_private.audit where at < now() - interval '1 year'"),
    sqlState("42501"),
  );
  for (const role of ["anon", "reader", "admin"] as const) {
    await assert.rejects(as(pool, caller(role), "select portal_private.forget(365, 1000)"), sqlState("42501"));
    await assert.rejects(as(pool, caller(role), "delete from portal_private.audit"), sqlState("42501"));
  }
  assert.ok((await kept()).some(({ name, rows }) => name === "of 29" && rows === 2));
});

test("a failure is logged and ends nothing", async () => {
  const told: string[] = [];
  const log: Log = { ...silentLog, warn: (_fields, message) => void told.push(message ?? "") };
  await using retention = startRetention({ auditDays: 1 }, { pool, log });
  await retention.looked;
  assert.deepEqual(told, ["old rows could not be removed"]);
});

test("a token that is taken back is remembered until its end, or for longer than any may live", async () => {
  const expiresAtMs = Date.UTC(2031, 0, 2);
  assert.ok(await revokeToken({ url: owner, tokenId: "known", reason: undefined, expiresAtMs }));
  assert.ok(await revokeToken({ url: owner, tokenId: "unknown", reason: undefined }));
  assert.deepEqual(
    await sql(
      owner,
      `select token_id, expires_at = '2031-01-02Z' as exact, expires_at > now() + interval '399 days' as long
       from portal_private.revoked_tokens where token_id like '%known' order by 1`,
    ),
    [
      { token_id: "known", exact: true, long: true },
      { token_id: "unknown", exact: false, long: true },
    ],
  );
});
