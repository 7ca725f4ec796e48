import { Migrations, type SchemaObjects } from "@turnpike/postgres";
import type pg from "pg";
import { withClient } from "./client.ts";
import { assertRights } from "./rights.ts";
import { quoteSchema } from "./statements.ts";

/** What {@link migrate} did. */
export interface MigrationResult {
  /** Names of the migrations that this call applied, in order; empty when there was nothing to do. */
  readonly applied: readonly string[];
}

/** The first text of 0011 ran for superusers alone; 0015 makes what both have made the same. */
const FORMER_CHECKSUMS: Readonly<Record<string, readonly string[]>> = {
  "0011-prune-released.sql": ["9e64d6e34a443c32458a93b8887070db5acbed5ad187162c7b7d1da9cb6f78a1"],
};

/** The migrations of a ledger. Throws AppError CONFIG_INVALID when the schema's name is not a plain lower-case one. */
export function migrationsOf(schema: string): Migrations {
  quoteSchema(schema);
  return new Migrations({
    folder: new URL("../../migrations/", import.meta.url),
    schemas: [schema],
    lock: `turnpike migrate ${schema}`,
    title: "The ledger's tables",
    code: "LEDGER_SCHEMA",
    formerChecksums: FORMER_CHECKSUMS,
  });
}

/**
 * Makes or updates the ledger's tables, all or nothing. Any number of processes may do it at once: one works, the others
 * wait and find nothing to do. `connectTimeoutMs` is the longest wait for its connection, 5,000 by default. Throws
 * AppError LEDGER_SCHEMA when the database is newer than the code or was made by other migrations, and
 * LEDGER_UNAVAILABLE when it cannot be reached.
 */
export async function migrate(
  url: string,
  opts: { readonly schema: string; readonly connectTimeoutMs?: number },
): Promise<MigrationResult> {
  const migrations = migrationsOf(opts.schema);
  const applied = await withClient(url, "migrate", (client) => migrations.apply(client), opts.connectTimeoutMs);
  return { applied };
}

/** Definitions of what the migrations make: what `schema.json` beside them has. The database stays as it is. */
export function ledgerObjects(url: string, schema: string): Promise<SchemaObjects> {
  return withClient(url, "schema", (client) => migrationsOf(schema).define(client));
}

/** Facts of the server that the ledger opens its connections by. */
export interface ServerFacts {
  /** True when commits would return before they are on disk unless the connection asks for it. */
  readonly asynchronousCommit: boolean;
}

/** Throws AppError LEDGER_SCHEMA unless the tables are exactly those of this version, all there, and this role may use them. */
export async function checkSchema(url: string, schema: string, connectTimeoutMs?: number): Promise<ServerFacts> {
  const migrations = migrationsOf(schema);
  const work = async (client: pg.Client): Promise<ServerFacts> => {
    await assertRights(client, schema, () => migrations.assertApplied(client));
    const rows = await client.query<{ sync: string }>("select current_setting('synchronous_commit') as sync");
    return { asynchronousCommit: rows.rows[0]?.sync === "off" };
  };
  return withClient(url, "createLedger", work, connectTimeoutMs);
}
