import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock, Log, Metrics } from "@turnpike/base";
import pg from "pg";
import { createApplication, type LiveApplication, type PortalApplication } from "./application.ts";
import { type ApplicationRow, findApplications, MAX_HASHES } from "./lookup.ts";
import { portalKeyLookupsTotal } from "./metrics.ts";
import { createUsage } from "./usage.ts";

export interface ApplicationsOptions {
  /** PostgreSQL, as `portal_gateway`. */
  readonly url: string;
  /** Connections. One is enough: nothing is asked twice at once. */
  readonly poolSize: number;
  /** How often usage is written. A crash loses at most so much of it. */
  readonly flushEveryMs: number;
  /** Age at which a key that is in use is looked at anew, in the background. */
  readonly refreshMs: number;
  /** Age at which a key is not believed without another look. */
  readonly ttlMs: number;
  /** Age up to which it is believed while the database is away. */
  readonly maxStaleMs: number;
  /** How long a key that is nobody's stays so. */
  readonly unknownTtlMs: number;
  /** Most keys that are remembered of each kind. */
  readonly maxKeys: number;
  /** Most keys that wait to be looked up. */
  readonly maxWaiting: number;
  /** Most rows of usage that wait to be written. */
  readonly maxUsageRows: number;
  /** Longest time of one statement, and of connecting. */
  readonly timeoutMs: number;
}

/** Bounds that suit one gateway. */
export const applicationsDefaults: Omit<ApplicationsOptions, "url"> = {
  poolSize: 2,
  flushEveryMs: 1_000,
  refreshMs: 5_000,
  ttlMs: 10_000,
  maxStaleMs: 300_000,
  unknownTtlMs: 5_000,
  maxKeys: 10_000,
  maxWaiting: 1_000,
  maxUsageRows: 50_000,
  timeoutMs: 2_000,
};

export interface ApplicationsModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * What a key stands for. `unknown`: nothing. `unavailable`: that cannot be found out now. `unasked`: it is not known here,
 * and the database was not to be asked.
 */
export type FoundPortalApplication = PortalApplication | "unknown" | "unavailable" | "unasked";

/** Portal applications by their keys, and their usage. Disposing of it writes the usage that is left. */
export interface PortalApplications extends AsyncDisposable {
  /** Finds by the key as presented. Never throws. With `mayAsk` false only what is known here is looked at. */
  find(key: string, mayAsk: boolean): FoundPortalApplication | Promise<FoundPortalApplication>;
  /** Writes usage and looks at the keys in use anew; it is done every `flushEveryMs` too. Never throws. */
  tick(): Promise<void>;
}

interface Known {
  readonly application: LiveApplication;
  /** Of the hash, to be compared in constant time. */
  readonly bytes: Buffer;
  /** Monotonic milliseconds. */
  checkedMs: number;
  usedMs: number;
}

type Looked = "done" | "failed";

/** After a failure nobody waits for the database again for so long. */
const REST_MS = 1_000;
/** No longer one is a key: its hash would cost more than a look. */
const MAX_KEY_LENGTH = 512;

function drop<K>(from: Map<K, unknown>, most: number): void {
  for (const key of from.keys()) {
    if (from.size < most) return;
    from.delete(key);
  }
}

