import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { AppError } from "@turnpike/base";
import type pg from "pg";
import { withClient } from "./client.ts";
import { assertRights } from "./rights.ts";
import { quoteSchema } from "./statements.ts";

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

/** What {@link migrate} did. */
export interface MigrationResult {
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

function refuse(message: string): AppError {
  return new AppError("LEDGER_SCHEMA", { message });
}

/** Those that are still to be applied. Throws when the database is newer, or was made by other migrations. */
function pending(migrations: readonly Migration[], applied: readonly Applied[]): readonly Migration[] {
  for (const [index, { name, checksum }] of applied.entries()) {
    const ours = migrations[index];
    if (ours === undefined) throw refuse(`The ledger's tables are newer than this version: ${name} is unknown to it.`);
    if (ours.name !== name) throw refuse(`The ledger's tables have ${name} where this version has ${ours.name}.`);
    if (ours.checksum !== checksum) throw refuse(`${name} is not the migration that was applied to the ledger.`);
  }
  return migrations.slice(applied.length);
}

async function appliedTo(client: pg.Client, schema: string): Promise<readonly Applied[]> {
  const there = await client.query<{ there: boolean }>("select to_regclass($1) is not null as there", [
    `${quoteSchema(schema)}.migrations`,
  ]);
  if (there.rows[0]?.there !== true) return [];
  const rows = await client.query<Applied>(
    `select name, checksum from ${quoteSchema(schema)}.migrations order by name`,
  );
  return rows.rows;
}

async function checkServer(client: pg.Client): Promise<void> {
  const rows = await client.query<{ version: string }>("select current_setting('server_version_num') as version");
  const version = Number(rows.rows[0]?.version);
  if (!(version >= OLDEST_SERVER)) throw refuse("The ledger needs PostgreSQL 15 or later.");
}

/**
 * Makes or updates the ledger's tables, all or nothing. Any number of processes may do it at once: one works, the others
 * wait and find nothing to do. `connectTimeoutMs` is the longest wait for its connection, 5,000 by default. Throws
 * AppError LEDGER_SCHEMA when the database is newer than the code or was made by other migrations, and
 * LEDGER_UNAVAILABLE when it cannot be reached.
 */
export async function migrate(
  url: string,
  opts: { readonly schema?: string; readonly connectTimeoutMs?: number } = {},
): Promise<MigrationResult> {
  const schema = opts.schema ?? "ledger";
  const quoted = quoteSchema(schema);
  const migrations = await readMigrations();
  const work = async (client: pg.Client): Promise<MigrationResult> => {
    await checkServer(client);
    await client.query("begin");
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await client.query("set local statement_timeout = 0");
    await client.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [`turnpike migrate ${schema}`]);
    const todo = pending(migrations, await appliedTo(client, schema));
    if (todo.length > 0) {
      await client.query(`create schema if not exists ${quoted}`);
      await client.query(`set local search_path to ${quoted}, pg_temp`);
      await client.query(
        `create table if not exists migrations (
          name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp()
        )`,
      );
      for (const { name, sql, checksum } of todo) {
        await client.query(sql);
        await client.query("insert into migrations (name, checksum) values ($1, $2)", [name, checksum]);
      }
    }
    await client.query("commit");
    return { applied: todo.map(({ name }) => name) };
  };
  return withClient(url, "migrate", work, opts.connectTimeoutMs);
}

/** Facts of the server that the ledger opens its connections by. */
export interface ServerFacts {
  /** True when commits would return before they are on disk unless the connection asks for it. */
  readonly asynchronousCommit: boolean;
}

/** Throws AppError LEDGER_SCHEMA unless the tables are exactly those of this version, and this role may use them. */
export async function checkSchema(url: string, schema: string, connectTimeoutMs?: number): Promise<ServerFacts> {
  const migrations = await readMigrations();
  const work = async (client: pg.Client): Promise<ServerFacts> => {
    await checkServer(client);
    await assertRights(client, schema, async () => {
      const todo = pending(migrations, await appliedTo(client, schema));
      if (todo.length > 0) throw refuse(`The ledger's tables lack ${todo.length} of ${migrations.length} migrations.`);
    });
    const rows = await client.query<{ sync: string }>("select current_setting('synchronous_commit') as sync");
    return { asynchronousCommit: rows.rows[0]?.sync === "off" };
  };
  return withClient(url, "createLedger", work, connectTimeoutMs);
}
