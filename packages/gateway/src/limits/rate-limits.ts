import { type Clock, clientKey, type Metrics } from "@turnpike/base";
import { gatewayLimitedTotal } from "../metrics/gateway-metrics.ts";
import { SlidingWindow } from "./sliding-window.ts";
import type { LimitStore, RateLimits, RateRequest, RateVerdict, StoreVerdict } from "./types.ts";

/**
 * What a limit does while the shared store does not answer: `local` counts in this process, `open` refuses nothing,
 * `closed` refuses everything.
 */
export type OnStoreFailure = "local" | "open" | "closed";

/** One limit: at most `requests` in any `windowSeconds`. */
export interface LimitRule {
  readonly requests: number;
  readonly windowSeconds: number;
  readonly onStoreFailure: OnStoreFailure;
}

/** The configured limits; those of applications come with each request. */
export interface RateLimitsOptions {
  /** For each client, over all services. */
  readonly perClient: LimitRule;
  /** For each service, over all clients. */
  readonly perEndpoint: LimitRule;
  /** Most clients that this process counts one by one. */
  readonly maxClients: number;
  /** Secret start of hashes. */
  readonly hashSeed: number;
}

interface RateLimitsModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Undefined: each process counts for itself. Its owner disposes of it. */
  readonly store: LimitStore | undefined;
}

interface Limit extends LimitRule {
  readonly name: "client" | "endpoint" | "application" | "account";
  readonly windowMs: number;
  /** What this process has served; undefined where only the store counts. */
  readonly window: SlidingWindow | undefined;
}

/** A limit as it applies to one request. */
interface AppliedLimit {
  readonly limit: Limit;
  readonly key: string;
  /** Most items in its window. */
  readonly requests: number;
}

/** Of applications; how many requests is their own. */
const EACH_SECOND: LimitRule = { requests: 0, windowSeconds: 1, onStoreFailure: "local" };
const MAX_SERVICES = 10_000;
const CLOSED_WAIT_MS = 1_000;
const MAX_REFUSALS = 10_000;
const UNLIMITED: RateVerdict = { ok: true, headers: [] };

/**
 * The limits of the free relay (spec §8). A request is counted in all of its limits, or refused and counted in none.
 *
 * With a store the store decides; what it served is counted here too, so that the counts go on when it fails (`local`),
 * and what it refused is remembered until it may fit, so that a flood of refused requests does not reach it.
 */
export class FreeRateLimits implements RateLimits {
  readonly #modules: RateLimitsModules;
  readonly #client: Limit;
  readonly #endpoint: Limit;
  readonly #application: Limit;
  readonly #account: Limit;
  /** The `RateLimit-Policy` of requests without a key, which are most. */
  readonly #keylessPolicy: string;
  readonly #refusals = new StoreRefusals();

