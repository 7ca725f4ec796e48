import type { ServiceId } from "@turnpike/base";

/** What the free relay's door asks of its limits before it relays. */
export interface RateRequest {
  /** Address of the client, as the trusted proxies say. */
  readonly clientIp: string;
  readonly serviceId: ServiceId;
  /** Calls in the request: 1, or the items of a batch. */
  readonly items: number;
}

/** The answer of {@link RateLimits}. `headers` are flat names and values for the response, whatever it becomes. */
export type RateVerdict =
  | { readonly ok: true; readonly headers: readonly string[] }
  | { readonly ok: false; readonly retryAfterSeconds: number; readonly headers: readonly string[] };

/** Limits of the free relay (spec §8). */
export interface RateLimits {
  take(request: RateRequest): Promise<RateVerdict> | RateVerdict;
}

const UNLIMITED: RateVerdict = { ok: true, headers: [] };

/** Limits that refuse nothing. */
export const noRateLimits: RateLimits = { take: () => UNLIMITED };
