import { afterPrefix } from "./keys.ts";
import type { Bytes, Derivation } from "./types.ts";

/** One derivation at the heights at which its entries are the same. */
interface Kept {
  readonly derivation: Derivation<unknown>;
  readonly prefix: Buffer;
  readonly fromBlocks: bigint;
  toBlocks: bigint;
  readonly value: unknown;
}

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
  get<T>(
    derivation: Derivation<T>,
    prefix: Bytes,
    heightBlocks: bigint,
    entries: () => Iterable<readonly [key: Bytes, value: Bytes]>,
  ): T {
    for (const kept of this.#kept) {
      if (kept.derivation !== derivation || !kept.prefix.equals(prefix)) continue;
      if (heightBlocks < kept.fromBlocks || heightBlocks > kept.toBlocks) continue;
      this.#kept.delete(kept);
      this.#kept.add(kept);
      return kept.value as T;
    }
    const value = derivation.make(entries());
    for (const oldest of this.#kept) {
      if (this.#kept.size < this.#maxKept) break;
      this.#kept.delete(oldest);
    }
    const fromBlocks = heightBlocks;
    this.#kept.add({ derivation, prefix: Buffer.from(prefix), fromBlocks, toBlocks: heightBlocks, value });
    return value;
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
      if (kept.toBlocks === heightBlocks - 1n && !hasPrefix(keys, kept.prefix)) kept.toBlocks = heightBlocks;
    }
  }
}

function hasPrefix(keys: readonly Bytes[], prefix: Buffer): boolean {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const key = keys[middle];
    if (key !== undefined && Buffer.compare(key, prefix) < 0) low = middle + 1;
    else high = middle;
  }
  const first = keys[low];
  const end = afterPrefix(prefix);
  return first !== undefined && (end === undefined || Buffer.compare(first, end) < 0);
}
