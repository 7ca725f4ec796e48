import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { openTestPostgres, superuserUrl } from "@turnpike/testkit/servers";
import { GATEWAY_PASSWORD, PASSWORD, sql } from "../../test/database-fixtures.ts";
import { checkPortalDb, type MigratePortalDbOptions, migratePortalDb } from "./migrate.ts";

// Each test starts a server: it begins without the roles, which are of the whole server.

/** The message of the refusal. */
async function refusalOf(opts: MigratePortalDbOptions): Promise<string> {
  const error: unknown = await migratePortalDb(opts, { log: silentLog }).catch((reason: unknown) => reason);
  assert.ok(isAppError(error, "PORTAL_DB_SCHEMA"), String(error));
  return error.message;
}

const asAuthenticator = (owner: string): string => {
  const url = new URL(owner);
  url.username = "portal_authenticator";
  url.password = PASSWORD;
  return url.href;
};

test("the refusal of an owner without CREATEROLE names the statements for a superuser, for roles and passwords", async () => {
  await using postgres = await openTestPostgres({ isOwn: true });
  const { url } = postgres;
  const superuser = superuserUrl(url);
  const message = await refusalOf({ url });
  assert.match(message, /may not make the roles portal_authenticator, portal_gateway, portal_anon, portal_reader, /);
  assert.match(message, /Or run: alter role "turnpike_test_owner" createrole;/);
  await sql(superuser, message.slice(message.indexOf("create role "), message.indexOf(" Or run: ")));

  const passwords = { authenticatorPassword: PASSWORD, gatewayPassword: GATEWAY_PASSWORD };
  assert.match(
    await refusalOf({ url, ...passwords }),
    /may not set the password of portal_authenticator, .*with admin option;/,
  );
  assert.deepEqual(
    await sql(superuser, "select from pg_namespace where nspname = 'portal'"),
    [],
    "nothing is left behind",
  );
  await sql(superuser, `alter role portal_authenticator password '${PASSWORD}'`);
  await sql(superuser, `alter role portal_gateway password '${GATEWAY_PASSWORD}'`);
  assert.notDeepEqual((await migratePortalDb({ url, ...passwords }, { log: silentLog })).applied, []);
  assert.deepEqual(await migratePortalDb({ url, ...passwords }, { log: silentLog }), { applied: [] });
  await checkPortalDb(url);
  await checkPortalDb(asAuthenticator(url));
});

test("an owner who was given CREATEROLE, as the message says, makes the roles and sets their passwords", async () => {
  await using postgres = await openTestPostgres({ isOwn: true });
  const { url } = postgres;
  const message = await refusalOf({ url });
  await sql(superuserUrl(url), message.slice(message.indexOf("alter role ")));
  await migratePortalDb({ url, authenticatorPassword: PASSWORD }, { log: silentLog });
  await checkPortalDb(asAuthenticator(url));
});

test("the refusal of an owner with CREATEROLE whose roles a superuser made names the missing grants", async () => {
  await using postgres = await openTestPostgres({ isOwn: true, createsRoles: true });
  const { url } = postgres;
  const superuser = superuserUrl(url);
  for (const name of ["anon", "reader", "admin"]) await sql(superuser, `create role portal_${name} nologin noinherit`);
  const message = await refusalOf({ url });
  assert.match(message, /may not grant portal_anon, portal_reader, portal_admin|make the roles portal_authenticator/);
  await sql(superuser, message.slice(message.indexOf("create role ")));
  await migratePortalDb({ url }, { log: silentLog });
  const grants = await refusalOf({ url, authenticatorPassword: PASSWORD });
  assert.match(grants, /may not set the password of portal_authenticator/);
  await sql(superuser, grants.slice(grants.indexOf("alter role ")));
  await migratePortalDb({ url, authenticatorPassword: PASSWORD }, { log: silentLog });
  await checkPortalDb(asAuthenticator(url));
});
