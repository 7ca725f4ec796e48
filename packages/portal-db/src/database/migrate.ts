import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { AppError, type Log } from "@turnpike/base";
import type pg from "pg";
import { withClient } from "./connect.ts";
import { AUTHENTICATOR, GATEWAY, makeRoles, setPassword } from "./roles.ts";

const FOLDER = new URL("../../migrations/", import.meta.url);
const FILE = /^\d{4}-[a-z0-9-]+\.sql$/;
const OLDEST_SERVER = 150_000;
const LOCK_TIMEOUT_MS = 60_000;

interface Migration {
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
}

interface Applied {
  readonly name: string;
  readonly checksum: string;
}

/** Options of {@link migratePortalDb}. */
export interface MigratePortalDbOptions {
  /** Of a role that may create schemas and roles; it will own what is made. */
  readonly url: string;
  /** Sets the password of `portal_authenticator`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly authenticatorPassword?: string | undefined;
  /** Sets the password of `portal_gateway`; undefined leaves it as it is. Printable ASCII; never logged. */
  readonly gatewayPassword?: string | undefined;
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

/**
 * Makes or updates the tables of the management data API in the schemas `portal` and `portal_private`, and the roles
 * of the cluster that it needs; all or nothing. Any number of processes may do it at once, also on several databases of
 * one cluster. Throws AppError PORTAL_DB_SCHEMA when the database is newer than the code or was made by other
 * migrations, CONFIG_INVALID for a password that cannot be set, PORTAL_DB_UNAVAILABLE when it cannot be reached, and
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
    const { authenticatorPassword, gatewayPassword } = opts;
    if (authenticatorPassword !== undefined) await setPassword(client, AUTHENTICATOR, authenticatorPassword);
    if (gatewayPassword !== undefined) await setPassword(client, GATEWAY, gatewayPassword);
    const todo = pending(migrations, await appliedTo(client));
    if (todo.length > 0) await apply(client, todo);
    await client.query("commit");
    const applied = todo.map(({ name }) => name);
    log.info({ applied }, applied.length === 0 ? "the management tables are up to date" : "migrated");
    return { applied };
  });
}

/**
 * Throws AppError PORTAL_DB_SCHEMA unless the tables are exactly those of this version, and PORTAL_DB_UNAVAILABLE. The
 * URL may be the owner's or that of `portal_authenticator`.
 */
export async function checkPortalDb(url: string): Promise<void> {
  const migrations = await readMigrations();
  await withClient(url, "check", async (client) => {
    await checkServer(client);
    const todo = pending(migrations, await appliedTo(client));
    if (todo.length > 0) throw refuse(`The tables lack ${todo.length} of ${migrations.length} migrations.`);
  });
}
