import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
import { openPool, sql, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import type { RoleView, TableView } from "../types.ts";
import type { RolePool } from "./pool.ts";
import { readRoleViews, WatchedRoleViews } from "./role-views.ts";

let server: TestServer;
let pool: RolePool;
let owner: string;
let url: string;
/** For tests that change tables and grants, or end connections. */
let changing: Awaited<ReturnType<TestServer["database"]>>;
before(async () => {
  server = await startTestServer();
  ({ owner, url } = await server.database());
  changing = await server.database();
  pool = openPool(url);
});
after(async () => {
  await pool?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const READABLE = [
  "networks",
  "organizations",
  "portal_account_rbac",
  "portal_accounts",
  "portal_application_rbac",
  "portal_application_usage",
  "portal_applications",
  "portal_plans",
];
const WRITABLE = [
  "organizations",
  "portal_account_rbac",
  "portal_accounts",
  "portal_application_rbac",
  "portal_applications",
  "portal_users",
];
const table = (view: RoleView, name: string): TableView => {
  const found = view.tables.get(name);
  if (found === undefined) throw new TypeError(`${view.role} does not see ${name}`);
  return found;
};
const having = (view: RoleView, verb: "insert" | "update" | "delete"): string[] =>
  [...view.tables.values()].filter(({ may }) => may[verb]).map(({ name }) => name);

test("each role sees its tables, and may do what it is granted", async () => {
  const { anon, reader, admin } = await readRoleViews(pool);
  assert.deepEqual([...anon.tables], []);
  assert.deepEqual([...reader.tables.keys()], READABLE);
  assert.deepEqual([...admin.tables.keys()].sort(), [...READABLE, "portal_users"].sort());
  for (const verb of ["insert", "update", "delete"] as const) {
    assert.deepEqual(having(reader, verb), []);
    assert.deepEqual(having(admin, verb), WRITABLE);
  }
  for (const view of [reader, admin]) for (const { may } of view.tables.values()) assert.equal(may.select, true);
});

test("columns come with types, labels, lengths, defaults, comments and rights", async () => {
  const { reader, admin } = await readRoleViews(pool);
  const columns = (view: RoleView) => table(view, "portal_applications").columns;
  assert.equal(columns(reader).has("secret_key_hash"), false);
  assert.deepEqual(columns(admin).get("secret_key_hash")?.may, { select: false, insert: true, update: true });
  assert.deepEqual(columns(admin).get("has_secret")?.may, { select: true, insert: false, update: false });
  assert.deepEqual(columns(admin).get("updated_at")?.may, { select: true, insert: false, update: false });
  assert.deepEqual(columns(admin).get("portal_application_id"), {
    name: "portal_application_id",
    type: "character varying(36)",
    isNullable: false,
    hasDefault: true,
    comment: "Id of the application.",
    labels: undefined,
    maxLength: 36,
    may: { select: true, insert: true, update: false },
  });
  const interval = columns(reader).get("portal_application_user_limit_interval");
  assert.deepEqual([interval?.type, interval?.labels], ["portal.plan_interval", ["day", "month", "year"]]);
  assert.equal(columns(reader).get("favorite_service_ids")?.type, "character varying[]");
  assert.equal(columns(reader).get("favorite_service_ids")?.maxLength, undefined);
  assert.equal(columns(reader).get("created_at")?.type, "timestamp with time zone");
  assert.equal(table(admin, "organizations").columns.get("organization_id")?.hasDefault, true);
  assert.equal(table(admin, "portal_applications").columns.get("portal_account_id")?.hasDefault, false);
});

test("every table and every column has a comment", async () => {
  const { admin } = await readRoleViews(pool);
  for (const { name, comment, columns } of admin.tables.values()) {
    assert.ok(comment, name);
    for (const column of columns.values()) assert.ok(column.comment, `${name}.${column.name}`);
  }
});

test("an application needs no more than its account", async () => {
  const { admin } = await readRoleViews(pool);
  const needed = [...table(admin, "portal_applications").columns.values()]
    .filter(({ isNullable, hasDefault }) => !isNullable && !hasDefault)
    .map(({ name }) => name);
  assert.deepEqual(needed, ["portal_account_id"]);
});

test("keys are there where the role sees both their sides", async () => {
  const { reader, admin } = await readRoleViews(pool);
  assert.deepEqual(table(admin, "portal_application_usage").primaryKey, ["portal_application_id", "day", "service_id"]);
  assert.deepEqual(table(reader, "portal_account_rbac").uniques, [["portal_account_id", "portal_user_id"]]);
  assert.deepEqual(table(reader, "portal_applications").foreignKeys, [
    {
      name: "portal_applications_portal_account_id_fkey",
      columns: ["portal_account_id"],
      table: "portal_accounts",
      tableColumns: ["portal_account_id"],
      isUnique: false,
    },
  ]);
  const targets = (view: RoleView): string[] => table(view, "portal_account_rbac").foreignKeys.map((key) => key.table);
  assert.deepEqual(targets(reader), ["portal_accounts"]);
  assert.deepEqual(targets(admin), ["portal_accounts", "portal_users"]);
});

test("a key whose columns are unique leads to one row; a hidden column takes its keys with it", async () => {
  await using other = openPool(changing.url);
  await sql(
    changing.owner,
    `create table portal.notes (
       id integer primary key,
       portal_application_id varchar(36) unique references portal.portal_applications,
       portal_account_id varchar(36) references portal.portal_accounts
     )`,
  );
  await sql(changing.owner, "grant select (id, portal_application_id) on portal.notes to portal_reader");
  const { reader, admin } = await readRoleViews(other);
  const notes = table(reader, "notes");
  assert.deepEqual(
    notes.foreignKeys.map((key) => [key.table, key.isUnique]),
    [["portal_applications", true]],
  );
  assert.deepEqual([...notes.columns.keys()], ["id", "portal_application_id"]);
  assert.equal(admin.tables.has("notes"), false);
});

test("views are read again when the database tells of a change, also after the connection was lost", async () => {
  await using other = openPool(changing.url);
  const opts = { url: changing.url, debounceMs: 1, reconnectMs: 1 };
  await using watched = await WatchedRoleViews.open(opts, { pool: other, log: silentLog });
  assert.equal(watched.current().anon.tables.size, 0);
  const until = (size: number): Promise<boolean> =>
    eventually(`${size} tables in sight`, () => watched.current().anon.tables.size === size);
  await sql(changing.owner, "grant usage on schema portal to portal_anon");
  await sql(changing.owner, "grant select on portal.networks to portal_anon");
  await sql(changing.owner, "notify portal_reload");
  await until(1);
  await sql(changing.owner, "revoke select on portal.networks from portal_anon");
  await sql(
    superuserUrl(changing.owner),
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'turnpike db catalogue' and datname = current_database()",
  );
  await until(0);
  await sql(changing.owner, "grant select on portal.portal_plans to portal_anon");
  const reloaded = await watched.reload();
  assert.deepEqual([...reloaded.anon.tables.keys()], ["portal_plans"]);
});

test("closing while the connection is made anew leaves none behind", async () => {
  const other = openPool(changing.url);
  const opts = { url: changing.url, debounceMs: 1, reconnectMs: 1 };
  const watched = await WatchedRoleViews.open(opts, { pool: other, log: silentLog });
  await sql(
    superuserUrl(changing.owner),
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'turnpike db catalogue' and datname = current_database()",
  );
  await watched[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
  const text =
    "select from pg_stat_activity where application_name like 'turnpike db%' and datname = current_database()";
  await eventually("no connection of ours", async () => (await sql(changing.owner, text)).length === 0);
});

test("a database that cannot be reached is said so", async () => {
  const opts = { url: "postgres://nobody:word@127.0.0.1:1/none", debounceMs: 1 };
  await assert.rejects(WatchedRoleViews.open(opts, { pool, log: silentLog }), (error) =>
    isAppError(error, "PORTAL_DB_UNAVAILABLE"),
  );
});

test("a catalogue that does not answer is not waited for without end, and holds no connection", async () => {
  const blocker = new pg.Client({ connectionString: superuserUrl(owner) });
  await blocker.connect();
  try {
    await blocker.query("begin; lock table pg_catalog.pg_constraint in access exclusive mode");
    await using narrow = openPool(url, { poolSize: 1 });
    await assert.rejects(readRoleViews(narrow, 100), /timeout/i);
    await blocker.query("rollback");
    assert.ok((await readRoleViews(narrow)).reader.tables.size > 0);
  } finally {
    await blocker.end();
  }
});
