import { type Clock, clientKey, type Metrics } from "@turnpike/base";
import { limitedTotal } from "../metrics/gateway-metrics.ts";
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
  readonly name: "client" | "endpoint" | "application" | "account";
  readonly windowMs: number;
  /** What this process has served; undefined where nobody would look at it. */
  readonly window: SlidingWindow | undefined;
}

/** A limit as one request meets it. */
interface Asked {
  readonly limit: Limit;
  readonly key: string;
  /** Most items in its window. */
  readonly requests: number;
}

/** Of applications; how many requests is their own. */
const EACH_SECOND: LimitRule = { requests: 0, windowSeconds: 1, onStoreFailure: "local" };
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
  const application = limitOf("application", EACH_SECOND, opts.maxClients);
  const account = limitOf("account", EACH_SECOND, opts.maxClients);
  const refusals = createRefusals();
  const policyOf = (asked: readonly Asked[]): string =>
    asked.map(({ limit, requests }) => `"${limit.name}";q=${requests};w=${limit.windowSeconds}`).join(", ");
  const keyless = policyOf([client, endpoint].map((limit) => ({ limit, key: "", requests: limit.requests })));

  /** The first limit is the client's or its application's own, and the last one the endpoint's. */
  const headers = (asked: readonly Asked[], about: Asked, used: number, resetMs: number): readonly string[] => {
    const { limit, requests } = about;
    const policy = asked[0]?.limit === client ? keyless : policyOf(asked);
    const standing = `"${limit.name}";r=${Math.max(0, requests - used)};t=${secondsOf(limit, resetMs)}`;
    return ["RateLimit-Policy", policy, "RateLimit", standing];
  };

  const refused = (asked: readonly Asked[], by: Asked, used: number, waitMs: number): RateVerdict => {
    metrics.count(limitedTotal, { limit: by.limit.name });
    const retryAfterSeconds = secondsOf(by.limit, waitMs);
    return { ok: false, retryAfterSeconds, headers: headers(asked, by, used, waitMs) };
  };

  /** What this process' own counts say; undefined when they refuse nothing. */
  const refusedHere = (asked: readonly Asked[], items: number, nowMs: number): RateVerdict | undefined => {
    for (const one of asked) {
      const { limit, key, requests } = one;
      const used = limit.window?.used(key, nowMs) ?? 0;
      if (limit.window !== undefined && used + items > requests) {
        return refused(asked, one, used, limit.window.waitMs(key, items, nowMs, requests));
      }
    }
    return undefined;
  };

  const count = (asked: readonly Asked[], items: number, nowMs: number): void => {
    for (const { limit, key } of asked) limit.window?.add(key, items, nowMs);
  };

  const takeHere = (asked: readonly Asked[], items: number): RateVerdict => {
    const nowMs = clock.monotonicMs();
    const closed = store === undefined ? undefined : asked.find(({ limit }) => limit.onStoreFailure === "closed");
    if (closed !== undefined) return refused(asked, closed, closed.requests, CLOSED_WAIT_MS);
    const no = refusedHere(asked, items, nowMs);
    if (no !== undefined) return no;
    count(asked, items, nowMs);
    const [own] = asked;
    if (own === undefined) return UNLIMITED;
    const { window, windowMs } = own.limit;
    const used = window?.used(own.key, nowMs) ?? 0;
    return { ok: true, headers: headers(asked, own, used, window?.oldestLeavesMs(own.key, nowMs) ?? windowMs) };
  };

  const settle = (verdict: StoreVerdict, asked: readonly Asked[], items: number, sentMs: number): RateVerdict => {
    const by = asked[verdict.refusedBy];
    if (by === undefined) {
      count(asked, items, sentMs);
      const [own] = asked;
      if (own === undefined) return UNLIMITED;
      const [before] = verdict.standings;
      const isFirst = before === undefined || before.used === 0;
      const resetMs = isFirst ? own.limit.windowMs : before.oldestLeavesMs;
      return { ok: true, headers: headers(asked, own, (before?.used ?? 0) + items, resetMs) };
    }
    const used = verdict.standings[verdict.refusedBy]?.used ?? by.requests;
    refusals.remember(by.key, { items, used, untilMs: sentMs + verdict.waitMs });
    return refused(asked, by, used, verdict.waitMs);
  };

  const takeShared = async (from: LimitStore, asked: readonly Asked[], items: number): Promise<RateVerdict> => {
    const sentMs = clock.monotonicMs();
    for (const one of asked) {
      const known = refusals.find(one.key, items, sentMs);
      if (known !== undefined) return refused(asked, one, known.used, known.untilMs - sentMs);
    }
    // Never stricter than the store: a request is counted here as of before it was counted there.
    const no = refusedHere(asked, items, sentMs);
    if (no !== undefined) return no;
    const limits = asked.map(({ limit: { windowMs }, key, requests }) => ({ key, requests, windowMs }));
    const verdict = await from.take(limits, items);
    return verdict === undefined ? takeHere(asked, items) : settle(verdict, asked, items, sentMs);
  };

  const clientAsked = (clientIp: string): Asked => ({
    limit: client,
    key: `c:${clientKey(clientIp)}`,
    requests: client.requests,
  });

  /** All of them are counted: they were sent. */
  const eventsHere = (of: Asked, events: number): boolean => {
    const nowMs = clock.monotonicMs();
    if (store !== undefined && client.onStoreFailure === "closed") return false;
    count([of], events, nowMs);
    return (client.window?.used(of.key, nowMs) ?? 0) <= of.requests;
  };

  const eventsShared = async (from: LimitStore, of: Asked, events: number): Promise<boolean> => {
    const sentMs = clock.monotonicMs();
    const limits = [{ key: of.key, requests: of.requests, windowMs: client.windowMs }];
    const verdict = await from.take(limits, events);
    if (verdict === undefined) return eventsHere(of, events);
    if (verdict.refusedBy === -1) {
      count([of], events, sentMs);
      return true;
    }
    // The store counts nothing that goes beyond a limit.
    const left = of.requests - (verdict.standings[0]?.used ?? of.requests);
    if (left > 0 && (await from.take(limits, left))?.refusedBy === -1) count([of], left, sentMs);
    return false;
  };

  const refuseEvents = (areWithin: boolean): boolean => {
    if (!areWithin) metrics.count(limitedTotal, { limit: client.name });
    return areWithin;
  };

  const askedFor = ({ clientIp, serviceId, application: by }: RateRequest): readonly Asked[] => {
    const total = { limit: endpoint, key: `s:${serviceId}`, requests: endpoint.requests };
    if (by === undefined) return [clientAsked(clientIp), total];
    const asked: Asked[] = [];
    const { id, accountId, perSecond, accountPerSecond } = by;
    if (perSecond !== undefined) asked.push({ limit: application, key: `a:${id}`, requests: perSecond });
    if (accountPerSecond !== undefined)
      asked.push({ limit: account, key: `o:${accountId}`, requests: accountPerSecond });
    return [...asked, total];
  };

  return {
    take(request: RateRequest) {
      const asked = askedFor(request);
      const { items } = request;
      // The store counts no limit of 0.
      const never = asked.find(({ requests }) => requests <= 0);
      if (never !== undefined) return refused(asked, never, 0, never.limit.windowMs);
      return store?.isUp() === true ? takeShared(store, asked, items) : takeHere(asked, items);
    },
    consumeEvents(clientIp, events) {
      const of = clientAsked(clientIp);
      if (of.requests <= 0) return refuseEvents(false);
      if (store?.isUp() !== true) return refuseEvents(eventsHere(of, events));
      return eventsShared(store, of, events).then(refuseEvents);
    },
  };
}

const UNLIMITED: RateVerdict = { ok: true, headers: [] };

/** Whole seconds, at least one. The last millisecond, which may be counted too much, makes no second of its own. */
function secondsOf({ windowSeconds }: Limit, ms: number): number {
  return Math.min(windowSeconds, Math.max(1, Math.ceil(ms / 1_000)));
}
