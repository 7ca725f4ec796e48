import { randomBytes } from "node:crypto";
import { type Anvil, deployTestToken, type LocalPostgres, startAnvil, startPostgres } from "@turnpike/localnet";
import pg from "pg";

/** Names of the environment variables by which a test run hands its servers to the processes of its files. */
const SHARED_SERVER_VARIABLES = {
  /** URL of the run's PostgreSQL server, as its superuser. */
  postgres: "TURNPIKE_TEST_POSTGRES_URL",
  /** URL of the run's anvil, with the test token in place. */
  anvil: "TURNPIKE_TEST_ANVIL_URL",
} as const;

/** Databases of a test file on a PostgreSQL server that other files may use at the same time. */
export interface TestPostgres extends AsyncDisposable {
  /** URL of a database of this file alone, as the superuser. */
  readonly url: string;
  /**
   * Makes a database of this file; gives its URL. The name must be a plain identifier, and unique within the file.
   * @param template URL of another database of this file to copy, which must have no connections at that moment
   */
  createDatabase(name: string, template?: string): Promise<string>;
}

/** An EVM chain (id 84532, a block a transaction) with the test token, which other files may use at the same time. */
export interface TestAnvil extends AsyncDisposable {
  readonly url: string;
}

/** Servers that a whole test run shares. */
export interface SharedServers extends AsyncDisposable {
  /** To be added to the environment of each test file's process. */
  readonly env: Readonly<Record<string, string>>;
  /** Why a server is missing: then each file starts its own, and fails by itself where it cannot. */
  readonly faults: readonly string[];
}

/** Starts the servers of a test run, as far as they can be had here. */
export async function startSharedServers(): Promise<SharedServers> {
  await using owned = new AsyncDisposableStack();
  const env: Record<string, string> = {};
  const faults: string[] = [];
  const start = async (variable: string, begin: () => Promise<AsyncDisposable & { readonly url: string }>) => {
    try {
      env[variable] = owned.use(await begin()).url;
    } catch (error) {
      faults.push(`No server that the whole run shares: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await Promise.all([
    start(SHARED_SERVER_VARIABLES.anvil, startTestAnvil),
    start(SHARED_SERVER_VARIABLES.postgres, () => startPostgres({ maxConnections: 500 })),
  ]);
  const resources = owned.move();
  return { env, faults, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

async function startTestAnvil(): Promise<Anvil> {
  const anvil = await startAnvil();
  await deployTestToken(anvil.url, { holders: [] });
  return anvil;
}

async function onServer(url: string, statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

async function ownPostgres(): Promise<TestPostgres> {
  await using owned = new AsyncDisposableStack();
  const server: LocalPostgres = owned.use(await startPostgres());
  const databases = await databasesOn(server.url);
  const resources = owned.move();
  // The server goes with its databases.
  return { ...databases, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

async function databasesOn(serverUrl: string): Promise<TestPostgres> {
  const prefix = `t${randomBytes(6).toString("hex")}`;
  const made: string[] = [];
  const urlOf = (database: string): string => {
    const url = new URL(serverUrl);
    url.pathname = `/${database}`;
    return url.href;
  };
  const create = async (database: string, template?: string): Promise<string> => {
    const name = pg.escapeIdentifier(database);
    const source =
      template === undefined ? "" : ` template ${pg.escapeIdentifier(new URL(template).pathname.slice(1))}`;
    await onServer(serverUrl, [`create database ${name}${source}`]);
    made.push(name);
    return urlOf(database);
  };
  return {
    url: await create(prefix),
    createDatabase: (name, template) => create(`${prefix}_${name}`, template),
    [Symbol.asyncDispose]: () =>
      onServer(
        serverUrl,
        made.splice(0).map((name) => `drop database if exists ${name} with (force)`),
      ),
  };
}

/**
 * A PostgreSQL for a test file: databases of its own on the run's server, or a server of its own where the file runs
 * alone. A file that ends, stalls or reconfigures the server starts its own (`startPostgres`); one that changes roles
 * other files use asks for a server of its own by `isOwn`.
 */
export async function openTestPostgres(opts: { readonly isOwn?: boolean } = {}): Promise<TestPostgres> {
  const shared = process.env[SHARED_SERVER_VARIABLES.postgres];
  return shared === undefined || opts.isOwn === true ? ownPostgres() : databasesOn(shared);
}

/**
 * An EVM chain for a test file: the run's, or one of its own where the file runs alone. Use random accounts, and read
 * sums of these accounts only. A file that reverts, warps time, changes mining or restarts the node starts its own
 * (`startAnvil`).
 */
export async function openTestAnvil(): Promise<TestAnvil> {
  const shared = process.env[SHARED_SERVER_VARIABLES.anvil];
  if (shared !== undefined) return { url: shared, [Symbol.asyncDispose]: async () => {} };
  return startTestAnvil();
}
