import { afterPrefix } from "./keys.ts";
import type { Bytes, Derivation, StateChange } from "./types.ts";

/** Changed entries, by their keys as text, that a value does not have yet. */
interface Pending {
  readonly before: unknown;
  readonly keys: Map<string, Bytes>;
}

/** One derivation at the heights at which its entries are the same. */
interface Kept {
  readonly derivation: Derivation<unknown>;
  readonly prefix: Buffer;
  fromBlocks: bigint;
  toBlocks: bigint;
  value: unknown;
  /** Updated with the first query, so that a block pays nothing for what is not queried. */
  pending: Pending | undefined;
}

/** Entries of one state. */
export interface DerivedEntries {
  all(): Iterable<readonly [key: Bytes, value: Bytes]>;
  get(key: Bytes): Bytes | undefined;
}

/** Versions of one value at different heights. */
const MAX_VERSIONS = 4;
/** Changed entries that wait; with more of them the value is made anew. */
const MAX_PENDING = 20_000;

export interface KeptDerivationsOptions {
  /** Most of them; the one that was asked for longest ago goes first. */
  readonly maxKept: number;
}

/**
 * What was derived of committed states. Each is kept for heights between which no block changed an entry that it was made
 * of, so that one for a height is right for that height whatever came later.
 */
export class KeptDerivations {
  readonly #maxKept: number;
  // In the order in which they were asked for.
  readonly #kept = new Set<Kept>();

  constructor(opts: KeptDerivationsOptions) {
    this.#maxKept = opts.maxKept;
  }

  /** What a derivation makes of the entries with a prefix in the state after a block. */
  get<T>(derivation: Derivation<T>, prefix: Bytes, heightBlocks: bigint, entries: DerivedEntries): T {
    for (const kept of this.#kept) {
      if (kept.derivation !== derivation || !kept.prefix.equals(prefix)) continue;
      if (heightBlocks < kept.fromBlocks || heightBlocks > kept.toBlocks) continue;
      this.#kept.delete(kept);
      this.#kept.add(kept);
      if (kept.pending !== undefined) {
        const changes = Array.from(kept.pending.keys.values(), (key): StateChange => [key, entries.get(key)]);
        kept.value = derivation.update?.(kept.pending.before as T, changes);
        kept.pending = undefined;
      }
      return kept.value as T;
    }
    const value = derivation.make(entries.all());
    this.#add({
      derivation,
      prefix: Buffer.from(prefix),
      fromBlocks: heightBlocks,
      toBlocks: heightBlocks,
      value,
      pending: undefined,
    });
    return value;
  }

  #add(added: Kept): void {
    const versions = [...this.#kept].filter(
      ({ derivation, prefix }) => derivation === added.derivation && prefix.equals(added.prefix),
    );
    for (const version of versions.slice(0, Math.max(0, versions.length - MAX_VERSIONS + 1)))
      this.#kept.delete(version);
    for (const oldest of this.#kept) {
      if (this.#kept.size < this.#maxKept) break;
      this.#kept.delete(oldest);
    }
    this.#kept.add(added);
  }

  /** Discards all: the heights have other states now. */
  clear(): void {
    this.#kept.clear();
  }

  /**
   * Reports a block that was written, the next one after the newest.
   * @param keys that it changed, in their order
   */
  committed(heightBlocks: bigint, keys: readonly Bytes[]): void {
    for (const kept of this.#kept) {
      if (kept.toBlocks !== heightBlocks - 1n) continue;
      const changed = withPrefix(keys, kept.prefix);
      if (changed.length === 0) kept.toBlocks = heightBlocks;
      else if (kept.derivation.update !== undefined) this.#followChanges(kept, heightBlocks, changed);
    }
  }

  #followChanges(kept: Kept, heightBlocks: bigint, changed: readonly Bytes[]): void {
    const { derivation, prefix, pending, value } = kept;
    if (pending === undefined) {
      const keys = new Map(changed.map((key) => [textOf(key), key]));
      const next = { derivation, prefix, fromBlocks: heightBlocks, toBlocks: heightBlocks, value: undefined };
      if (keys.size <= MAX_PENDING) this.#add({ ...next, pending: { before: value, keys } });
      return;
    }
    for (const key of changed) pending.keys.set(textOf(key), key);
    kept.fromBlocks = heightBlocks;
    kept.toBlocks = heightBlocks;
    if (pending.keys.size > MAX_PENDING) this.#kept.delete(kept);
  }
}

function textOf(key: Bytes): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
}

function withPrefix(keys: readonly Bytes[], prefix: Buffer): readonly Bytes[] {
  const end = afterPrefix(prefix);
  return keys.slice(placeOf(keys, prefix), end === undefined ? keys.length : placeOf(keys, end));
}

// Place of the first key that is not before this one.
function placeOf(keys: readonly Bytes[], wanted: Bytes): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const key = keys[middle];
    if (key !== undefined && Buffer.compare(key, wanted) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
