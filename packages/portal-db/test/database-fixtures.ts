import { silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { openTestPostgres, superuserUrl } from "@turnpike/testkit/servers";
import pg from "pg";
import { migratePortalDb } from "../src/database/migrate.ts";
import { createRolePool, type RolePool, type RolePoolOptions } from "../src/database/pool.ts";
import { withRole } from "../src/database/session.ts";
import type { Caller, Statement } from "../src/types.ts";

/** Of `portal_authenticator`. Roles belong to the whole server, so all files that share one have to use these. */
export const PASSWORD = "authenticator of the tests";
/** Of `portal_gateway`. */
export const GATEWAY_PASSWORD = "gateway of the tests";
export const FIXTURE = "10000000-0000-0000-0000-000000000004";

/** PostgreSQL for one test file, and databases for its tests. */
export interface TestServer extends AsyncDisposable {
  /** URL of the server's own database, as the superuser. */
  readonly adminUrl: string;
  readonly port: number;
  /** A new, empty database; gives its owner's URL. The name must be unique within the file. */
  createDatabase(name: string): Promise<string>;
  /** A new, migrated database: the owner's URL and the authenticator's. */
  database(): Promise<{ readonly owner: string; readonly url: string }>;
}

const asAuthenticator = (owner: string): string => {
  const url = new URL(owner);
  url.username = "portal_authenticator";
  url.password = PASSWORD;
  return url.href;
};

/**
 * Opens PostgreSQL for a test file. Roles are of the whole server, which other files may use at the same time: one that
 * changes them asks for a server of its own.
 */
export async function startTestServer(opts: { readonly isOwn?: boolean } = {}): Promise<TestServer> {
  const postgres = await openTestPostgres({ ...opts, createsRoles: true });
  const admin = new URL(superuserUrl(postgres.url));
  admin.pathname = "/postgres";
  let made = 0;
  return {
    adminUrl: admin.href,
    port: Number(admin.port),
    createDatabase: (name) => postgres.createDatabase(name),
    async database() {
      // The first one is there already. A template would not pay: making a database costs more than migrating it.
      const number = made++;
      const owner = number === 0 ? postgres.url : await postgres.createDatabase(`portal_${number}`);
      await migratePortalDb({ url: owner, authenticatorPassword: PASSWORD }, { log: silentLog });
      return { owner, url: asAuthenticator(owner) };
    },
    [Symbol.asyncDispose]: () => postgres[Symbol.asyncDispose](),
  };
}

export function openPool(url: string, over: Partial<RolePoolOptions> = {}): RolePool {
  return createRolePool({ url, poolSize: 5, queueLimit: 100, connectTimeoutMs: 60_000, ...over }, { log: silentLog });
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

/** One that sleeps until it is ended, and that {@link sleeper} finds. */
export const SLEEP: Statement = statement("select pg_sleep(600), 'slept' as mark");

/** The backends of a database in which {@link SLEEP} runs. */
const sleepers = (owner: string): Promise<{ pid: number }[]> =>
  sql(
    superuserUrl(owner),
    `select pid from pg_stat_activity
     where query like '%slept%' and state = 'active' and pid <> pg_backend_pid() and datname = current_database()`,
  );

/** The process id of a backend in which {@link SLEEP} runs, as soon as there is one. */
export const sleeper = async (owner: string): Promise<number> =>
  (await eventually("a statement that sleeps", async () => (await sleepers(owner))[0])).pid;

/** Resolves when {@link SLEEP} runs in no backend of a database. */
export async function untilNoneSleeps(owner: string): Promise<void> {
  await eventually("no statement that sleeps", async () => (await sleepers(owner)).length === 0);
}

/** One statement in a transaction of its own. */
export function as<Row extends object>(
  pool: RolePool,
  who: Caller,
  text: string,
  values: readonly unknown[] = [],
  over: { readonly showsDeleted?: boolean } = {},
): Promise<readonly Row[]> {
  const opts = { statementTimeoutMs: 60_000, lockTimeoutMs: 60_000, isWrite: true, ...over };
  return withRole(pool, who, opts, (session) => session.run<Row>(statement(text, values)));
}

/** For assert.rejects: an error of the database with this SQLSTATE. */
export const sqlState =
  (code: string, message = /./) =>
  (error: unknown): boolean =>
    error instanceof pg.DatabaseError && error.code === code && message.test(error.message);
