import type { Clock } from "@turnpike/base";

export interface AnswerCacheOptions {
  /** How long an answer is kept, in milliseconds; 0 keeps none. */
  readonly ttlMs: number;
  /** Most bytes of all answers and their keys. */
  readonly maxBytes: number;
}

interface Kept<T> {
  readonly value: T;
  readonly bytes: number;
  readonly untilMs: number;
}

/** So much an entry takes beside its key and value. */
const ENTRY_BYTES = 200;

/** Answers that may be given again, bounded by bytes and time; the longest unused leave first. */
export class AnswerCache<T> {
  readonly #opts: AnswerCacheOptions;
  readonly #clock: Clock;
  /** In the order of their last use. */
  readonly #kept = new Map<string, Kept<T>>();
  #bytes = 0;

  constructor(opts: AnswerCacheOptions, modules: { readonly clock: Clock }) {
    this.#opts = opts;
    this.#clock = modules.clock;
  }

  /** Bytes that the kept answers take. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): T | undefined {
    const entry = this.#kept.get(key);
    if (entry === undefined) return undefined;
    this.#kept.delete(key);
    if (entry.untilMs <= this.#clock.monotonicMs()) {
      this.#bytes -= entry.bytes;
      return undefined;
    }
    this.#kept.set(key, entry);
    return entry.value;
  }

  /** Keeps a value that takes so many bytes; one larger than the cache is not kept. */
  put(key: string, value: T, valueBytes: number): void {
    const { ttlMs, maxBytes } = this.#opts;
    const bytes = valueBytes + key.length * 2 + ENTRY_BYTES;
    if (ttlMs <= 0 || bytes > maxBytes) return;
    const before = this.#kept.get(key);
    if (before !== undefined) this.#drop(key, before);
    this.#kept.set(key, { value, bytes, untilMs: this.#clock.monotonicMs() + ttlMs });
    this.#bytes += bytes;
    for (const [oldest, entry] of this.#kept) {
      if (this.#bytes <= maxBytes) break;
      this.#drop(oldest, entry);
    }
  }

  #drop(key: string, entry: Kept<T>): void {
    this.#kept.delete(key);
    this.#bytes -= entry.bytes;
  }
}
