import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { after, before, test } from "node:test";
import { isAppError, type Log, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import pg from "pg";
import { FIXTURE, PASSWORD, sql, startTestServer, type TestServer } from "../../test/database-fixtures.ts";
import { type PortalDb, type PortalDbOptions, startPortalDb } from "../portal-db.ts";
import { checkPortalDb, migratePortalDb } from "./migrate.ts";
import { isVerifierOf, scramVerifier } from "./scram.ts";

// The tests change roles, which are of the whole server.
let server: TestServer;
/** One for the tests that leave it as they find it. Not made before the first of them: it makes the roles, too. */
let shared: ReturnType<TestServer["database"]> | undefined;
const sharedDatabase = (): ReturnType<TestServer["database"]> => {
  shared ??= server.database();
  return shared;
};
before(async () => {
  server = await startTestServer({ isOwn: true });
});
after(() => server?.[Symbol.asyncDispose]());

let made = 0;
const emptyDatabase = (): Promise<string> => server.createDatabase(`empty_${made++}`);
const schemaError = (error: unknown): boolean => isAppError(error, "PORTAL_DB_SCHEMA");
const names = async (): Promise<string[]> =>
  (await readdir(new URL("../../migrations/", import.meta.url))).filter((name) => name.endsWith(".sql")).sort();

// The first test: the server has none of the roles yet.
test("databases of one cluster that are migrated at once share the roles", async () => {
  assert.deepEqual(await sql(server.adminUrl, "select from pg_roles where rolname like 'portal\\_%'"), []);
  const urls = await Promise.all(Array.from({ length: 4 }, emptyDatabase));
  const applied = await Promise.all(
    urls.map((url, index) =>
      migratePortalDb({ url, authenticatorPassword: `${PASSWORD} ${index}` }, { log: silentLog }),
    ),
  );
  assert.deepEqual(new Set(applied.map((one) => one.applied.length)), new Set([(await names()).length]));
});

test("migrations are applied once, in order, and leave public alone", async () => {
  const url = await emptyDatabase();
  await assert.rejects(checkPortalDb(url), schemaError);
  assert.deepEqual(await migratePortalDb({ url }, { log: silentLog }), { applied: await names() });
  assert.deepEqual(await migratePortalDb({ url }, { log: silentLog }), { applied: [] });
  await checkPortalDb(url);
  const other = await sql(
    url,
    `select relname from pg_class c join pg_namespace n on n.oid = relnamespace
     where nspname not in ('portal', 'portal_private', 'pg_catalog', 'information_schema', 'pg_toast')`,
  );
  assert.deepEqual(other, []);
});

test("the API's own role can tell whether the tables are those of this version", async () => {
  const { owner, url } = await sharedDatabase();
  await checkPortalDb(url);
  const [gone] = await sql<{ name: string; checksum: string }>(
    owner,
    "delete from portal_private.migrations where name like '0004%' returning name, checksum",
  );
  await assert.rejects(checkPortalDb(url), schemaError);
  const { name, checksum } = gone ?? { name: "", checksum: "" };
  await sql(owner, "insert into portal_private.migrations (name, checksum) values ($1, $2)", [name, checksum]);
  await checkPortalDb(url);
});

test("an API whose role may not read the list of migrations is refused as one with other tables", async () => {
  const { owner, url } = await sharedDatabase();
  const right = "select on portal_private.migrations";
  await bent(owner, `revoke ${right} from portal_authenticator`, `grant ${right} to portal_authenticator`, () =>
    assert.rejects(checkPortalDb(url), schemaError),
  );
  await checkPortalDb(url);
});

test("the seed is there: networks, plans, and the fixture account on a plan of 1,000 applications", async () => {
  const { owner } = await sharedDatabase();
  const networks = await sql(owner, "select network_id from networks order by 1");
  assert.deepEqual(networks, [{ network_id: "pocket" }, { network_id: "pocket-alpha" }, { network_id: "pocket-beta" }]);
  const accounts = await sql(
    owner,
    `select portal_account_id, organization_name, plan_application_limit
     from portal_accounts join organizations using (organization_id) join portal_plans using (portal_plan_type)`,
  );
  assert.deepEqual(accounts, [
    { portal_account_id: FIXTURE, organization_name: "Web3 Builders Co", plan_application_limit: 1000 },
  ]);
});

test("several processes that migrate one database at once apply each migration once", async () => {
  const url = await emptyDatabase();
  const program = new URL("../../test/migrate-child.ts", import.meta.url);
  const counts = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const child = fork(program, [url, PASSWORD], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      child.once("message", (message) => resolve(Number(message)));
      child.once("exit", (code) => reject(new TypeError(`ended with ${code}`)));
      return promise;
    }),
  );
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    [0, 0, (await names()).length],
  );
});

