import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock, Log, Metrics } from "@turnpike/base";
import pg from "pg";
import { type ApplicationModules, LiveApplication, type PortalApplication } from "./application.ts";
import { type ApplicationRow, findApplications, MAX_HASHES } from "./lookup.ts";
import { portalKeyLookupsTotal } from "./metrics.ts";
import { Usage } from "./usage.ts";

/** Where keys are looked up and usage is written, and bounds that differ from the built-in ones. */
export interface ApplicationsOptions extends Partial<ApplicationsBounds> {
  /** PostgreSQL, as `portal_gateway`. */
  readonly url: string;
}

/** Times and sizes of what a gateway remembers of keys, and of what it has not written yet. */
export interface ApplicationsBounds {
  /** Connections. One is enough: nothing is asked twice at once. */
  readonly poolSize: number;
  /** How often usage is written. A crash loses at most so much of it. */
  readonly flushEveryMs: number;
  /** Age at which a key that is in use is looked up again, in the background. */
  readonly refreshMs: number;
  /** Age at which a key must be looked up again before it counts. */
  readonly ttlMs: number;
  /** Age up to which it counts while the database cannot be reached. */
  readonly maxStaleMs: number;
  /** How long a key of no application is taken for that. */
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

/** Bounds that suit one gateway; none of them can be configured. */
const BOUNDS: ApplicationsBounds = {
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

interface Known {
  readonly application: LiveApplication;
  /** Of the hash, to be compared in constant time. */
  readonly bytes: Buffer;
  /** Monotonic milliseconds. */
  checkedMs: number;
  usedMs: number;
}

type LookupOutcome = "done" | "failed";

/** For so long after a failure no call waits for the database. */
const REST_MS = 1_000;
/** A longer text is no key: its hash would cost more than a lookup. */
const MAX_KEY_LENGTH = 512;

/** Deletes the oldest entries until there is room for one more. */
function makeRoom<K>(entries: Map<K, unknown>, most: number): void {
  for (const key of entries.keys()) {
    if (entries.size < most) return;
    entries.delete(key);
  }
}

/**
 * Portal applications by their keys, and their usage. It connects when the first key comes; without a database only calls
 * with keys fail. Disposing of it writes the usage that is left.
 */
export class PortalApplications implements AsyncDisposable {
  readonly #opts: ApplicationsBounds;
  readonly #modules: ApplicationsModules;
  readonly #pool: pg.Pool;
  readonly #usage: Usage;
  readonly #shared: ApplicationModules;
  readonly #timer: NodeJS.Timeout;
  /** By the hash of the key, as the two below. */
  readonly #known = new Map<string, Known>();
  /** Keys of no application, and until when they are taken for that. */
  readonly #unknown = new Map<string, number>();
  readonly #waiting = new Map<string, PromiseWithResolvers<LookupOutcome>>();
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #isLookingUp = false;
  #ticking: Promise<void> | undefined;
  #isEnded = false;

  constructor({ url, ...bounds }: ApplicationsOptions, modules: ApplicationsModules) {
    const { clock, log, metrics } = modules;
    const opts = { ...BOUNDS, ...bounds };
    this.#opts = opts;
    this.#modules = modules;
    this.#pool = new pg.Pool({
      connectionString: url,
      max: opts.poolSize,
      connectionTimeoutMillis: opts.timeoutMs,
      statement_timeout: opts.timeoutMs,
      query_timeout: opts.timeoutMs,
      idleTimeoutMillis: 60_000,
      keepAlive: true,
      application_name: "turnpike gateway",
    });
    this.#pool.on("error", (error) => log.debug({ error: error.message }, "a connection for keys was lost"));
    this.#usage = new Usage({ maxRows: opts.maxUsageRows }, { pool: this.#pool, log, metrics });
    this.#shared = { clock, usage: this.#usage, counters: new Map() };
    this.#timer = setInterval(() => void this.tick(), opts.flushEveryMs).unref();
  }

