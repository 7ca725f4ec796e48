import { type Clock, clientKey, type ErrorCode, type Metrics, type ServiceId } from "@turnpike/base";
import { SlidingWindow } from "../limits/sliding-window.ts";
import type { RateLimits, RateVerdict } from "../limits/types.ts";
import { gatewayKeyedTotal, gatewayLimitedTotal } from "../metrics/gateway-metrics.ts";
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

/** {@link CallQuotas.consume} against the limits in effect. */
export type ConsumeQuota = (request: CallRequest) => CallVerdict | Promise<CallVerdict>;

/** {@link CallQuotas.consumeEvents} against the limits in effect. */
export type ConsumeEvents = (request: CallRequest) => Promise<boolean>;

interface CallQuotasModules {
  /** Undefined: keys are ignored. */
  readonly applications: Applications | undefined;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** Unknown keys that one client may present in any minute; more are not looked up. */
const MAX_GUESSES = 60;
const GUESS_WINDOW_MS = 60_000;
const MAX_GUESSERS = 10_000;
const QUOTA_USED = "The application or its account has used the calls of its plan.";
const CHALLENGE = ["WWW-Authenticate", 'ApiKey realm="relay"'];

/**
 * Counts calls and events against quotas of applications, by the keys that they carry, and against rate limits. Without a key,
 * or without applications, the rate limits alone count.
 */
export class CallQuotas {
  readonly #modules: CallQuotasModules;
  readonly #guesses: SlidingWindow;
  /** Keys that are being looked up, by client. */
  readonly #lookups = new Map<string, number>();

  /** `hashSeed`: secret start of hashes. */
  constructor(opts: { readonly hashSeed: number }, modules: CallQuotasModules) {
    this.#modules = modules;
    const { hashSeed } = opts;
    const window = { requests: MAX_GUESSES, windowMs: GUESS_WINDOW_MS, maxKeys: MAX_GUESSERS, hashSeed };
    this.#guesses = new SlidingWindow(window);
  }

  /** Counts calls that are about to be relayed, or refuses them. */
  consume(limits: RateLimits, request: CallRequest): CallVerdict | Promise<CallVerdict> {
    const { applications } = this.#modules;
    const { key } = request;
    if (key !== undefined && applications !== undefined) return this.#consumeKeyed(limits, applications, key, request);
    const verdict = limits.consume(request);
    return verdict instanceof Promise ? verdict.then(plain) : plain(verdict);
  }

  /**
   * Counts events that a WebSocket was sent: with a key against the quotas of its application, without one against the
   * client's limit. A client does not choose when events come, so that limits of a second do not count them. False when the
   * quota or limit is used up, or the key is deleted.
   */
  async consumeEvents(limits: RateLimits, { key, clientIp, serviceId, items }: CallRequest): Promise<boolean> {
    const { applications } = this.#modules;
    if (key === undefined || applications === undefined) return limits.consumeEvents(clientIp, items);
    const application = await applications.find(key, true);
    if (typeof application === "string") return application !== "unknown";
    const { ok } = application.consume(items);
    if (ok) application.served(serviceId, items);
    else application.refused(serviceId, items, false);
    return ok;
  }

  async #consumeKeyed(
    limits: RateLimits,
    applications: Applications,
    key: string,
    request: CallRequest,
  ): Promise<CallVerdict> {
    const { clock, metrics } = this.#modules;
    const client = clientKey(request.clientIp);
    const nowMs = clock.monotonicMs();
    const guesses = this.#guesses.used(client, nowMs) + (this.#lookups.get(client) ?? 0);
    const finding = applications.find(key, guesses < MAX_GUESSES);
    const found = finding instanceof Promise ? await this.#countLookup(client, finding) : finding;
    if (typeof found !== "string") return this.#consumeFor(limits, found, request);
    if (found === "unavailable") return this.#refuse("API_KEYS_UNAVAILABLE", { retryAfterSeconds: 1 });
    if (found === "unasked") {
      metrics.count(gatewayLimitedTotal, { limit: "guesses" });
      return this.#refuse("RATE_LIMITED", { retryAfterSeconds: secondsUp(this.#guesses.waitMs(client, 1, nowMs)) });
    }
    this.#guesses.add(client, 1, nowMs);
    return this.#refuse("API_KEY_UNKNOWN", { headers: CHALLENGE });
  }

  /** Counts a look-up while it is in flight: keys at once are as many guesses as keys one by one. */
  async #countLookup(client: string, finding: Promise<FoundApplication>): Promise<FoundApplication> {
    this.#lookups.set(client, (this.#lookups.get(client) ?? 0) + 1);
    try {
      return await finding;
    } finally {
      const left = (this.#lookups.get(client) ?? 1) - 1;
      if (left === 0) this.#lookups.delete(client);
      else this.#lookups.set(client, left);
    }
  }

  /** Counts calls against the quota first, and returns them to it when the rate limits refuse them. */
  async #consumeFor(limits: RateLimits, application: KeyedApplication, request: CallRequest): Promise<CallVerdict> {
    const { metrics } = this.#modules;
    const { serviceId, clientIp, items } = request;
    const { ok, standing } = application.consume(items);
    if (!ok) {
      application.refused(serviceId, items, false);
      metrics.count(gatewayLimitedTotal, { limit: "quota" });
      const headers = withQuota([], standing);
      return this.#refuse("RATE_LIMITED", { message: QUOTA_USED, retryAfterSeconds: standing.resetSeconds, headers });
    }
    const verdict = await limits.consume({ clientIp, serviceId, items, application });
    if (!verdict.ok) {
      application.refused(serviceId, items, true);
      return this.#refuse("RATE_LIMITED", verdict);
    }
    application.served(serviceId, items);
    metrics.count(gatewayKeyedTotal, { outcome: "ok" });
    const headers = withQuota(verdict.headers, standing);
    return { ok: true, headers, failed: () => application.failed(serviceId, items) };
  }

  #refuse(code: ErrorCode, change: Partial<Omit<CallVerdict & { ok: false }, "ok" | "code">>): CallVerdict {
    this.#modules.metrics.count(gatewayKeyedTotal, { outcome: code });
    return { ok: false, code, retryAfterSeconds: undefined, headers: [], ...change };
  }
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