test("a changed, an unknown and a failed migration are refused, and leave nothing behind", async () => {
  const url = await emptyDatabase();
  await migratePortalDb({ url }, { log: silentLog });
  await sql(url, "insert into portal_private.migrations (name, checksum) values ('9999-later.sql', 'x')");
  const later = (error: unknown): boolean => schemaError(error) && /9999-later\.sql/.test(String(error));
  await assert.rejects(migratePortalDb({ url }, { log: silentLog }), later);
  await assert.rejects(checkPortalDb(url), later);
  await sql(url, "delete from portal_private.migrations where name = '9999-later.sql'");
  await sql(url, "update portal_private.migrations set checksum = 'other' where name like '0001%'");
  await assert.rejects(migratePortalDb({ url }, { log: silentLog }), schemaError);

  const other = await emptyDatabase();
  await sql(other, "create schema portal");
  await sql(other, "create table portal.portal_plans ()");
  await assert.rejects(migratePortalDb({ url: other }, { log: silentLog }));
  const tables = await sql(other, "select tablename from pg_tables where schemaname like 'portal%'");
  assert.deepEqual(tables, [{ tablename: "portal_plans" }]);
});

test("the owner, who is not a superuser, sees its rows behind forced row security", async () => {
  const { owner } = await sharedDatabase();
  assert.deepEqual(await sql(owner, "select usesuper from pg_user where usename = current_user"), [
    { usesuper: false },
  ]);
  assert.equal((await sql(owner, "select from portal_accounts")).length, 1);
  const insert = "insert into portal_applications (portal_account_id) values ($1)";
  assert.deepEqual(await sql(owner, insert, [FIXTURE]), []);
});

test("a password is set, kept out of statements and logs, and can be changed", async () => {
  const lines: string[] = [];
  const write = (fields: object, message: string): void => {
    lines.push(JSON.stringify(fields) + message);
  };
  const log: Log = { debug: write, info: write, warn: write, error: write, child: () => log };
  const database = await emptyDatabase();
  for (const password of ["first 'password' \\ of them", "a second one"]) {
    await migratePortalDb({ url: database, authenticatorPassword: password }, { log });
    await migratePortalDb({ url: database, authenticatorPassword: password }, { log });
    await migratePortalDb({ url: database }, { log });
    const { port } = server;
    const user = "portal_authenticator";
    const client = new pg.Client({
      host: "127.0.0.1",
      port,
      user,
      password,
      database: new URL(database).pathname.slice(1),
    });
    await client.connect();
    await client.end();
  }
  assert.ok(lines.length > 0 && !/password|second/.test(lines.join()));
  for (const password of ["short", "пароль пароль", "line\nbreak line"]) {
    await assert.rejects(migratePortalDb({ url: database, authenticatorPassword: password }, { log }), (error) =>
      isAppError(error, "CONFIG_INVALID"),
    );
  }
  // as the other tests have it
  await migratePortalDb({ url: database, authenticatorPassword: PASSWORD }, { log });
  assert.equal(isVerifierOf(scramVerifier("the right one"), "the right one"), true);
  assert.equal(isVerifierOf(scramVerifier("the right one"), "the wrong one"), false);
  assert.equal(isVerifierOf("md5abc", "the wrong one"), false);
});

test("a database that does not answer is named with its cause and without its password", async () => {
  const url = "postgres://postgres:secret-word@127.0.0.1:1/none";
  await assert.rejects(
    migratePortalDb({ url }, { log: silentLog }),
    (error) =>
      isAppError(error, "PORTAL_DB_UNAVAILABLE") &&
      /127\.0\.0\.1:1.*ECONNREFUSED/.test(error.message) &&
      !error.message.includes("secret-word"),
  );
});

/** Runs `work` while a role is bent; `fix` puts it back, as all tests of the file share the cluster. */
async function bent(owner: string, bend: string, fix: string, work: () => Promise<void>): Promise<void> {
  await sql(owner, bend);
  try {
    await work();
  } finally {
    await sql(owner, fix);
  }
}

