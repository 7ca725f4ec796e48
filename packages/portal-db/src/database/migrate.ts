import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { AppError, isAppError, type Log, thrownCode } from "@turnpike/base";
import type pg from "pg";
import { withClient } from "./connect.ts";
import { AUTHENTICATOR, checkRoles, GATEWAY, makeRoles, setPassword } from "./roles.ts";

const FOLDER = new URL("../../migrations/", import.meta.url);
const FILE = /^\d{4}-[a-z0-9-]+\.sql$/;
const OLDEST_SERVER = 150_000;
const LOCK_TIMEOUT_MS = 60_000;
const WRONG_PASSWORD = new Set(["28P01", "28000"]);

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

interface Applied {
  readonly name: string;
  readonly checksum: string;
}

export interface MigratePortalDbOptions {
  /** Of a role that may create schemas and roles; it will own what is made. */
  readonly url: string;
  /** Sets the password of `portal_authenticator`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly authenticatorPassword?: string | undefined;
  /** Sets the password of `portal_gateway`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly gatewayPassword?: string | undefined;
  /**
   * True: a password that others use at this moment is not replaced (ALREADY_RUNNING). For what makes its own passwords
   * at each start; false, the default, is for changing a password under a running server.
   */
  readonly keepsUsedPasswords?: boolean | undefined;
}

/** What {@link migratePortalDb} did. */
export interface MigratePortalDbResult {
  /** Names of the migrations that this call applied, in order; empty when there was nothing to do. */
  readonly applied: readonly string[];
}

async function readMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => FILE.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      // A checkout with other line ends is the same migration.
      const sql = (await readFile(new URL(name, FOLDER), "utf8")).replaceAll("\r\n", "\n");
      return { name, sql, checksum: createHash("sha256").update(sql).digest("hex") };
    }),
  );
}

const refuse = (message: string): AppError => new AppError("PORTAL_DB_SCHEMA", { message });

/** Those that are still to be applied. Throws when the database is newer, or was made by other migrations. */
function pending(migrations: readonly Migration[], applied: readonly Applied[]): readonly Migration[] {
  for (const [index, { name, checksum }] of applied.entries()) {
    const ours = migrations[index];
    if (ours === undefined)
      throw refuse(`The management tables are newer than this version: ${name} is unknown to it.`);
    if (ours.name !== name) throw refuse(`The management tables have ${name} where this version has ${ours.name}.`);
    if (ours.checksum !== checksum) throw refuse(`${name} is not the migration that was applied.`);
  }
  return migrations.slice(applied.length);
}

async function appliedTo(client: pg.Client): Promise<readonly Applied[]> {
  const there = await client.query<{ there: boolean }>(
    "select to_regclass('portal_private.migrations') is not null as there",
  );
  if (there.rows[0]?.there !== true) return [];
  const rows = await client.query<Applied>("select name, checksum from portal_private.migrations order by name");
  return rows.rows;
}

async function checkServer(client: pg.Client): Promise<void> {
  const rows = await client.query<{ version: string }>("select current_setting('server_version_num') as version");
  if (!(Number(rows.rows[0]?.version) >= OLDEST_SERVER)) throw refuse("The API needs PostgreSQL 15 or later.");
}

async function apply(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
  await client.query("create schema if not exists portal");
  await client.query("create schema if not exists portal_private");
  await client.query("set local search_path to portal, pg_temp");
  await client.query(
    `create table if not exists portal_private.migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp()
    )`,
  );
  for (const { name, sql, checksum } of migrations) {
    await client.query(sql);
    await client.query("insert into portal_private.migrations (name, checksum) values ($1, $2)", [name, checksum]);
  }
}

/** Roles are of the whole cluster: throws ALREADY_RUNNING where one is logged in now, and by another password. */
async function refuseUsedRole(client: pg.Client, ownerUrl: string, name: string, password: string): Promise<void> {
  const used = await client.query("select from pg_catalog.pg_stat_activity where usename = $1 limit 1", [name]);
  if (used.rowCount === 0) return;
  const url = new URL(ownerUrl);
  url.username = name;
  url.password = password;
  try {
    await withClient(url.href, "check", async () => undefined);
  } catch (error) {
    if (!isAppError(error) || !WRONG_PASSWORD.has(String(error.detail?.code))) throw error;
    throw new AppError("ALREADY_RUNNING", {
      message:
        `The role ${name} is in use on this PostgreSQL with another password: another \`turnpike up\`, or a ` +
        "`turnpike db`, runs on it. Roles belong to the whole server, so each needs a PostgreSQL of its own. " +
        "End the other one, or name another server.",
    });
  }
}

/**
 * Makes or updates the tables of the management data API in the schemas `portal` and `portal_private`, and the roles
 * of the cluster that it needs; all or nothing. Any number of processes may do it at once, also on several databases of
 * one cluster. Throws AppError PORTAL_DB_SCHEMA when the database is newer than the code or was made by other
 * migrations, or when a role was there before and may do too much, CONFIG_INVALID for a password that cannot be set, PORTAL_DB_UNAVAILABLE when it cannot be reached, and
 * the driver's DatabaseError where the role of the URL lacks a right.
 */
export async function migratePortalDb(
  opts: MigratePortalDbOptions,
  { log }: { readonly log: Log },
): Promise<MigratePortalDbResult> {
  const migrations = await readMigrations();
  return withClient(opts.url, "migrate", async (client) => {
    await checkServer(client);
    await client.query("begin");
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await client.query("set local statement_timeout = 0");
    await client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", ["turnpike migrate portal"]);
    await makeRoles(client);
    await checkRoles(client);
    const { authenticatorPassword, gatewayPassword } = opts;
    for (const [name, password] of [
      [AUTHENTICATOR, authenticatorPassword],
      [GATEWAY, gatewayPassword],
    ] as const) {
      if (password === undefined) continue;
      if (opts.keepsUsedPasswords === true) await refuseUsedRole(client, opts.url, name, password);
      await setPassword(client, name, password);
    }
    const todo = pending(migrations, await appliedTo(client));
    if (todo.length > 0) await apply(client, todo);
    await client.query("commit");
    const applied = todo.map(({ name }) => name);
    log.info({ applied }, applied.length === 0 ? "the management tables are up to date" : "migrated");
    return { applied };
  });
}

/** The right to read which migrations were applied is not there: nor were they. */
const DENIED = "42501";
const CHECK_TIMEOUT_MS = 10_000;

/**
 * Throws AppError PORTAL_DB_SCHEMA unless the tables are exactly those of this version and no role of theirs may do too
 * much, and PORTAL_DB_UNAVAILABLE. The URL may be the owner's or that of `portal_authenticator`.
 */
export async function checkPortalDb(url: string): Promise<void> {
  const migrations = await readMigrations();
  const check = async (client: pg.Client): Promise<void> => {
    await checkServer(client);
    const applied = await appliedTo(client).catch((error: unknown) => {
      if (thrownCode(error) === DENIED) return [];
      throw error;
    });
    const todo = pending(migrations, applied);
    if (todo.length > 0) {
      throw refuse(
        `The management tables lack ${todo.length} of ${migrations.length} migrations. Run \`npx turnpike db migrate\`.`,
      );
    }
    await checkRoles(client);
  };
  await withClient(url, "check", check, CHECK_TIMEOUT_MS);
}
