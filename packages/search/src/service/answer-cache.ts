import type { Clock } from "@turnpike/base";

export interface AnswerCacheOptions {
  /** How long an answer is kept, in milliseconds; 0 keeps none. */
  readonly ttlMs: number;
  /** Most bytes of all answers and their keys. */
  readonly maxBytes: number;
}

/** Answers that may be given again, the longest unused leave first. */
export interface AnswerCache<T> {
  get(key: string): T | undefined;
  /** Keeps a value that takes so many bytes; one larger than the cache is not kept. */
  put(key: string, value: T, bytes: number): void;
  /** What is taken now. */
  readonly bytes: number;
}

interface Kept<T> {
  readonly value: T;
  readonly bytes: number;
  readonly untilMs: number;
}

/** So much an entry takes beside its key and value. */
const ENTRY_BYTES = 200;

/** Makes a cache bounded by bytes and time. */
export function createAnswerCache<T>(opts: AnswerCacheOptions, modules: { readonly clock: Clock }): AnswerCache<T> {
  const { clock } = modules;
  // In the order of their last use.
  const kept = new Map<string, Kept<T>>();
  let total = 0;

  const drop = (key: string, entry: Kept<T>): void => {
    kept.delete(key);
    total -= entry.bytes;
  };

  return {
    get bytes() {
      return total;
    },
    get(key) {
      const entry = kept.get(key);
      if (entry === undefined) return undefined;
      kept.delete(key);
      if (entry.untilMs <= clock.monotonicMs()) {
        total -= entry.bytes;
        return undefined;
      }
      kept.set(key, entry);
      return entry.value;
    },
    put(key, value, valueBytes) {
      const bytes = valueBytes + key.length * 2 + ENTRY_BYTES;
      if (opts.ttlMs <= 0 || bytes > opts.maxBytes) return;
      const before = kept.get(key);
      if (before !== undefined) drop(key, before);
      kept.set(key, { value, bytes, untilMs: clock.monotonicMs() + opts.ttlMs });
      total += bytes;
      for (const [oldest, entry] of kept) {
        if (total <= opts.maxBytes) break;
        drop(oldest, entry);
      }
    },
  };
}
