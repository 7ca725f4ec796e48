import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
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
import type { Caller } from "../types.ts";
import type { RolePool } from "./pool.ts";

const HASH = "ab".repeat(32);
const reader = caller("reader");
const admin = caller("admin");

let server: TestServer;
let pool: RolePool;
let owner: string;
let url: string;
const [first, second] = [randomUUID(), randomUUID()];
const [readerOfFirst, adminOfFirst] = [caller("reader", first), caller("admin", first)];

/** An account with an organization, an application, a user in both, and usage. */
async function fill(id: string, name: string): Promise<void> {
  await sql(
    owner,
    `with o as (insert into organizations (organization_name) values ('${name}') returning organization_id),
      a as (insert into portal_accounts (portal_account_id, organization_id, portal_plan_type)
        select '${id}', organization_id, 'FREE' from o returning portal_account_id),
      u as (insert into portal_users (portal_user_id, portal_user_email)
        values ('user ${name}', '${name}@example.com') returning portal_user_id)
    insert into portal_account_rbac (portal_account_id, portal_user_id, role_name)
    select portal_account_id, portal_user_id, 'owner' from a, u`,
  );
  await sql(
    owner,
    `insert into portal_applications (portal_application_id, portal_account_id, portal_application_name, secret_key_hash)
     values ('app ${name}', '${id}', '${name}', '${HASH}')`,
  );
  await sql(
    owner,
    `insert into portal_application_rbac (portal_application_id, portal_user_id) values ('app ${name}', 'user ${name}')`,
  );
  await sql(
    owner,
    `insert into portal_application_usage (portal_application_id, day, service_id, calls)
     values ('app ${name}', '2026-11-21', 'eth', 7)`,
  );
}

before(async () => {
  server = await startTestServer();
  ({ owner, url } = await server.database());
  pool = openPool(url);
  await fill(first, "first");
  await fill(second, "second");
});
after(async () => {
  await pool?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const count = async (who: Caller, from: string): Promise<number> =>
  Number((await as<{ n: string }>(pool, who, `select count(*) as n from ${from}`))[0]?.n);
const denied = (who: Caller, text: string): Promise<void> =>
  assert.rejects(as(pool, who, text), sqlState("42501"), text);

const TABLES = [
  "networks",
  "organizations",
  "portal_plans",
  "portal_accounts",
  "portal_applications",
  "portal_account_rbac",
  "portal_application_rbac",
  "portal_application_usage",
];

test("reader and admin read what they should, anonymous callers nothing", async () => {
  for (const table of TABLES) {
    assert.ok((await count(reader, table)) > 0, table);
    assert.ok((await count(admin, table)) > 0, table);
    await denied(caller("anon"), `select count(*) from portal.${table}`);
  }
  assert.equal(await count(admin, "portal_users"), 2);
  await denied(reader, "select count(*) from portal_users");
});

test("what is kept from clients is out of reach of every role", async () => {
  for (const who of [reader, admin, caller("anon")]) {
    for (const table of ["audit", "revoked_tokens", "account_usage", "migrations"]) {
      await denied(who, `select from portal_private.${table}`);
    }
    await denied(who, "select portal_private.check_applications('{}')");
    await denied(who, "create table portal.mine ()");
    await denied(who, "select rolpassword from pg_catalog.pg_authid");
  }
});

test("the API's roles may run no function of ours, and own nothing", async () => {
  const open = await sql(
    owner,
    `select r.rolname, p.proname from pg_proc p join pg_namespace n on n.oid = pronamespace, pg_roles r
     where n.nspname in ('portal', 'portal_private') and r.rolname like 'portal\\_%'
       and has_function_privilege(r.oid, p.oid, 'execute')`,
  );
  assert.deepEqual(open, [{ rolname: "portal_authenticator", proname: "forget" }]);
  const risky = await sql(
    owner,
    `select rolname from pg_roles where rolname like 'portal\\_%'
     and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolinherit)`,
  );
  assert.deepEqual(risky, []);
  const unguarded = await sql(
    owner,
    `select relname from pg_class c join pg_namespace n on n.oid = relnamespace
     where nspname = 'portal' and relkind = 'r' and not (relrowsecurity and relforcerowsecurity)`,
  );
  assert.deepEqual(unguarded, []);
});

test("the authenticator itself reaches no row, and becomes none but the three roles", async () => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const table of TABLES) await assert.rejects(client.query(`select from portal.${table}`), sqlState("42501"));
    for (const role of ["postgres", "portal_gateway", "pg_read_all_data"]) {
      await assert.rejects(client.query("select set_config('role', $1, false)", [role]), sqlState("42501"));
    }
    await client.query("set role portal_admin");
    // Without claims, no row: a forgotten setting must not read as a token that is bound to no account.
    assert.equal((await client.query("select from portal.networks")).rowCount, 0);
    assert.equal((await client.query("select from portal.portal_accounts")).rowCount, 0);
    await assert.rejects(
      client.query("insert into portal.organizations (organization_name) values ('x')"),
      sqlState("42501"),
    );
  } finally {
    await client.end();
  }
});

