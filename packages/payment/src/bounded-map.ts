/** Part of a full map that is evicted at once: each eviction walks past the entries that were deleted before. */
const EVICTED_SHARE = 1 / 16;

/** A map of bounded size that evicts what was set first, and what is older than its time to live. */
export class BoundedMap<K, V> {
  readonly #opts: { readonly maxEntries: number; readonly ttlMs: number };
  readonly #entries = new Map<K, { readonly value: V; readonly untilMs: number }>();

  constructor(opts: { readonly maxEntries: number; readonly ttlMs: number }) {
    this.#opts = opts;
  }

  /** Times are monotonic milliseconds. */
  get(key: K, nowMs: number): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.untilMs > nowMs) return entry?.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: K, value: V, nowMs: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, untilMs: nowMs + this.#opts.ttlMs });
    if (this.#entries.size > this.#opts.maxEntries) this.#evict();
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  #evict(): void {
    let left = Math.ceil(this.#opts.maxEntries * EVICTED_SHARE);
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      if (--left <= 0) return;
    }
  }
}
