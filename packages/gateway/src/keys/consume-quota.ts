import { type Clock, clientKey, type ErrorCode, type Metrics, type ServiceId } from "@turnpike/base";
import { SlidingWindow } from "../limits/sliding-window.ts";
import type { RateLimits, RateVerdict } from "../limits/types.ts";
import { keyedTotal, limitedTotal } from "../metrics/gateway-metrics.ts";
import type { Applications, FoundApplication, KeyedApplication, QuotaStanding } from "./types.ts";

/** Calls that are about to be relayed, or events that were sent. */
export interface CallRequest {
  /** As presented; undefined without one. */
  readonly key: string | undefined;
  readonly clientIp: string;
  readonly serviceId: ServiceId;
  /** Calls in the request: 1, or the items of a batch; or events. */
  readonly items: number;
}

/** The answer to a {@link CallRequest}. */
export type CallVerdict =
  | {
      readonly ok: true;
      readonly headers: readonly string[];
      /** Counts the calls as failed. Undefined without an application. */
      readonly failed?: () => void;
    }
  | {
      readonly ok: false;
      readonly code: ErrorCode;
      readonly message?: string | undefined;
      readonly retryAfterSeconds: number | undefined;
      readonly headers: readonly string[];
    };

/** Counts calls against the limits of their client, or of the application whose key they carry. */
export type ConsumeQuota = (request: CallRequest) => CallVerdict | Promise<CallVerdict>;

/** Counts events that a WebSocket was sent; false when what they count against is used, or the key is gone. */
export type ConsumeEvents = (request: CallRequest) => Promise<boolean>;

/**
 * Makes {@link ConsumeEvents}: with a key they count against the quotas of its application, without one against the client's
 * limit. A client does not choose when events come, so that limits of a second do not count them.
 */
export function createConsumeEvents(applications: Applications | undefined): (limits: RateLimits) => ConsumeEvents {
  return (limits) =>
    async ({ key, clientIp, serviceId, items }) => {
      if (key === undefined || applications === undefined) return limits.consumeEvents(clientIp, items);
      const application = await applications.find(key, true);
      if (typeof application === "string") return application !== "unknown";
      const { ok } = application.take(items);
      if (ok) application.served(serviceId, items);
      else application.refused(serviceId, items, false);
      return ok;
    };
}

/** Modules of {@link createConsumeQuota}. */
export interface ConsumeQuotaModules {
  readonly applications: Applications | undefined;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Secret start of hashes. */
  readonly hashSeed: number;
}

/** Unknown keys that one client may present in any minute; more are not looked up. */
const MAX_GUESSES = 60;
const GUESS_WINDOW_MS = 60_000;
const MAX_GUESSERS = 10_000;
const QUOTA_USED = "The application or its account has used the calls of its plan.";
const CHALLENGE = ["WWW-Authenticate", 'ApiKey realm="relay"'];

/** Makes {@link ConsumeQuota} over limits. Without a key, or without applications, it is those limits and nothing else. */
export function createConsumeQuota(modules: ConsumeQuotaModules): (limits: RateLimits) => ConsumeQuota {
  const { applications, clock, metrics } = modules;
  const guesses = new SlidingWindow({
    requests: MAX_GUESSES,
    windowMs: GUESS_WINDOW_MS,
    maxKeys: MAX_GUESSERS,
    hashSeed: modules.hashSeed,
  });
  /** Keys that are being looked up, by client. */
  const lookups = new Map<string, number>();

  const refuse = (code: ErrorCode, change: Partial<Omit<CallVerdict & { ok: false }, "ok" | "code">> = {}) => {
    metrics.count(keyedTotal, { outcome: code });
    return { ok: false, code, retryAfterSeconds: undefined, headers: [], ...change } as const;
  };

  const settle = (
    application: KeyedApplication,
    request: CallRequest,
    verdict: RateVerdict,
    standing: QuotaStanding | undefined,
  ): CallVerdict => {
    const { serviceId, items } = request;
    if (!verdict.ok) {
      application.refused(serviceId, items, true);
      return refuse("RATE_LIMITED", verdict);
    }
    application.served(serviceId, items);
    metrics.count(keyedTotal, { outcome: "ok" });
    const headers = withQuota(verdict.headers, standing);
    return { ok: true, headers, failed: () => application.failed(serviceId, items) };
  };

  const consumeFor = async (
    limits: RateLimits,
    application: KeyedApplication,
    request: CallRequest,
  ): Promise<CallVerdict> => {
    const { serviceId, clientIp, items } = request;
    const { ok, standing } = application.take(items);
    if (!ok) {
      application.refused(serviceId, items, false);
      metrics.count(limitedTotal, { limit: "quota" });
      const headers = withQuota([], standing);
      return refuse("RATE_LIMITED", { message: QUOTA_USED, retryAfterSeconds: standing.resetSeconds, headers });
    }
    const verdict = await limits.take({ clientIp, serviceId, items, application });
    return settle(application, request, verdict, standing);
  };

  /** Counts a look-up that is in flight: keys at once are as many guesses as keys one by one. */
  const lookedUp = async (client: string, finding: Promise<FoundApplication>): Promise<FoundApplication> => {
    lookups.set(client, (lookups.get(client) ?? 0) + 1);
    try {
      return await finding;
    } finally {
      const left = (lookups.get(client) ?? 1) - 1;
      if (left === 0) lookups.delete(client);
      else lookups.set(client, left);
    }
  };

  const consumeKeyed = async (
    limits: RateLimits,
    from: Applications,
    key: string,
    request: CallRequest,
  ): Promise<CallVerdict> => {
    const client = clientKey(request.clientIp);
    const nowMs = clock.monotonicMs();
    const asking = lookups.get(client) ?? 0;
    const finding = from.find(key, guesses.used(client, nowMs) + asking < MAX_GUESSES);
    const found = finding instanceof Promise ? await lookedUp(client, finding) : finding;
    if (typeof found !== "string") return consumeFor(limits, found, request);
    if (found === "unavailable") return refuse("API_KEYS_UNAVAILABLE", { retryAfterSeconds: 1 });
    if (found === "unasked") {
      metrics.count(limitedTotal, { limit: "guesses" });
      return refuse("RATE_LIMITED", { retryAfterSeconds: secondsUp(guesses.waitMs(client, 1, nowMs)) });
    }
    guesses.add(client, 1, nowMs);
    return refuse("API_KEY_UNKNOWN", { headers: CHALLENGE });
  };

  return (limits) => (request) => {
    const { key } = request;
    if (key !== undefined && applications !== undefined) return consumeKeyed(limits, applications, key, request);
    const verdict = limits.take(request);
    return verdict instanceof Promise ? verdict.then(plain) : plain(verdict);
  };
}

function plain(verdict: RateVerdict): CallVerdict {
  return verdict.ok ? verdict : { ...verdict, code: "RATE_LIMITED" };
}

const secondsUp = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

/** Adds a quota to the lists of the limit's headers. */
function withQuota(headers: readonly string[], standing: QuotaStanding | undefined): readonly string[] {
  if (standing === undefined) return headers;
  const { limit, used, windowSeconds, resetSeconds } = standing;
  const own: Readonly<Record<string, string>> = {
    "RateLimit-Policy": `"quota";q=${limit};w=${windowSeconds}`,
    RateLimit: `"quota";r=${Math.max(0, limit - used)};t=${resetSeconds}`,
  };
  const joined: string[] = [];
  for (const [name, value] of Object.entries(own)) {
    const at = headers.indexOf(name);
    joined.push(name, at === -1 ? value : `${headers[at + 1]}, ${value}`);
  }
  return joined;
}