test("roles that may do too much are refused by name, by migrate and by check, with the cure", async () => {
  const { owner, url } = await sharedDatabase();
  const cases: readonly (readonly [string, string, RegExp])[] = [
    ["alter role portal_reader superuser", "alter role portal_reader nosuperuser", /portal_reader \(SUPERUSER\)/],
    ["alter role portal_admin bypassrls", "alter role portal_admin nobypassrls", /ALTER ROLE portal_admin NOBYPASSRLS/],
    ["alter role portal_gateway createrole", "alter role portal_gateway nocreaterole", /portal_gateway \(CREATEROLE\)/],
    ["alter role portal_reader login", "alter role portal_reader nologin", /portal_reader \(LOGIN\)/],
    [
      "grant pg_read_all_data to portal_reader",
      "revoke pg_read_all_data from portal_reader",
      /portal_reader \(member of pg_read_all_data\): REVOKE "pg_read_all_data" FROM portal_reader;/,
    ],
    ["grant portal_admin to portal_reader", "revoke portal_admin from portal_reader", /member of portal_admin/],
    [
      "grant pg_write_all_data to portal_authenticator",
      "revoke pg_write_all_data from portal_authenticator",
      /portal_authenticator \(member of pg_write_all_data\)/,
    ],
  ];
  for (const [bend, fix, message] of cases) {
    await bent(server.adminUrl, bend, fix, async () => {
      const isTold = (error: unknown): boolean => isAppError(error, "PORTAL_DB_SCHEMA") && message.test(error.message);
      await assert.rejects(migratePortalDb({ url: owner }, { log: silentLog }), isTold, bend);
      await assert.rejects(checkPortalDb(url), isTold, bend);
    });
  }
  await checkPortalDb(url);
});

test("an API starts on no tables but those of this version, and on no roles that may do too much", async () => {
  const { owner, url } = await sharedDatabase();
  const options: PortalDbOptions = {
    host: "127.0.0.1",
    port: 0,
    databaseUrl: url,
    poolSize: 1,
    maxRows: 10,
    maxBodyBytes: 1_024,
    maxHeaderBytes: 8_192,
    requestTimeoutMs: 60_000,
    statementTimeoutMs: { reader: 60_000, admin: 60_000 },
    lockTimeoutMs: 60_000,
    connectTimeoutMs: 60_000,
    maxConnections: 10,
    maxInFlight: 10,
    maxInFlightPerToken: 10,
    corsOrigins: [],
    perTokenPerSecond: 10,
    refusedPerAddressPerSecond: 10,
    revealCreatedHash: false,
    auditDays: 365,
    keys: [{ kid: undefined, algorithm: "HS256", material: randomBytes(32).toString("hex") }],
    audience: "postgrest",
    maxLifetimeSeconds: 60,
  };
  const start = (databaseUrl = url): Promise<PortalDb> =>
    startPortalDb({ ...options, databaseUrl }, { clock: systemClock, log: silentLog, metrics: noMetrics });
  const empty = new URL(url);
  empty.pathname = new URL(await emptyDatabase()).pathname;
  await assert.rejects(start(empty.href), schemaError, "no tables");
  await sql(owner, "insert into portal_private.migrations (name, checksum) values ('9999-later.sql', 'x')");
  await assert.rejects(start(), schemaError, "newer tables");
  await sql(owner, "delete from portal_private.migrations where name = '9999-later.sql'");
  const last = (await names()).at(-1);
  await sql(owner, "update portal_private.migrations set name = 'x' || name where name = $1", [last]);
  await assert.rejects(start(), schemaError, "other tables");
  await sql(owner, "update portal_private.migrations set name = substr(name, 2) where name = 'x' || $1", [last]);
  await bent(
    server.adminUrl,
    "alter role portal_reader bypassrls",
    "alter role portal_reader nobypassrls",
    async () => {
      await assert.rejects(start(), schemaError, "a role that passes by row security");
    },
  );
  await (await start())[Symbol.asyncDispose]();
});

test("a password that others use now is not replaced for one who asks that, and is for one who does not", async () => {
  const { owner, url } = await sharedDatabase();
  const keep = { url: owner, keepsUsedPasswords: true };
  const user = new pg.Client({ connectionString: url });
  await user.connect();
  try {
    await migratePortalDb({ ...keep, authenticatorPassword: PASSWORD }, { log: silentLog });
    await assert.rejects(
      migratePortalDb({ ...keep, authenticatorPassword: "of another start" }, { log: silentLog }),
      (error) => isAppError(error, "ALREADY_RUNNING") && /portal_authenticator is in use/.test(error.message),
    );
    await checkPortalDb(url);
  } finally {
    await user.end();
  }
  // The server takes a moment to see the connection off.
  const used = "select from pg_stat_activity where usename = 'portal_authenticator'";
  await eventually("a role that is not in use", async () => (await sql(owner, used)).length === 0);
  await migratePortalDb({ ...keep, authenticatorPassword: "of another start" }, { log: silentLog });
  await migratePortalDb({ url: owner, authenticatorPassword: PASSWORD }, { log: silentLog });
  await checkPortalDb(url);
});
