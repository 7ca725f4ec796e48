import type { Clock } from "@turnpike/base";

interface RateLimitOptions {
  /** Requests of one key a second, over time. */
  readonly perSecond: number;
  /** Requests of one key at once. */
  readonly burst: number;
  /** Keys that are counted one by one; beyond that the one unseen for longest is evicted. 10,000 by default. */
  readonly maxKeys?: number;
}

/** Counts requests by key; the generic cell rate algorithm (ITU-T I.371): for each key the time at which its bucket is empty again. */
export class RateLimit {
  readonly #stepMs: number;
  readonly #slackMs: number;
  readonly #maxKeys: number;
  readonly #clock: Clock;
  readonly #emptyAt = new Map<string, number>();

  constructor({ perSecond, burst, maxKeys = 10_000 }: RateLimitOptions, modules: { readonly clock: Clock }) {
    this.#stepMs = 1_000 / perSecond;
    this.#slackMs = this.#stepMs * Math.max(0, burst - 1);
    this.#maxKeys = maxKeys;
    this.#clock = modules.clock;
  }

  /** Counts one. Returns 0 when it fits, else the milliseconds until one would. */
  take(key: string): number {
    const nowMs = this.#clock.monotonicMs();
    const atMs = Math.max(this.#emptyAt.get(key) ?? nowMs, nowMs);
    if (atMs - nowMs > this.#slackMs) return Math.ceil(atMs - nowMs - this.#slackMs);
    this.#emptyAt.delete(key);
    this.#emptyAt.set(key, atMs + this.#stepMs);
    if (this.#emptyAt.size > this.#maxKeys) {
      const [oldest] = this.#emptyAt.keys();
      if (oldest !== undefined) this.#emptyAt.delete(oldest);
    }
    return 0;
  }
}
