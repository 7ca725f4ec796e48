import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { readdir } from "node:fs/promises";
import { after, before, test } from "node:test";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import pg from "pg";
import { checkPortalDb, migratePortalDb } from "./migrate.ts";
import { isVerifierOf, scramVerifier } from "./scram.ts";
import { FIXTURE, PASSWORD, sql, startTestServer, type TestServer } from "./test-support.ts";

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server[Symbol.asyncDispose]());

let made = 0;
const emptyDatabase = (): Promise<string> => server.postgres.createDatabase(`empty_${made++}`);
const schemaError = (error: unknown): boolean => isAppError(error, "PORTAL_DB_SCHEMA");
const names = async (): Promise<string[]> =>
  (await readdir(new URL("../../migrations/", import.meta.url))).filter((name) => name.endsWith(".sql")).sort();

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
  const { owner, url } = await server.database();
  await checkPortalDb(url);
  await sql(owner, "delete from portal_private.migrations where name like '0004%'");
  await assert.rejects(checkPortalDb(url), schemaError);
});

test("the seed is there: networks, plans, and the fixture account on a plan of 1,000 applications", async () => {
  const { owner } = await server.database();
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
  const program = new URL("./migrate-child.ts", import.meta.url);
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

test("databases of one cluster that are migrated at once share the roles", async () => {
  const urls = await Promise.all(Array.from({ length: 4 }, emptyDatabase));
  for (const name of ["portal_authenticator", "portal_gateway", "portal_anon", "portal_reader", "portal_admin"]) {
    for (const { datname } of await sql<{ datname: string }>(server.postgres.url, "select datname from pg_database")) {
      if (/^(portal|empty)_/.test(datname) && !urls.some((url) => url.endsWith(`/${datname}`))) {
        await sql(server.postgres.url, `drop database ${datname}`);
      }
    }
    await sql(server.postgres.url, `drop role if exists ${name}`);
  }
  const applied = await Promise.all(
    urls.map((url, index) =>
      migratePortalDb({ url, authenticatorPassword: `${PASSWORD} ${index}` }, { log: silentLog }),
    ),
  );
  assert.deepEqual(new Set(applied.map((one) => one.applied.length)), new Set([(await names()).length]));
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

test("an owner who is no superuser can migrate, and sees its rows behind forced row security", async () => {
  const url = new URL(await emptyDatabase());
  const database = url.pathname.slice(1);
  await sql(server.postgres.url, "drop role if exists landlord");
  await sql(server.postgres.url, "create role landlord login createrole password 'landlord of the tests'");
  await sql(server.postgres.url, `alter database ${database} owner to landlord`);
  for (const role of ["authenticator", "gateway", "anon", "reader", "admin"]) {
    await sql(server.postgres.url, `grant portal_${role} to landlord with admin option`);
  }
  url.username = "landlord";
  url.password = "landlord of the tests";
  await migratePortalDb({ url: url.href, authenticatorPassword: PASSWORD }, { log: silentLog });
  assert.equal((await sql(url.href, "select from portal_accounts")).length, 1);
  const insert = "insert into portal_applications (portal_account_id) values ($1)";
  assert.deepEqual(await sql(url.href, insert, [FIXTURE]), []);
});

test("a password is set, kept out of statements and logs, and can be changed", async () => {
  const lines: string[] = [];
  const write = (fields: object, message: string): void => {
    lines.push(JSON.stringify(fields) + message);
  };
  const log: Log = { debug: write, info: write, warn: write, error: write, child: () => log };
  const owner = await emptyDatabase();
  for (const password of ["first 'password' \\ of them", "a second one"]) {
    await migratePortalDb({ url: owner, authenticatorPassword: password }, { log });
    await migratePortalDb({ url: owner, authenticatorPassword: password }, { log });
    await migratePortalDb({ url: owner }, { log });
    const { port } = server.postgres;
    const user = "portal_authenticator";
    const client = new pg.Client({
      host: "127.0.0.1",
      port,
      user,
      password,
      database: new URL(owner).pathname.slice(1),
    });
    await client.connect();
    await client.end();
  }
  assert.ok(lines.length > 0 && !/password|second/.test(lines.join()));
  for (const password of ["short", "пароль пароль", "line\nbreak line"]) {
    await assert.rejects(migratePortalDb({ url: owner, authenticatorPassword: password }, { log }), (error) =>
      isAppError(error, "CONFIG_INVALID"),
    );
  }
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