  constructor(opts: RateLimitsOptions, modules: RateLimitsModules) {
    this.#modules = modules;
    const limitOf = (name: Limit["name"], rule: LimitRule, maxKeys: number): Limit => {
      const windowMs = rule.windowSeconds * 1_000;
      const isLocal = modules.store === undefined || rule.onStoreFailure === "local";
      const window = { requests: rule.requests, windowMs, maxKeys, hashSeed: opts.hashSeed };
      return { ...rule, name, windowMs, window: isLocal ? new SlidingWindow(window) : undefined };
    };
    this.#client = limitOf("client", opts.perClient, opts.maxClients);
    this.#endpoint = limitOf("endpoint", opts.perEndpoint, MAX_SERVICES);
    this.#application = limitOf("application", EACH_SECOND, opts.maxClients);
    this.#account = limitOf("account", EACH_SECOND, opts.maxClients);
    const keyless = [this.#client, this.#endpoint];
    this.#keylessPolicy = policyOf(keyless.map((limit) => ({ limit, key: "", requests: limit.requests })));
  }

  consume(request: RateRequest): Promise<RateVerdict> | RateVerdict {
    const { store } = this.#modules;
    const applied = this.#limitsOf(request);
    const { items } = request;
    // The store counts no limit of 0.
    const never = applied.find(({ requests }) => requests <= 0);
    if (never !== undefined) return this.#refused(applied, never, 0, never.limit.windowMs);
    return store?.isUp() === true ? this.#takeShared(store, applied, items) : this.#takeLocally(applied, items);
  }

  consumeEvents(clientIp: string, events: number): Promise<boolean> | boolean {
    const { store } = this.#modules;
    const applied = this.#clientLimitOf(clientIp);
    if (applied.requests <= 0) return this.#eventsAreWithin(false);
    if (store?.isUp() !== true) return this.#eventsAreWithin(this.#countEventsLocally(applied, events));
    return this.#countEventsShared(store, applied, events).then((areWithin) => this.#eventsAreWithin(areWithin));
  }

  /** The first limit is the client's or its application's own, and the last one the endpoint's. */
  #limitsOf({ clientIp, serviceId, application: by }: RateRequest): readonly AppliedLimit[] {
    const total = { limit: this.#endpoint, key: `s:${serviceId}`, requests: this.#endpoint.requests };
    if (by === undefined) return [this.#clientLimitOf(clientIp), total];
    const applied: AppliedLimit[] = [];
    const { id, accountId, perSecond, accountPerSecond } = by;
    if (perSecond !== undefined) applied.push({ limit: this.#application, key: `a:${id}`, requests: perSecond });
    if (accountPerSecond !== undefined) {
      applied.push({ limit: this.#account, key: `o:${accountId}`, requests: accountPerSecond });
    }
    return [...applied, total];
  }

  #clientLimitOf(clientIp: string): AppliedLimit {
    return { limit: this.#client, key: `c:${clientKey(clientIp)}`, requests: this.#client.requests };
  }

  #takeLocally(applied: readonly AppliedLimit[], items: number): RateVerdict {
    const { clock, store } = this.#modules;
    const nowMs = clock.monotonicMs();
    const closed = store === undefined ? undefined : applied.find(({ limit }) => limit.onStoreFailure === "closed");
    if (closed !== undefined) return this.#refused(applied, closed, closed.requests, CLOSED_WAIT_MS);
    const refusal = this.#refusedLocally(applied, items, nowMs);
    if (refusal !== undefined) return refusal;
    count(applied, items, nowMs);
    const [own] = applied;
    if (own === undefined) return UNLIMITED;
    const { window, windowMs } = own.limit;
    const used = window?.used(own.key, nowMs) ?? 0;
    const resetMs = window?.oldestLeavesMs(own.key, nowMs) ?? windowMs;
    return { ok: true, headers: this.#headers(applied, own, used, resetMs) };
  }

  async #takeShared(store: LimitStore, applied: readonly AppliedLimit[], items: number): Promise<RateVerdict> {
    const sentMs = this.#modules.clock.monotonicMs();
    for (const one of applied) {
      const known = this.#refusals.find(one.key, items, sentMs);
      if (known !== undefined) return this.#refused(applied, one, known.used, known.untilMs - sentMs);
    }
    // Never stricter than the store: a request is counted here as of before it was counted there.
    const refusal = this.#refusedLocally(applied, items, sentMs);
    if (refusal !== undefined) return refusal;
    const limits = applied.map(({ limit: { windowMs }, key, requests }) => ({ key, requests, windowMs }));
    const verdict = await store.consume(limits, items);
    return verdict === undefined
      ? this.#takeLocally(applied, items)
      : this.#onStoreVerdict(verdict, applied, items, sentMs);
  }

  #onStoreVerdict(verdict: StoreVerdict, applied: readonly AppliedLimit[], items: number, sentMs: number): RateVerdict {
    const by = applied[verdict.refusedBy];
    if (by === undefined) {
      count(applied, items, sentMs);
      const [own] = applied;
      if (own === undefined) return UNLIMITED;
      const [before] = verdict.standings;
      const isFirst = before === undefined || before.used === 0;
      const resetMs = isFirst ? own.limit.windowMs : before.oldestLeavesMs;
      return { ok: true, headers: this.#headers(applied, own, (before?.used ?? 0) + items, resetMs) };
    }
    const used = verdict.standings[verdict.refusedBy]?.used ?? by.requests;
    this.#refusals.set(by.key, { items, used, untilMs: sentMs + verdict.waitMs });
    return this.#refused(applied, by, used, verdict.waitMs);
  }

  /** The refusal by this process' own counts; undefined when they refuse nothing. */
  #refusedLocally(applied: readonly AppliedLimit[], items: number, nowMs: number): RateVerdict | undefined {
    for (const one of applied) {
      const { limit, key, requests } = one;
      const used = limit.window?.used(key, nowMs) ?? 0;
      if (limit.window !== undefined && used + items > requests) {
        return this.#refused(applied, one, used, limit.window.waitMs(key, items, nowMs, requests));
      }
    }
    return undefined;
  }

  #refused(applied: readonly AppliedLimit[], by: AppliedLimit, used: number, waitMs: number): RateVerdict {
    this.#modules.metrics.count(gatewayLimitedTotal, { limit: by.limit.name });
    const retryAfterSeconds = secondsOf(by.limit, waitMs);
    return { ok: false, retryAfterSeconds, headers: this.#headers(applied, by, used, waitMs) };
  }

  #headers(
    applied: readonly AppliedLimit[],
    { limit, requests }: AppliedLimit,
    used: number,
    resetMs: number,
  ): readonly string[] {
    const policy = applied[0]?.limit === this.#client ? this.#keylessPolicy : policyOf(applied);
    const standing = `"${limit.name}";r=${Math.max(0, requests - used)};t=${secondsOf(limit, resetMs)}`;
    return ["RateLimit-Policy", policy, "RateLimit", standing];
  }

  /** All of them are counted: they were sent. */
  #countEventsLocally(applied: AppliedLimit, events: number): boolean {
    const { clock, store } = this.#modules;
    const nowMs = clock.monotonicMs();
    if (store !== undefined && this.#client.onStoreFailure === "closed") return false;
    count([applied], events, nowMs);
    return (this.#client.window?.used(applied.key, nowMs) ?? 0) <= applied.requests;
  }

  async #countEventsShared(store: LimitStore, applied: AppliedLimit, events: number): Promise<boolean> {
    const sentMs = this.#modules.clock.monotonicMs();
    const limits = [{ key: applied.key, requests: applied.requests, windowMs: this.#client.windowMs }];
    const verdict = await store.consume(limits, events);
    if (verdict === undefined) return this.#countEventsLocally(applied, events);
    if (verdict.refusedBy === -1) {
      count([applied], events, sentMs);
      return true;
    }
    // The store counts nothing that goes beyond a limit.
    const left = applied.requests - (verdict.standings[0]?.used ?? applied.requests);
    if (left > 0 && (await store.consume(limits, left))?.refusedBy === -1) count([applied], left, sentMs);
    return false;
  }

  #eventsAreWithin(areWithin: boolean): boolean {
    if (!areWithin) this.#modules.metrics.count(gatewayLimitedTotal, { limit: "client" });
    return areWithin;
  }
}

/** A refusal of the store. */
interface Refusal {
  readonly items: number;
  /** Items that counted then. */
  readonly used: number;
  /** Monotonic milliseconds until which at least as many items cannot fit. */
  readonly untilMs: number;
}

/**
 * What the store has refused recently. Room in a window comes only from items that leave it, so what is refused until a
 * time stays refused until then. To evict one costs a question to the store and nothing else: the oldest are evicted beyond
 * 10,000.
 */
class StoreRefusals {
  readonly #byKey = new Map<string, Refusal>();

  set(key: string, refusal: Refusal): void {
    this.#byKey.delete(key);
    this.#byKey.set(key, refusal);
    if (this.#byKey.size <= MAX_REFUSALS) return;
    const [oldest] = this.#byKey.keys();
    if (oldest !== undefined) this.#byKey.delete(oldest);
  }

  /** The refusal that holds for this many items too; undefined when the store must be asked. */
  find(key: string, items: number, nowMs: number): Refusal | undefined {
    const refusal = this.#byKey.get(key);
    if (refusal === undefined) return undefined;
    if (refusal.untilMs > nowMs) return items >= refusal.items ? refusal : undefined;
    this.#byKey.delete(key);
    return undefined;
  }
}

function count(applied: readonly AppliedLimit[], items: number, nowMs: number): void {
  for (const { limit, key } of applied) limit.window?.add(key, items, nowMs);
}

function policyOf(applied: readonly AppliedLimit[]): string {
  return applied.map(({ limit, requests }) => `"${limit.name}";q=${requests};w=${limit.windowSeconds}`).join(", ");
}

/** Whole seconds, at least one. The last millisecond, which may be counted too much, makes no second of its own. */
function secondsOf({ windowSeconds }: Limit, ms: number): number {
  return Math.min(windowSeconds, Math.max(1, Math.ceil(ms / 1_000)));
}
