import type { Clock, Metrics } from "@turnpike/base";
import { limitedTotal } from "../metrics.ts";
import { clientKey } from "./client-key.ts";
import { createRefusals } from "./refusals.ts";
import { createSlidingWindow, type SlidingWindow } from "./sliding-window.ts";
import type { LimitStore, StoreVerdict } from "./store.ts";
import type { RateLimits, RateRequest, RateVerdict } from "./types.ts";

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

/** Options of {@link createRateLimits}. */
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

/** What {@link createRateLimits} works with. It does not own the store. */
export interface RateLimitsModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Undefined: each process counts for itself. */
  readonly store: LimitStore | undefined;
}

interface Limit extends LimitRule {
  readonly name: "client" | "endpoint";
  readonly windowMs: number;
  /** What this process has served; undefined where nobody would look at it. */
  readonly window: SlidingWindow | undefined;
}

const MAX_SERVICES = 10_000;
const CLOSED_WAIT_MS = 1_000;

/**
 * The limits of the free relay (spec §8). A request is counted in both limits, or refused and counted in none.
 *
 * With a store the store decides; what it served is counted here too, so that the counts go on when it fails (`local`),
 * and what it refused is remembered until it may fit, so that a flood of refused requests does not reach it.
 */
export function createRateLimits(opts: RateLimitsOptions, modules: RateLimitsModules): RateLimits {
  const { clock, metrics, store } = modules;
  const limitOf = (name: Limit["name"], rule: LimitRule, maxKeys: number): Limit => {
    const windowMs = rule.windowSeconds * 1_000;
    const counts = store === undefined || rule.onStoreFailure === "local";
    const window = { requests: rule.requests, windowMs, maxKeys, hashSeed: opts.hashSeed };
    return { ...rule, name, windowMs, window: counts ? createSlidingWindow(window) : undefined };
  };
  const client = limitOf("client", opts.perClient, opts.maxClients);
  const endpoint = limitOf("endpoint", opts.perEndpoint, MAX_SERVICES);
  const limits = [client, endpoint] as const;
  const refusals = createRefusals();
  const policy = limits
    .map(({ name, requests, windowSeconds }) => `"${name}";q=${requests};w=${windowSeconds}`)
    .join(", ");

  const standing = (limit: Limit, used: number, resetMs: number): string =>
    `"${limit.name}";r=${Math.max(0, limit.requests - used)};t=${secondsOf(limit, resetMs)}`;

  const served = (used: number, resetMs: number): RateVerdict => ({
    ok: true,
    headers: ["RateLimit-Policy", policy, "RateLimit", standing(client, used, resetMs)],
  });

  const refused = (limit: Limit, used: number, waitMs: number): RateVerdict => {
    metrics.count(limitedTotal, { limit: limit.name });
    return {
      ok: false,
      retryAfterSeconds: secondsOf(limit, waitMs),
      headers: ["RateLimit-Policy", policy, "RateLimit", standing(limit, used, waitMs)],
    };
  };

  /** What this process' own counts say; undefined when they refuse nothing. */
  const refusedHere = (keys: readonly string[], items: number, nowMs: number): RateVerdict | undefined => {
    for (const [at, limit] of limits.entries()) {
      const key = keys[at] ?? "";
      const used = limit.window?.used(key, nowMs) ?? 0;
      if (limit.window !== undefined && used + items > limit.requests) {
        return refused(limit, used, limit.window.waitMs(key, items, nowMs));
      }
    }
    return undefined;
  };

  const count = (keys: readonly string[], items: number, nowMs: number): void => {
    for (const [at, limit] of limits.entries()) limit.window?.add(keys[at] ?? "", items, nowMs);
  };

  const takeHere = (keys: readonly string[], items: number): RateVerdict => {
    const nowMs = clock.monotonicMs();
    const closed = store === undefined ? undefined : limits.find((limit) => limit.onStoreFailure === "closed");
    if (closed !== undefined) return refused(closed, closed.requests, CLOSED_WAIT_MS);
    const no = refusedHere(keys, items, nowMs);
    if (no !== undefined) return no;
    count(keys, items, nowMs);
    const key = keys[0] ?? "";
    const used = client.window?.used(key, nowMs) ?? 0;
    return served(used, client.window?.oldestLeavesMs(key, nowMs) ?? client.windowMs);
  };

  const settle = (verdict: StoreVerdict, keys: readonly string[], items: number, sentMs: number): RateVerdict => {
    const by = limits[verdict.refusedBy];
    if (by === undefined) {
      count(keys, items, sentMs);
      const [own] = verdict.standings;
      const isFirst = own === undefined || own.used === 0;
      return served((own?.used ?? 0) + items, isFirst ? client.windowMs : own.oldestLeavesMs);
    }
    const used = verdict.standings[verdict.refusedBy]?.used ?? by.requests;
    refusals.remember(keys[verdict.refusedBy] ?? "", { items, used, untilMs: sentMs + verdict.waitMs });
    return refused(by, used, verdict.waitMs);
  };

  const takeShared = async (from: LimitStore, keys: readonly string[], items: number): Promise<RateVerdict> => {
    const sentMs = clock.monotonicMs();
    for (const [at, limit] of limits.entries()) {
      const known = refusals.find(keys[at] ?? "", items, sentMs);
      if (known !== undefined) return refused(limit, known.used, known.untilMs - sentMs);
    }
    // Never stricter than the store: a request is counted here as of before it was counted there.
    const no = refusedHere(keys, items, sentMs);
    if (no !== undefined) return no;
    const asked = limits.map(({ requests, windowMs }, at) => ({ key: keys[at] ?? "", requests, windowMs }));
    const verdict = await from.take(asked, items);
    return verdict === undefined ? takeHere(keys, items) : settle(verdict, keys, items, sentMs);
  };

  return {
    take({ clientIp, serviceId, items }: RateRequest) {
      const keys = [`c:${clientKey(clientIp)}`, `s:${serviceId}`];
      return store?.isUp() === true ? takeShared(store, keys, items) : takeHere(keys, items);
    },
  };
}

/** Whole seconds, at least one. The last millisecond, which may be counted too much, makes no second of its own. */
function secondsOf({ windowSeconds }: Limit, ms: number): number {
  return Math.min(windowSeconds, Math.max(1, Math.ceil(ms / 1_000)));
}