  /** Finds by the key as presented. Never throws. With `mayAsk` false the database is not asked. */
  find(key: string, mayAsk: boolean): FoundPortalApplication | Promise<FoundPortalApplication> {
    if (key.length === 0 || key.length > MAX_KEY_LENGTH) return "unknown";
    const digest = createHash("sha256").update(key).digest();
    const hash = digest.toString("hex");
    const found = this.#recall(hash, digest, this.#opts.ttlMs);
    if (found !== undefined) return found;
    if (!mayAsk && !this.#known.has(hash)) return "unasked";
    return this.#findInDatabase(hash, digest);
  }

  /** Writes usage and refreshes the keys in use; a timer does it every `flushEveryMs` too. Never throws. */
  tick(): Promise<void> {
    this.#ticking ??= this.#flushAndRefresh().finally(() => {
      this.#ticking = undefined;
    });
    return this.#ticking;
  }

  async #flushAndRefresh(): Promise<void> {
    // Only once the usage is written: the counts that a refresh reads then include it.
    if (await this.#usage.flush()) await this.#refresh();
  }

  /** Looks up again the keys in use that are older than `refreshMs`. */
  async #refresh(): Promise<void> {
    const nowMs = this.#modules.clock.monotonicMs();
    if (nowMs < this.#restsUntilMs) return;
    const due: string[] = [];
    for (const [hash, { checkedMs, usedMs }] of this.#known) {
      if (nowMs - Math.max(checkedMs, usedMs) > this.#opts.maxStaleMs) this.#known.delete(hash);
      else if (usedMs >= checkedMs && nowMs - checkedMs >= this.#opts.refreshMs) due.push(hash);
    }
    for (let at = 0; at < due.length; at += MAX_HASHES) {
      if ((await this.#lookUp(due.slice(at, at + MAX_HASHES))) === "failed") return;
    }
  }

  /** What is known of a hash, if it was checked within `maxAgeMs`. */
  #recall(hash: string, digest: Buffer, maxAgeMs: number): FoundPortalApplication | undefined {
    const nowMs = this.#modules.clock.monotonicMs();
    const known = this.#known.get(hash);
    if (known === undefined) {
      return (this.#unknown.get(hash) ?? Number.NEGATIVE_INFINITY) > nowMs ? "unknown" : undefined;
    }
    if (nowMs - known.checkedMs > maxAgeMs || !timingSafeEqual(known.bytes, digest)) return undefined;
    known.usedMs = nowMs;
    return known.application;
  }

  async #findInDatabase(hash: string, digest: Buffer): Promise<FoundPortalApplication> {
    const { ttlMs, maxStaleMs } = this.#opts;
    const rests = this.#modules.clock.monotonicMs() < this.#restsUntilMs;
    const stale = this.#isFailing ? this.#recall(hash, digest, maxStaleMs) : undefined;
    if (stale !== undefined) {
      // No call waits for a database that is away, but one must find out that it is back.
      if (!rests) void this.#enqueue(hash);
      return stale;
    }
    const outcome = rests ? "failed" : await this.#enqueue(hash);
    return this.#recall(hash, digest, outcome === "done" ? ttlMs : maxStaleMs) ?? "unavailable";
  }

  #enqueue(hash: string): Promise<LookupOutcome> {
    const same = this.#waiting.get(hash);
    if (same !== undefined) return same.promise;
    if (this.#isEnded || this.#waiting.size >= this.#opts.maxWaiting) {
      this.#modules.metrics.count(portalKeyLookupsTotal, { outcome: "full" });
      return Promise.resolve("failed");
    }
    const lookup = Promise.withResolvers<LookupOutcome>();
    this.#waiting.set(hash, lookup);
    void this.#lookUpWaiting();
    return lookup.promise;
  }

  /** One query at a time: keys that come meanwhile wait for the next, so that guessed keys cost at most one query. */
  async #lookUpWaiting(): Promise<void> {
    if (this.#isLookingUp) return;
    this.#isLookingUp = true;
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, MAX_HASHES);
      for (const [hash] of batch) this.#waiting.delete(hash);
      const outcome = await this.#lookUp(batch.map(([hash]) => hash));
      for (const [, { resolve }] of batch) resolve(outcome);
      if (outcome === "done") continue;
      for (const { resolve } of this.#waiting.values()) resolve(outcome);
      this.#waiting.clear();
    }
    this.#isLookingUp = false;
  }

  /** Asks the database for at most {@link MAX_HASHES} hashes. */
  async #lookUp(hashes: readonly string[]): Promise<LookupOutcome> {
    const { clock, log, metrics } = this.#modules;
    const askedMs = clock.monotonicMs();
    try {
      const rows = await findApplications(this.#pool, hashes);
      for (const hash of hashes) this.#remember(hash, rows.get(hash), askedMs);
      if (this.#isFailing) log.info({}, "keys of applications can be looked up again");
      this.#isFailing = false;
      return "done";
    } catch (error) {
      metrics.count(portalKeyLookupsTotal, { outcome: "failed" });
      this.#restsUntilMs = clock.monotonicMs() + REST_MS;
      const fields = { error: error instanceof Error ? error.message : typeof error };
      if (!this.#isFailing) log.warn(fields, "keys of applications cannot be looked up; keyless calls go on");
      this.#isFailing = true;
      return "failed";
    }
  }

  #remember(hash: string, row: ApplicationRow | undefined, askedMs: number): void {
    const { maxKeys, unknownTtlMs } = this.#opts;
    const before = this.#known.get(hash);
    this.#modules.metrics.count(portalKeyLookupsTotal, { outcome: row === undefined ? "unknown" : "found" });
    this.#unknown.delete(hash);
    if (row === undefined) {
      this.#known.delete(hash);
      makeRoom(this.#unknown, maxKeys);
      this.#unknown.set(hash, askedMs + unknownTtlMs);
      return;
    }
    if (before?.application.id === row.id && before.application.accountId === row.accountId) {
      before.application.update(row);
      before.checkedMs = askedMs;
      return;
    }
    this.#known.delete(hash);
    makeRoom(this.#known, maxKeys);
    const application = new LiveApplication(row, this.#shared);
    this.#known.set(hash, { application, bytes: Buffer.from(row.hash, "hex"), checkedMs: askedMs, usedMs: askedMs });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearInterval(this.#timer);
    await this.#ticking;
    await this.#usage.flush();
    await this.#pool.end();
  }
}