test("the secret's hash is written and never read: not by select, filter, order or returning", async () => {
  const insert = `insert into portal_applications (portal_account_id, secret_key_hash) values ('${FIXTURE}', '${HASH}')`;
  const made = await as<{ id: string; has_secret: boolean }>(
    pool,
    admin,
    `${insert} returning portal_application_id as id, has_secret`,
  );
  assert.equal(made[0]?.has_secret, true);
  const [{ id } = { id: "" }] = made;
  await as(pool, admin, `update portal_applications set secret_key_hash = null where portal_application_id = '${id}'`);
  for (const who of [reader, admin, adminOfFirst]) {
    await denied(who, "select secret_key_hash from portal_applications");
    await denied(who, "select * from portal_applications");
    await denied(who, "select portal_application_id from portal_applications where secret_key_hash like 'a%'");
    await denied(who, "select portal_application_id from portal_applications order by secret_key_hash");
    await denied(who, "select to_jsonb(a) from portal_applications a");
  }
  await denied(admin, `${insert} returning secret_key_hash`);
  await denied(admin, `${insert} returning *`);
  await denied(admin, "update portal_applications set portal_application_name = secret_key_hash");
  for (const hash of ["AB".repeat(32), "ab", "", `${HASH}00`, `${HASH}\n`, "secret!!".repeat(8)]) {
    await assert.rejects(
      as(pool, admin, "insert into portal_applications (portal_account_id, secret_key_hash) values ($1, $2)", [
        FIXTURE,
        hash,
      ]),
      (error) => sqlState("23514")(error) && error instanceof pg.DatabaseError && error.detail === undefined,
      hash,
    );
  }
});

test("the reader writes nothing; the admin writes its tables and no other, no key and no time", async () => {
  for (const table of TABLES) {
    await denied(reader, `delete from ${table}`);
    await denied(reader, `truncate ${table}`);
    await denied(admin, `truncate ${table}`);
  }
  await denied(reader, "insert into organizations (organization_name) values ('x')");
  await denied(reader, "update organizations set organization_name = 'x'");
  await denied(admin, "insert into networks values ('x')");
  await denied(admin, "update portal_plans set plan_application_limit = 1");
  await denied(
    admin,
    "insert into portal_application_usage (portal_application_id, day, service_id) values ('','now','')",
  );
  for (const table of ["organizations", "portal_accounts", "portal_applications", "portal_users"]) {
    await denied(admin, `update ${table} set created_at = now()`);
    await denied(admin, `update ${table} set updated_at = now()`);
  }
  await denied(admin, "update portal_applications set portal_application_id = 'x'");
  await denied(admin, "update portal_accounts set portal_account_id = 'x'");
  await denied(admin, "insert into organizations (organization_name, created_at) values ('x', now())");
  const generated = "update portal_applications set has_secret = true";
  await assert.rejects(as(pool, admin, generated), sqlState("428C9"));
});

test("a token of an account reads that account's rows in every table, and no other", async () => {
  for (const who of [readerOfFirst, adminOfFirst]) {
    assert.ok((await count(who, "networks")) > 0);
    for (const table of TABLES.slice(3)) assert.equal(await count(who, table), 1, table);
    assert.deepEqual(await as(pool, who, "select portal_application_id as id from portal_applications"), [
      { id: "app first" },
    ]);
    assert.deepEqual(await as(pool, who, "select portal_account_id as id from portal_accounts"), [{ id: first }]);
    assert.deepEqual(await as(pool, who, "select organization_name as name from organizations"), [{ name: "first" }]);
    assert.deepEqual(await as(pool, who, "select portal_application_id as id from portal_application_usage"), [
      { id: "app first" },
    ]);
    const embedded = await as<{ n: string }>(
      pool,
      who,
      `select count(*) as n from organizations join portal_accounts using (organization_id)
       join portal_applications using (portal_account_id) join portal_application_rbac using (portal_application_id)`,
    );
    assert.equal(embedded[0]?.n, "1");
  }
  assert.deepEqual(await as(pool, adminOfFirst, "select portal_user_id as id from portal_users"), [
    { id: "user first" },
  ]);
});

