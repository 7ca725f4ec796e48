import type { Clock, Log, Metrics } from "@turnpike/base";
import { checkPortalDb } from "./database/migrate.ts";
import { askInTime, createRolePool, type RolePool } from "./database/pool.ts";
import { startRetention } from "./database/retention.ts";
import { WatchedRoleViews } from "./database/role-views.ts";
import { runWithRole, withRole } from "./database/session.ts";
import type { PortalTransactions } from "./http/run-plan.ts";
import { PortalServer, type PortalServerOptions } from "./http/server.ts";
import { TokenSlots } from "./http/token-slots.ts";
import { readTokenKeys, type TokenKeyOptions } from "./tokens/keys.ts";
import { createRevocationCheck } from "./tokens/revocations.ts";
import { TokenVerifier } from "./tokens/verifier.ts";

export interface PortalDbOptions extends PortalServerOptions {
  /** PostgreSQL, as `portal_authenticator`. */
  readonly databaseUrl: string;
  /** Most connections to the database; calls with one token have half of them at most. */
  readonly poolSize: number;
  /** Longest time of one statement, by the caller's role. */
  readonly statementTimeoutMs: { readonly reader: number; readonly admin: number };
  /** Longest wait for a lock. */
  readonly lockTimeoutMs: number;
  /** Longest wait for a connection to the database. */
  readonly connectTimeoutMs: number;
  /** Age, in days, at which rows of the audit are removed; at least 30. */
  readonly auditDays: number;
  readonly keys: readonly TokenKeyOptions[];
  readonly audience: string;
  readonly maxLifetimeSeconds: number;
}

export interface PortalDbModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A running management data API. */
export interface PortalDb extends AsyncDisposable {
  /** `http://<host>:<port>` */
  readonly url: string;
  readonly port: number;
  /** Puts other keys in the place of those that tokens are checked with. @throws AppError CONFIG_INVALID. */
  setKeys(keys: readonly TokenKeyOptions[]): Promise<void>;
  /** Reads anew what roles may see and do. */
  reload(): Promise<void>;
}

/** Requests that wait for a connection, for each connection. */
const QUEUE_PER_CONNECTION = 20;
const RELOAD_DEBOUNCE_MS = 100;
const RECONNECT_MS = 1_000;
const READY_KEPT_MS = 500;

async function isRevoked(pool: RolePool, timeoutMs: number, tokenId: string): Promise<boolean> {
  const text = "select 1 from portal_private.revoked_tokens where token_id = $1";
  const query = { name: "portal_revoked", text, values: [tokenId] };
  return (await askInTime(pool, timeoutMs, query)).length > 0;
}

function transactions(opts: PortalDbOptions, pool: RolePool): PortalTransactions {
  const { lockTimeoutMs, statementTimeoutMs } = opts;
  const timesOf = (role: string): { statementTimeoutMs: number; lockTimeoutMs: number } => ({
    statementTimeoutMs: role === "admin" ? statementTimeoutMs.admin : statementTimeoutMs.reader,
    lockTimeoutMs,
  });
  return {
    all: (caller, session, statements) =>
      runWithRole(pool, caller, { ...timesOf(caller.role), ...session }, statements),
    write: (caller, session, work) => withRole(pool, caller, { ...timesOf(caller.role), ...session }, work),
  };
}

/** Asks the database whether it answers, at most once in {@link READY_KEPT_MS}: `/ready` needs no token. */
function readiness(pool: RolePool, timeoutMs: number, clock: Clock): () => Promise<readonly string[]> {
  let untilMs = Number.NEGATIVE_INFINITY;
  let missing: Promise<readonly string[]> = Promise.resolve([]);
  return () => {
    if (clock.monotonicMs() < untilMs) return missing;
    untilMs = clock.monotonicMs() + READY_KEPT_MS;
    missing = askInTime(pool, timeoutMs, { text: "select 1" }).then(
      () => [],
      () => ["database"],
    );
    return missing;
  };
}

/**
 * Opens the database and serves the management data over HTTP. Disposing of it ends the calls under way first.
 * @throws AppError CONFIG_INVALID for keys that are none, PORTAL_DB_UNAVAILABLE, PORTAL_DB_SCHEMA for tables of another
 * version and roles that may too much, and what listening throws.
 */
export async function startPortalDb(opts: PortalDbOptions, modules: PortalDbModules): Promise<PortalDb> {
  const { clock, log, metrics } = modules;
  const keys = await readTokenKeys(opts.keys);
  await using stack = new AsyncDisposableStack();
  const { databaseUrl: url, poolSize, connectTimeoutMs } = opts;
  const askMs = opts.statementTimeoutMs.reader;
  await checkPortalDb(url);
  const pool = stack.use(
    createRolePool({ url, poolSize, connectTimeoutMs, queueLimit: poolSize * QUEUE_PER_CONNECTION }, { log }),
  );
  const views = stack.use(
    await WatchedRoleViews.open({ url, debounceMs: RELOAD_DEBOUNCE_MS, reconnectMs: RECONNECT_MS }, { pool, log }),
  );
  stack.use(startRetention({ auditDays: opts.auditDays }, { pool, log }));
  const verifier = new TokenVerifier(
    { keys, audience: opts.audience, maxLifetimeSeconds: opts.maxLifetimeSeconds },
    { clock, isRevoked: createRevocationCheck({}, { clock, find: (tokenId) => isRevoked(pool, askMs, tokenId) }) },
  );
  const server = stack.use(
    await PortalServer.listen(opts, {
      clock,
      log,
      metrics,
      verifier,
      database: transactions(opts, pool),
      viewOf: (role) => views.current()[role],
      missing: readiness(pool, askMs, clock),
      slots: new TokenSlots(Math.max(1, Math.floor(poolSize / 2))),
    }),
  );
  const owned = stack.move();
  return {
    url: server.url,
    port: server.port,
    setKeys: async (next) => verifier.setKeys(await readTokenKeys(next)),
    reload: async () => void (await views.reload()),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
