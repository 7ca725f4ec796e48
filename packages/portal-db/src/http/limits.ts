import type { Clock } from "@turnpike/base";

export interface RateLimitOptions {
  /** Requests of one key a second, over time. */
  readonly perSecond: number;
  /** Requests of one key at once. */
  readonly burst: number;
  /** Keys that are counted one by one; beyond that the one unseen for longest is evicted. 10,000 by default. */
  readonly maxKeys?: number;
}

/** Counts requests by key. */
export interface RateLimit {
  /** Counts one. Gives 0 when it fits, else the milliseconds until one would. */
  take(key: string): number;
}

/** A limit by the generic cell rate algorithm (ITU-T I.371): for each key the time at which its bucket is empty again. */
export function createRateLimit(opts: RateLimitOptions, modules: { readonly clock: Clock }): RateLimit {
  const { perSecond, burst } = opts;
  const maxKeys = opts.maxKeys ?? 10_000;
  const stepMs = 1_000 / perSecond;
  const slackMs = stepMs * Math.max(0, burst - 1);
  const emptyAt = new Map<string, number>();
  const waitOf = (at: number, now: number): number => (at - now > slackMs ? Math.ceil(at - now - slackMs) : 0);
  return {
    take(key) {
      const now = modules.clock.monotonicMs();
      const at = Math.max(emptyAt.get(key) ?? now, now);
      const wait = waitOf(at, now);
      if (wait > 0) return wait;
      emptyAt.delete(key);
      emptyAt.set(key, at + stepMs);
      if (emptyAt.size > maxKeys) {
        const [oldest] = emptyAt.keys();
        if (oldest !== undefined) emptyAt.delete(oldest);
      }
      return 0;
    },
  };
}
