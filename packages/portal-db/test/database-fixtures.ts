import { silentLog } from "@turnpike/base";
import { type LocalPostgres, startPostgres } from "@turnpike/localnet";
import pg from "pg";
import { migratePortalDb } from "../src/database/migrate.ts";
import { createRolePool, type RolePool, type RolePoolOptions } from "../src/database/pool.ts";
import { withRole } from "../src/database/session.ts";
import type { Caller, Statement } from "../src/types.ts";

export const PASSWORD = "authenticator of the tests";
export const FIXTURE = "10000000-0000-0000-0000-000000000004";

/** A server for one test file, and databases for its tests. */
export interface TestServer extends AsyncDisposable {
  readonly postgres: LocalPostgres;
  /** A new, migrated database: the owner's URL and the authenticator's. */
  database(): Promise<{ readonly owner: string; readonly url: string }>;
}

const asAuthenticator = (owner: string): string => {
  const url = new URL(owner);
  url.username = "portal_authenticator";
  url.password = PASSWORD;
  return url.href;
};

export async function startTestServer(): Promise<TestServer> {
  const postgres = await startPostgres();
  let made = 0;
  return {
    postgres,
    async database() {
      const owner = await postgres.createDatabase(`portal_${made++}`);
      await migratePortalDb({ url: owner, authenticatorPassword: PASSWORD }, { log: silentLog });
      return { owner, url: asAuthenticator(owner) };
    },
    [Symbol.asyncDispose]: () => postgres[Symbol.asyncDispose](),
  };
}

export function openPool(url: string, over: Partial<RolePoolOptions> = {}): RolePool {
  return createRolePool({ url, poolSize: 5, queueLimit: 100, connectTimeoutMs: 10_000, ...over }, { log: silentLog });
}

/** Runs SQL as the owner would, behind the API's back. */
export async function sql<Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, options: "-c search_path=portal" });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

export function caller(role: Caller["role"], accountId?: string): Caller {
  const claims = { role, jti: `token of ${role}`, ...(accountId === undefined ? {} : { account_id: accountId }) };
  return { role, accountId, tokenId: `token of ${role}`, claims };
}

export const statement = (text: string, values: readonly unknown[] = []): Statement => ({ text, values });

/** One statement in a transaction of its own. */
export function as<Row extends object>(
  pool: RolePool,
  who: Caller,
  text: string,
  values: readonly unknown[] = [],
  over: { readonly showsDeleted?: boolean } = {},
): Promise<readonly Row[]> {
  const opts = { statementTimeoutMs: 10_000, lockTimeoutMs: 10_000, isWrite: true, ...over };
  return withRole(pool, who, opts, (session) => session.run<Row>(statement(text, values)));
}

/** For assert.rejects: an error of the database with this SQLSTATE. */
export const sqlState =
  (code: string, message = /./) =>
  (error: unknown): boolean =>
    error instanceof pg.DatabaseError && error.code === code && message.test(error.message);
