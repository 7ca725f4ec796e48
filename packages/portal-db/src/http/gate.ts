import { type Clock, clientKey, type Metrics } from "@turnpike/base";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import { portalLimitedTotal, portalRefusedTokensTotal } from "../metrics.ts";
import type { TokenVerdict, TokenVerifier } from "../tokens/verifier.ts";
import type { Caller } from "../types.ts";
import { RateLimit } from "./limits.ts";

export interface GateOptions {
  /** Requests a second with one token. */
  readonly perTokenPerSecond: number;
  /** Refused tokens a second from one client: an IPv4 address, or a /64 of IPv6. */
  readonly refusedPerAddressPerSecond: number;
}

/** Who asks. */
export interface Admitted {
  readonly caller: Caller;
  /** What the token's requests are counted under. */
  readonly fingerprint: string;
}

/** Who asks, or why the request is refused. */
export type GateResult =
  | ({ readonly ok: true } & Admitted)
  | { readonly ok: false; readonly error: ErrorBody; readonly headers: Readonly<Record<string, string>> };

/** Bursts are this many seconds of a rate. */
const BURST_SECONDS = 2;

/** Lets callers in by their tokens, within their rates. */
export function createGate(
  opts: GateOptions,
  modules: { readonly clock: Clock; readonly metrics: Metrics; readonly verifier: TokenVerifier },
): (authorization: string | undefined, address: string) => Promise<GateResult> {
  const { clock, metrics, verifier } = modules;
  const limit = (perSecond: number) =>
    new RateLimit({ perSecond, burst: Math.ceil(perSecond * BURST_SECONDS) }, { clock });
  const tokens = limit(opts.perTokenPerSecond);
  const addresses = limit(opts.refusedPerAddressPerSecond);

  const limited = (waitMs: number, which: string): GateResult => {
    metrics.count(portalLimitedTotal, { limit: which });
    return {
      ok: false,
      error: failure(429, "RATE_LIMITED", "Too many requests", null, "Wait as long as Retry-After says"),
      headers: { "retry-after": String(Math.max(1, Math.ceil(waitMs / 1_000))) },
    };
  };

  return async (authorization, address) => {
    let verdict: TokenVerdict;
    try {
      verdict = await verifier.verify(authorization);
    } catch {
      // Whether it was taken back is not known, so it is not taken for good.
      const error = failure(503, "PGRST001", "The database cannot be reached", null, "Try again later");
      return { ok: false, error, headers: {} };
    }
    if (!verdict.ok) {
      // After the signature: one who guesses tokens must not keep others at the same address from using theirs, new or not.
      const refusedMs = addresses.take(clientKey(address));
      if (refusedMs > 0) return limited(refusedMs, "address");
      metrics.count(portalRefusedTokensTotal, { code: verdict.error.code });
      return { ok: false, error: verdict.error, headers: {} };
    }
    const { caller, fingerprint } = verdict;
    const waitMs = tokens.take(fingerprint);
    return waitMs > 0 ? limited(waitMs, "token") : { ok: true, caller, fingerprint };
  };
}
