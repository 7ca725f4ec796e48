import type { ServiceId } from "@turnpike/base";

/** What the free relay asks of its limits before it relays. */
export interface RateRequest {
  /** Address of the client, as the trusted proxies say. */
  readonly clientIp: string;
  readonly serviceId: ServiceId;
  /** Calls in the request: 1, or the items of a batch. */
  readonly items: number;
  /** Its limits take the place of the client's. Undefined without a key. */
  readonly application?: LimitedApplication;
}

/** An application as the limits see it. */
export interface LimitedApplication {
  readonly id: string;
  readonly accountId: string;
  /** Calls in any second; undefined for no limit. */
  readonly perSecond: number | undefined;
  /** Calls in any second of all applications of the account; undefined for no limit. */
  readonly accountPerSecond: number | undefined;
}

/** The answer of {@link RateLimits}. `headers` are flat names and values for the response, whatever it becomes. */
export type RateVerdict =
  | { readonly ok: true; readonly headers: readonly string[] }
  | { readonly ok: false; readonly retryAfterSeconds: number; readonly headers: readonly string[] };

/** Limits of the free relay (spec §8). */
export interface RateLimits {
  consume(request: RateRequest): Promise<RateVerdict> | RateVerdict;
  /**
   * Counts events that a client was sent without a key against the client's limit alone, which is used up by them when they
   * go beyond it; then false.
   */
  consumeEvents(clientIp: string, events: number): Promise<boolean> | boolean;
}

const UNLIMITED: RateVerdict = { ok: true, headers: [] };

/** Limits that refuse nothing. */
export const noRateLimits: RateLimits = { consume: () => UNLIMITED, consumeEvents: () => true };

/** One limit of a request, as the store counts it. */
export interface StoreLimit {
  readonly key: string;
  readonly requests: number;
  readonly windowMs: number;
}

/** The store's verdict on a request. */
export interface StoreVerdict {
  /** Place of the limit that refuses; -1 when all of them took the items. */
  readonly refusedBy: number;
  /** Time until it would fit, with `refusedBy`. */
  readonly waitMs: number;
  /** For each limit: items before this request, and the time until the oldest leaves. */
  readonly standings: readonly { readonly used: number; readonly oldestLeavesMs: number }[];
}

/** Counts that several processes share. */
export interface LimitStore extends AsyncDisposable {
  /** False while it does not answer: then nothing is asked of it, so that it costs no time. */
  isUp(): boolean;
  /** Counts the items in all limits or in none; undefined when the store failed. Never rejects. */
  consume(limits: readonly StoreLimit[], items: number): Promise<StoreVerdict | undefined>;
}
