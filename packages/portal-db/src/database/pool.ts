import { AppError, type Log } from "@turnpike/base";
import pg from "pg";
import { StatementNames } from "./statement-names.ts";

export interface RolePoolOptions {
  /** Of `portal_authenticator`. */
  readonly url: string;
  /** Connections. */
  readonly poolSize: number;
  /** Requests that may wait for a connection; more are refused. */
  readonly queueLimit: number;
  /** Most milliseconds to wait for a connection. */
  readonly connectTimeoutMs: number;
}

/** Connections of the authenticator, which has no rights on rows of its own. */
export interface RolePool extends AsyncDisposable {
  readonly connections: pg.Pool;
  readonly queueLimit: number;
  readonly names: StatementNames;
}

// A transaction that waits for us this long belongs to a process that hangs: the server ends it and frees its locks.
const STUCK_MS = 60_000;

/** Makes the pool; connects when it is first used. Disposing of it waits for the transactions under way. */
export function createRolePool(opts: RolePoolOptions, { log }: { readonly log: Log }): RolePool {
  const connections = new pg.Pool({
    connectionString: opts.url,
    max: opts.poolSize,
    connectionTimeoutMillis: opts.connectTimeoutMs,
    idleTimeoutMillis: 60_000,
    idle_in_transaction_session_timeout: STUCK_MS,
    keepAlive: true,
    // The first statements of a request are sent without waiting for each other's answers.
    pipeline: true,
    application_name: "turnpike db",
  });
  connections.on("error", (error) =>
    log.warn({ error: error.message }, "an idle connection to the management database was lost"),
  );
  return {
    connections,
    queueLimit: opts.queueLimit,
    names: new StatementNames(),
    [Symbol.asyncDispose]: () => connections.end(),
  };
}

/**
 * A connection of the pool. Throws AppError PORTAL_DB_UNAVAILABLE when too many wait already, the signal's reason, or
 * the driver's error.
 */
export async function checkOut(pool: RolePool, signal: AbortSignal | undefined): Promise<pg.PoolClient> {
  signal?.throwIfAborted();
  const { connections, queueLimit } = pool;
  if (connections.waitingCount >= queueLimit) {
    throw new AppError("PORTAL_DB_UNAVAILABLE", { detail: { waiting: connections.waitingCount } });
  }
  const isThere = connections.idleCount > 0 && connections.waitingCount === 0;
  const connecting = connections.connect();
  // One that is there comes in the same turn.
  if (signal === undefined || isThere) return connecting;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([connecting, aborted]);
  } catch (error) {
    // The pool still hands it over, to a caller that has gone.
    if (signal.aborted) {
      connecting.then(
        (client) => client.release(),
        () => undefined,
      );
    }
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Runs one of our own statements outside a request. The connection of one that has no answer in time is given up: it must
 * not stay taken. Throws the driver's errors.
 */
export async function askInTime<Row extends pg.QueryResultRow>(
  { connections }: Pick<RolePool, "connections">,
  timeoutMs: number,
  query: pg.QueryConfig,
): Promise<readonly Row[]> {
  // The driver's types leave the member out.
  const timed: pg.QueryConfig & { readonly query_timeout: number } = { ...query, query_timeout: timeoutMs };
  return (await connections.query<Row>(timed)).rows;
}
