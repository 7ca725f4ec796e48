import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { as, caller, openPool, sql, sqlState, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import type { RolePool } from "./pool.ts";

const admin = caller("admin");
let server: TestServer;
let pool: RolePool;
let owner: string;

before(async () => {
  server = await startTestServer();
  const database = await server.database();
  owner = database.owner;
  pool = openPool(database.url, { poolSize: 20 });
});
after(async () => {
  await pool?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** A new account whose plan allows this many applications. */
async function account(limit: number): Promise<string> {
  const id = randomUUID();
  await sql(owner, "insert into portal_plans (portal_plan_type, plan_application_limit) values ($1, $2)", [id, limit]);
  await sql(owner, "insert into portal_accounts (portal_account_id, portal_plan_type) values ($1, $1)", [id]);
  return id;
}
const insert = (id: string, rows = 1): Promise<readonly object[]> =>
  as(
    pool,
    admin,
    `insert into portal_applications (portal_account_id, portal_application_name)
     select $1, 'app ' || n from generate_series(1, $2::int) n`,
    [id, rows],
  );
const kept = async (id: string): Promise<number> =>
  (await sql(owner, "select from portal_applications where portal_account_id = $1 and deleted_at is null", [id]))
    .length;

test("a plan's limit holds among twenty inserts at once", async () => {
  const id = await account(7);
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => insert(id)));
  const failed = results.filter((one) => one.status === "rejected");
  assert.equal(failed.length, 13);
  for (const { reason } of failed) assert.ok(sqlState("PT409", /allows 7 applications/)(reason), String(reason));
  assert.equal(await kept(id), 7);
});

test("a statement that goes beyond the plan is taken back whole", async () => {
  const id = await account(5);
  await assert.rejects(insert(id, 6), sqlState("PT409"));
  assert.equal(await kept(id), 0);
  await insert(id, 5);
  await assert.rejects(insert(id), sqlState("PT409"));
});

test("soft-deleted applications do not count, and come back only where there is room", async () => {
  const id = await account(2);
  await insert(id, 2);
  const mark = (value: string): Promise<readonly object[]> =>
    as(
      pool,
      admin,
      `update portal_applications set deleted_at = ${value} where portal_account_id = $1 and portal_application_name = 'app 2'`,
      [id],
      { showsDeleted: true },
    );
  await mark("now()");
  await insert(id);
  await assert.rejects(mark("null"), sqlState("PT409"));
  await as(
    pool,
    admin,
    "delete from portal_applications where portal_account_id = $1 and portal_application_name = 'app 1'",
    [id],
  );
  await mark("null");
  assert.equal(await kept(id), 1);
});

test("moving applications to another account counts there", async () => {
  const [from, to] = [await account(5), await account(1)];
  await insert(from, 2);
  const move = "update portal_applications set portal_account_id = $2 where portal_account_id = $1";
  await assert.rejects(as(pool, admin, move, [from, to]), sqlState("PT409"));
  assert.equal(await kept(from), 2);
});

test("an unknown or deleted account is a foreign key's error, before the plan speaks", async () => {
  await assert.rejects(insert(randomUUID()), sqlState("23503", /portal_applications_portal_account_id_fkey/));
  const id = await account(0);
  await assert.rejects(insert(id), sqlState("PT409"));
  await sql(owner, "update portal_accounts set deleted_at = now() where portal_account_id = $1", [id]);
  await assert.rejects(insert(id), sqlState("23503", /portal_applications_portal_account_id_fkey/));
});

test("updated_at is the database's, on every table that has it", async () => {
  const id = await account(1);
  await insert(id);
  const read = () =>
    sql<{ at: Date; made: Date }>(
      owner,
      "select updated_at as at, created_at as made from portal_applications where portal_account_id = $1",
      [id],
    );
  const [before] = await read();
  await as(pool, admin, "update portal_applications set emoji = '🙂' where portal_account_id = $1", [id]);
  const [after] = await read();
  assert.ok(before !== undefined && after !== undefined && after.at > before.at);
  assert.deepEqual(after.made, before.made);
  const missing = await sql(
    owner,
    `select table_name from information_schema.columns c where table_schema = 'portal' and column_name = 'updated_at'
     and not exists (select from pg_trigger where tgname = 'touch' and tgrelid = format('portal.%I', table_name)::regclass)`,
  );
  assert.deepEqual(missing, []);
});

test("every write is audited: who, what, which row and which columns, and no value", async () => {
  const id = await account(3);
  const bound = caller("admin", id);
  const hash = "cd".repeat(32);
  const [made] = await as<{ id: string }>(
    pool,
    bound,
    "insert into portal_applications (portal_account_id, secret_key_hash) values ($1, $2) returning portal_application_id as id",
    [id, hash],
  );
  await as(
    pool,
    admin,
    "update portal_applications set emoji = 'x', secret_key_hash = null where portal_application_id = $1",
    [made?.id],
  );
  await as(pool, admin, "delete from portal_accounts where portal_account_id = $1", [id]);
  const rows = await sql<{ columns: string[] }>(
    owner,
    `select role, token_id, token_account_id, table_name, operation, columns from portal_private.audit
     where row_key in (array[$1], array[$2]) and role <> session_user order by id`,
    [id, made?.id],
  );
  const common = { role: "portal_admin", token_id: "token of admin", table_name: "portal_applications" };
  assert.deepEqual(rows, [
    {
      ...common,
      token_account_id: id,
      operation: "INSERT",
      columns: ["has_secret", "portal_account_id", "portal_application_id", "secret_key_hash", "secret_key_required"],
    },
    { ...common, token_account_id: null, operation: "UPDATE", columns: ["emoji", "has_secret", "secret_key_hash"] },
    { ...common, token_account_id: null, table_name: "portal_accounts", operation: "DELETE", columns: [] },
    { ...common, token_account_id: null, operation: "DELETE", columns: [] },
  ]);
  const all = await sql<{ text: string }>(owner, "select string_agg(a::text, '') as text from portal_private.audit a");
  assert.ok(!all[0]?.text.includes(hash));
});

test("what was taken back is not audited, and the audit only grows", async () => {
  const id = await account(0);
  const size = async () => (await sql(owner, "select from portal_private.audit")).length;
  const before = await size();
  await assert.rejects(insert(id), sqlState("PT409"));
  assert.equal(await size(), before);
  for (const text of ["delete from", "truncate"]) {
    await assert.rejects(sql(owner, `${text} portal_private.audit`), sqlState("42501", /only grows/));
  }
  await assert.rejects(sql(owner, "update portal_private.audit set role = 'x'"), sqlState("42501", /only grows/));
});

test("no second key leads from applications to accounts by way of another table", async () => {
  const paths = await sql(
    owner,
    `select conrelid::regclass::text as name from pg_constraint where contype = 'f'
     group by conrelid having 'portal.portal_accounts'::regclass = any (array_agg(confrelid))
       and 'portal.portal_applications'::regclass = any (array_agg(confrelid))`,
  );
  assert.deepEqual(paths, []);
});

test("revoked tokens are listed by the owner and read by the authenticator", async () => {
  await sql(owner, "insert into portal_private.revoked_tokens (token_id, reason) values ('one', 'lost')");
  const rows = await pool.connections.query(
    "select token_id, reason, expires_at > now() + interval '399 days' as kept from portal_private.revoked_tokens",
  );
  assert.deepEqual(rows.rows, [{ token_id: "one", reason: "lost", kept: true }]);
  await assert.rejects(pool.connections.query("delete from portal_private.revoked_tokens"), sqlState("42501"));
});
