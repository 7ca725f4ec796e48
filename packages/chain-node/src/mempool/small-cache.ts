/** Bounds of a {@link SmallCache}. */
export interface SmallCacheOptions {
  readonly maxEntries: number;
  readonly maxBytes: number;
}

/** Keeps what was used last, up to a number and a sum of bytes. */
export class SmallCache<K, V> {
  readonly #opts: SmallCacheOptions;
  readonly #entries = new Map<K, { readonly value: V; readonly sizeBytes: number }>();
  #bytes = 0;

  constructor(opts: SmallCacheOptions) {
    this.#opts = opts;
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** What is larger than the whole cache is not kept. */
  set(key: K, value: V, sizeBytes: number): void {
    this.delete(key);
    if (sizeBytes > this.#opts.maxBytes) return;
    this.#entries.set(key, { value, sizeBytes });
    this.#bytes += sizeBytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#opts.maxEntries && this.#bytes <= this.#opts.maxBytes) break;
      this.delete(oldest);
    }
  }

  delete(key: K): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#bytes -= entry.sizeBytes;
    this.#entries.delete(key);
  }
}
