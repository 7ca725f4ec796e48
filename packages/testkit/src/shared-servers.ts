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

/**
 * Roles that own the tests' databases, as an operator's role does: what a superuser alone may do fails here first. Roles
 * belong to the server, so all files share them.
 */
const OWNER = { name: "turnpike_test_owner", attributes: "nocreaterole" } as const;
/** Also makes roles, which the management data needs. */
const ROLE_MAKER = { name: "turnpike_test_role_maker", attributes: "createrole" } as const;
const OWNER_PASSWORD = "owner of the tests";

/** URLs of the servers that this process uses, as their superusers, by host and port. */
const superusers = new Map<string, URL>();

/** URL of the same database as the server's superuser, for what a test does behind the product's back. */
export function superuserUrl(url: string): string {
  const database = new URL(url);
  const server = superusers.get(database.host);
  if (server === undefined) throw new TypeError(`${database.host} is not a PostgreSQL of openTestPostgres`);
  const asSuperuser = new URL(server);
  asSuperuser.pathname = database.pathname;
  return asSuperuser.href;
}

/** Databases of a test file on a PostgreSQL server that other files may use at the same time. */
export interface TestPostgres extends AsyncDisposable {
  /** URL of a database of this file alone, as its owner, who is not a superuser. {@link superuserUrl} has the superuser's. */
  readonly url: string;
  /**
   * Makes a database of this file; returns its owner's URL. The name must be a plain identifier, and unique within the file.
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

/** Makes the owners where they are missing: files that share a server may do it at once. */
async function makeOwners(serverUrl: string): Promise<void> {
  const statements = [OWNER, ROLE_MAKER].map(
    ({ name, attributes }) => `
      do $$ begin
        create role ${name} login ${attributes} password ${pg.escapeLiteral(OWNER_PASSWORD)};
      exception when duplicate_object or unique_violation then null;
      end $$`,
  );
  await onServer(serverUrl, statements);
}

async function ownPostgres(opts: TestPostgresOptions): Promise<TestPostgres> {
  await using owned = new AsyncDisposableStack();
  const server: LocalPostgres = owned.use(await startPostgres());
  const databases = await databasesOn(server.url, opts);
  const resources = owned.move();
  // The server goes with its databases.
  return { ...databases, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/**
 * Databases of a plain owner on a server that the caller started.
 * @param serverUrl URL of any database of it, as its superuser
 */
export async function databasesOn(serverUrl: string, opts: TestPostgresOptions = {}): Promise<TestPostgres> {
  const owner = opts.createsRoles === true ? ROLE_MAKER : OWNER;
  superusers.set(new URL(serverUrl).host, new URL(serverUrl));
  await makeOwners(serverUrl);
  const prefix = `t${randomBytes(6).toString("hex")}`;
  const made: string[] = [];
  const urlOf = (database: string): string => {
    const url = new URL(serverUrl);
    url.pathname = `/${database}`;
    url.username = owner.name;
    url.password = encodeURIComponent(OWNER_PASSWORD);
    return url.href;
  };
  const create = async (database: string, template?: string): Promise<string> => {
    const name = pg.escapeIdentifier(database);
    const source =
      template === undefined ? "" : ` template ${pg.escapeIdentifier(new URL(template).pathname.slice(1))}`;
    await onServer(serverUrl, [`create database ${name} owner ${owner.name}${source}`]);
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

/** Server and owner that a test file needs. */
export interface TestPostgresOptions {
  /** A server of the file's own. */
  readonly isOwn?: boolean;
  /** The owner of the databases may make roles (CREATEROLE). */
  readonly createsRoles?: boolean;
}

/**
 * A PostgreSQL for a test file: databases of its own on the run's server, or a server of its own where the file runs
 * alone. A file that ends, stalls or reconfigures the server starts its own (`startPostgres`); one that changes roles
 * other files use asks for a server of its own by `isOwn`.
 */
export async function openTestPostgres(opts: TestPostgresOptions = {}): Promise<TestPostgres> {
  const shared = process.env[SHARED_SERVER_VARIABLES.postgres];
  return shared === undefined || opts.isOwn === true ? ownPostgres(opts) : databasesOn(shared, opts);
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
