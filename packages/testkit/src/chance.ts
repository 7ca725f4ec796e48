import { createCipheriv, hash } from "node:crypto";

/** Random choices that are the same for the same seed, on every machine. */
export interface Chance {
  /** A whole number from 0 to below the bound, which is at most 2^32. */
  below(bound: number): number;
  /** True so often out of one. */
  often(share: number): boolean;
  bytes(length: number): Uint8Array;
  pick<const L extends readonly [unknown, ...(readonly unknown[])]>(list: L): L[number];
  /** A number of 64 bits, often one at an edge. */
  wide(): bigint;
  /** One of these by weight. */
  weighted<T>(list: readonly (readonly [weight: number, item: T])[]): T;
}

const EDGES = [0n, 1n, 2n, 127n, 128n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];
const BLOCK = Buffer.alloc(4_096);

/** Makes {@link Chance} of a seed: a stream cipher's output. */
export function chanceOf(seed: string): Chance {
  const cipher = createCipheriv("chacha20", hash("sha256", seed, "buffer"), Buffer.alloc(16));
  let buffered: Buffer = Buffer.alloc(0);
  let at = 0;
  const take = (length: number): Buffer => {
    if (at + length > buffered.length) {
      buffered = cipher.update(length > BLOCK.length ? Buffer.alloc(length) : BLOCK);
      at = 0;
    }
    at += length;
    return buffered.subarray(at - length, at);
  };
  const below = (bound: number): number => take(4).readUInt32LE() % bound;
  const pick = <T>(list: readonly [T, ...(readonly T[])]): T => list[below(list.length)] ?? list[0];
  return {
    below,
    often: (share) => take(4).readUInt32LE() < share * 2 ** 32,
    bytes: (length) => Uint8Array.from(take(length)),
    pick,
    wide: () => (below(3) > 0 ? (EDGES[below(EDGES.length)] ?? 0n) : take(8).readBigUInt64LE()),
    weighted(list) {
      let left = below(list.reduce((sum, [weight]) => sum + weight, 0));
      for (const [weight, item] of list) {
        left -= weight;
        if (left < 0) return item;
      }
      throw new RangeError("a list of weights is empty");
    },
  };
}
