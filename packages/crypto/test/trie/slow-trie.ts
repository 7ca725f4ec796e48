import { createHash } from "node:crypto";

/** One leaf of the slow trie. */
export interface SlowLeaf {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly weight: bigint;
}

const sha = (...parts: readonly Uint8Array[]): Buffer =>
  parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, value));
  return bytes;
}

/** The root by the definition alone: everything in memory, nothing kept, one recursion by bits of text. */
export function slowRoot(leaves: readonly SlowLeaf[]): Buffer {
  const byPath = new Map<string, SlowLeaf>();
  for (const leaf of leaves) {
    const bits = [...sha(leaf.key)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
    byPath.set(bits, leaf);
  }
  const subtree = (all: readonly (readonly [string, SlowLeaf])[], depth: number): Buffer => {
    const [first] = all;
    if (first === undefined) return Buffer.alloc(48);
    if (all.length === 1) {
      const { key, value, weight } = first[1];
      const tail = Buffer.concat([u64(weight), u64(1n)]);
      return Buffer.concat([sha(Uint8Array.of(0), sha(key), value, tail), tail]);
    }
    const left = subtree(
      all.filter(([bits]) => bits[depth] === "0"),
      depth + 1,
    );
    const right = subtree(
      all.filter(([bits]) => bits[depth] === "1"),
      depth + 1,
    );
    const tail = Buffer.concat([
      u64(left.readBigUInt64BE(32) + right.readBigUInt64BE(32)),
      u64(left.readBigUInt64BE(40) + right.readBigUInt64BE(40)),
    ]);
    return Buffer.concat([sha(Uint8Array.of(1), left, right, tail), tail]);
  };
  return subtree([...byPath], 0);
}