test("a token of an account writes nothing of another, and no error tells whether the other exists", async () => {
  const mine = "insert into portal_applications (portal_account_id, portal_application_name) values ($1, 'crossing')";
  for (const other of [second, randomUUID(), "nothing", null]) {
    await assert.rejects(as(pool, adminOfFirst, mine, [other]), sqlState("42501"));
    await assert.rejects(
      as(pool, adminOfFirst, "update portal_applications set portal_account_id = $1", [other]),
      sqlState("42501"),
    );
    await assert.rejects(
      as(
        pool,
        adminOfFirst,
        "insert into portal_application_rbac (portal_application_id, portal_user_id) values ('app first', $1)",
        [other === second ? "user second" : other],
      ),
      sqlState("42501"),
    );
  }
  for (const app of ["app second", "app nobody"]) {
    await denied(
      adminOfFirst,
      `insert into portal_application_rbac (portal_application_id, portal_user_id) values ('${app}', 'user first')`,
    );
  }
  const untouched = [
    "update portal_applications set portal_application_name = 'taken' where portal_application_id = 'app second'",
    "delete from portal_applications where portal_application_id = 'app second'",
    "delete from portal_account_rbac where portal_user_id = 'user second'",
    "delete from portal_application_rbac where portal_user_id = 'user second'",
    "delete from portal_users where portal_user_id = 'user first'",
    `delete from portal_accounts where portal_account_id in ('${first}', '${second}')`,
    "delete from organizations where organization_name <> ''",
    "update organizations set organization_name = 'taken' where organization_name <> ''",
  ];
  for (const text of untouched) {
    assert.deepEqual(await as(pool, adminOfFirst, `with w as (${text} returning 1) select from w`), [], text);
  }
  const upsert = `insert into portal_applications (portal_application_id, portal_account_id, portal_application_name)
    values ('app second', '${first}', 'taken') on conflict (portal_application_id)`;
  await denied(adminOfFirst, `${upsert} do update set portal_application_name = 'taken'`);
  await assert.rejects(
    as(
      pool,
      adminOfFirst,
      `insert into portal_applications (portal_application_id, portal_account_id) values ('app second', '${first}')`,
    ),
    (error) => error instanceof pg.DatabaseError && error.code === "23505" && error.detail === undefined,
  );
  const [row] = await sql<{ name: string }>(
    owner,
    "select portal_application_name as name from portal_applications where portal_application_id = 'app second'",
  );
  assert.equal(row?.name, "second");
});

test("a token of an account makes no accounts, organizations, users or members", async () => {
  await denied(adminOfFirst, "insert into portal_accounts (portal_plan_type) values ('UNLIMITED')");
  await denied(adminOfFirst, "insert into organizations (organization_name) values ('x')");
  await denied(adminOfFirst, "insert into portal_users (portal_user_email) values ('x@example.com')");
  await denied(
    adminOfFirst,
    `insert into portal_account_rbac (portal_account_id, portal_user_id, role_name) values ('${first}', 'user second', 'x')`,
  );
});

test("a token of an account changes its account's names and limits, not its plan, organization or billing", async () => {
  await as(pool, adminOfFirst, "update portal_accounts set user_account_name = 'mine', portal_account_user_limit = 5");
  for (const change of [
    "portal_plan_type = 'UNLIMITED'",
    "organization_id = null",
    "billing_type = 'free'",
    "stripe_subscription_id = 'x'",
    "deleted_at = now()",
  ]) {
    await assert.rejects(
      as(pool, adminOfFirst, `update portal_accounts set ${change}`, [], { showsDeleted: true }),
      sqlState("42501", /bound to an account/),
      change,
    );
  }
  await as(pool, admin, `update portal_accounts set billing_type = 'x' where portal_account_id = '${first}'`);
});

test("soft-deleted rows are hidden unless they are asked for, and can be brought back", async () => {
  await fill(randomUUID(), "gone");
  const mark = (value: string): string =>
    `update portal_applications set deleted_at = ${value} where portal_application_id = 'app gone'`;
  await denied(admin, mark("now()"));
  await as(pool, admin, mark("now()"), [], { showsDeleted: true });
  const named = "select from portal_applications where portal_application_id = 'app gone'";
  assert.equal((await as(pool, reader, named)).length, 0);
  assert.equal((await as(pool, reader, named, [], { showsDeleted: true })).length, 1);
  const rename =
    "update portal_applications set portal_application_name = 'x' where portal_application_id = 'app gone'";
  assert.deepEqual(await as(pool, admin, `with w as (${rename} returning 1) select from w`), []);
  assert.equal((await as(pool, readerOfFirst, named, [], { showsDeleted: true })).length, 0, "another account's");
  await as(pool, admin, mark("null"), [], { showsDeleted: true });
  assert.equal((await as(pool, reader, named)).length, 1);
});

test("the gateway's role reads hashes and writes usage, and no more", async () => {
  const client = new pg.Client({ connectionString: superuserUrl(owner) });
  await client.connect();
  try {
    await client.query("set role portal_gateway");
    const { rows } = await client.query(
      "select secret_key_hash from portal.portal_applications where portal_application_id = 'app second'",
    );
    assert.deepEqual(rows, [{ secret_key_hash: HASH }]);
    await client.query(
      `insert into portal.portal_application_usage as u (portal_application_id, day, service_id, calls)
       values ('app second', '2026-11-21', 'eth', 3)
       on conflict (portal_application_id, day, service_id) do update set calls = u.calls + excluded.calls`,
    );
    await client.query(
      `insert into portal_private.account_usage as u (portal_account_id, day, calls) values ($1, '2026-11-21', 3)
       on conflict (portal_account_id, day) do update set calls = u.calls + excluded.calls`,
      [second],
    );
    for (const text of [
      "delete from portal.portal_application_usage",
      "update portal.portal_applications set secret_key_hash = null",
      "select from portal.portal_users",
      "select from portal_private.audit",
      "delete from portal_private.account_usage",
      "select portal_private.forget(30, 1)",
    ]) {
      await assert.rejects(client.query(text), sqlState("42501"), text);
    }
  } finally {
    await client.end();
  }
});
