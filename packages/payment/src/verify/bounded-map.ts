/** A map of bounded size that forgets what was set first, and what is older than its time. */
export interface BoundedMap<K, V> {
  get(key: K, nowMs: number): V | undefined;
  set(key: K, value: V, nowMs: number): void;
  delete(key: K): void;
}

/** Options of {@link createBoundedMap}. */
export interface BoundedMapOptions {
  readonly maxEntries: number;
  readonly ttlMs: number;
}

/** Makes an empty map. Times are monotonic milliseconds. */
export function createBoundedMap<K, V>(opts: BoundedMapOptions): BoundedMap<K, V> {
  const entries = new Map<K, { readonly value: V; readonly untilMs: number }>();
  return {
    get(key, nowMs) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (entry.untilMs > nowMs) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, nowMs) {
      entries.delete(key);
      entries.set(key, { value, untilMs: nowMs + opts.ttlMs });
      if (entries.size > opts.maxEntries) {
        for (const oldest of entries.keys()) {
          entries.delete(oldest);
          break;
        }
      }
    },
    delete: (key) => entries.delete(key),
  };
}