/** Opens the applications of a gateway. It connects when the first key comes; without a database nothing fails but keys. */
export function createApplications(opts: ApplicationsOptions, modules: ApplicationsModules): PortalApplications {
  const { clock, log, metrics } = modules;
  const pool = new pg.Pool({
    connectionString: opts.url,
    max: opts.poolSize,
    connectionTimeoutMillis: opts.timeoutMs,
    statement_timeout: opts.timeoutMs,
    query_timeout: opts.timeoutMs,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: "turnpike gateway",
  });
  pool.on("error", (error) => log.debug({ error: error.message }, "a connection for keys was lost"));
  const usage = createUsage({ maxRows: opts.maxUsageRows }, { pool, log, metrics });
  const shared = { clock, usage, counters: new Map() };
  const known = new Map<string, Known>();
  /** Until when. */
  const unknown = new Map<string, number>();
  const waiting = new Map<string, PromiseWithResolvers<Looked>>();
  let restsUntilMs = Number.NEGATIVE_INFINITY;
  let isFailing = false;
  let isLooking = false;
  let ticking: Promise<void> | undefined;
  let isEnded = false;

  const learn = (hash: string, row: ApplicationRow | undefined, askedMs: number): void => {
    const before = known.get(hash);
    metrics.count(portalKeyLookupsTotal, { outcome: row === undefined ? "unknown" : "found" });
    if (row === undefined) {
      known.delete(hash);
      unknown.delete(hash);
      drop(unknown, opts.maxKeys);
      unknown.set(hash, askedMs + opts.unknownTtlMs);
      return;
    }
    unknown.delete(hash);
    if (before?.application.id === row.id && before.application.accountId === row.accountId) {
      before.application.update(row);
      before.checkedMs = askedMs;
      return;
    }
    known.delete(hash);
    drop(known, opts.maxKeys);
    const application = createApplication(row, shared);
    known.set(hash, { application, bytes: Buffer.from(row.hash, "hex"), checkedMs: askedMs, usedMs: askedMs });
  };

  /** Looks hashes up; at most {@link MAX_HASHES}. */
  const look = async (hashes: readonly string[]): Promise<Looked> => {
    const askedMs = clock.monotonicMs();
    try {
      const rows = await findApplications(pool, hashes);
      for (const hash of hashes) learn(hash, rows.get(hash), askedMs);
      if (isFailing) log.info({}, "keys of applications can be looked up again");
      isFailing = false;
      return "done";
    } catch (error) {
      metrics.count(portalKeyLookupsTotal, { outcome: "failed" });
      restsUntilMs = clock.monotonicMs() + REST_MS;
      const fields = { error: error instanceof Error ? error.message : typeof error };
      if (!isFailing) log.warn(fields, "keys of applications cannot be looked up; keyless calls go on");
      isFailing = true;
      return "failed";
    }
  };

  /** One look at a time: whoever comes meanwhile waits for the next one, so guesses cost the database one query at most. */
  const pump = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, MAX_HASHES);
      for (const [hash] of batch) waiting.delete(hash);
      const looked = await look(batch.map(([hash]) => hash));
      for (const [, { resolve }] of batch) resolve(looked);
      if (looked === "done") continue;
      for (const { resolve } of waiting.values()) resolve(looked);
      waiting.clear();
    }
    isLooking = false;
  };

  const ask = (hash: string): Promise<Looked> => {
    const same = waiting.get(hash);
    if (same !== undefined) return same.promise;
    if (isEnded || waiting.size >= opts.maxWaiting) {
      metrics.count(portalKeyLookupsTotal, { outcome: "full" });
      return Promise.resolve("failed");
    }
    const asked = Promise.withResolvers<Looked>();
    waiting.set(hash, asked);
    void pump();
    return asked.promise;
  };

  /** What is known of a hash now, up to an age. */
  const recall = (hash: string, digest: Buffer, maxAgeMs: number): FoundPortalApplication | undefined => {
    const nowMs = clock.monotonicMs();
    const entry = known.get(hash);
    if (entry === undefined) return (unknown.get(hash) ?? Number.NEGATIVE_INFINITY) > nowMs ? "unknown" : undefined;
    if (nowMs - entry.checkedMs > maxAgeMs || !timingSafeEqual(entry.bytes, digest)) return undefined;
    entry.usedMs = nowMs;
    return entry.application;
  };

  const askAndRecall = async (hash: string, digest: Buffer): Promise<FoundPortalApplication> => {
    const rests = clock.monotonicMs() < restsUntilMs;
    const stale = isFailing ? recall(hash, digest, opts.maxStaleMs) : undefined;
    if (stale !== undefined) {
      // Nobody waits for a database that is away, but somebody must find out that it is back.
      if (!rests) void ask(hash);
      return stale;
    }
    const looked = rests ? "failed" : await ask(hash);
    return recall(hash, digest, looked === "done" ? opts.ttlMs : opts.maxStaleMs) ?? "unavailable";
  };

  /** Looks at the keys in use that have come of age; the usage of before is written by then. */
  const refresh = async (): Promise<void> => {
    const nowMs = clock.monotonicMs();
    if (nowMs < restsUntilMs) return;
    const due: string[] = [];
    for (const [hash, { checkedMs, usedMs }] of known) {
      if (nowMs - Math.max(checkedMs, usedMs) > opts.maxStaleMs) known.delete(hash);
      else if (usedMs >= checkedMs && nowMs - checkedMs >= opts.refreshMs) due.push(hash);
    }
    for (let at = 0; at < due.length; at += MAX_HASHES) {
      if ((await look(due.slice(at, at + MAX_HASHES))) === "failed") return;
    }
  };

  const work = async (): Promise<void> => {
    if (!(await usage.flush())) return;
    await refresh();
  };

  const tick = (): Promise<void> => {
    ticking ??= work().finally(() => {
      ticking = undefined;
    });
    return ticking;
  };
  const timer = setInterval(() => void tick(), opts.flushEveryMs).unref();

  return {
    find(key, mayAsk) {
      if (key.length === 0 || key.length > MAX_KEY_LENGTH) return "unknown";
      const digest = createHash("sha256").update(key).digest();
      const hash = digest.toString("hex");
      const found = recall(hash, digest, opts.ttlMs);
      if (found !== undefined) return found;
      if (!mayAsk && !known.has(hash)) return "unasked";
      return askAndRecall(hash, digest);
    },
    tick,
    async [Symbol.asyncDispose]() {
      if (isEnded) return;
      isEnded = true;
      clearInterval(timer);
      await ticking;
      await usage.flush();
      await pool.end();
    },
  };
}
