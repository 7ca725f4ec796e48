import { bytesEqual, concatBytes } from "@turnpike/base";
import { sha256 } from "../hash.ts";

const LEAF = Uint8Array.of(0);
const INNER = Uint8Array.of(1);
// CometBFT reads no longer ones.
const MOST_AUNTS = 100;

/** Proof that an item stands at a place of a list whose root is known. */
export interface MerkleProof {
  /** How many items the list has. */
  readonly total: number;
  /** The item's place, from 0. */
  readonly index: number;
  /** Hash of the item: SHA-256 of a zero byte and the item. */
  readonly leafHash: Uint8Array;
  /** Hashes beside the way to the root, from the leaf up. */
  readonly aunts: readonly Uint8Array[];
}

const hashLeaf = (item: Uint8Array): Uint8Array => sha256(concatBytes(LEAF, item));
const hashInner = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(concatBytes(INNER, left, right));

// The largest power of two below `count`, which is 2 at least.
function splitPoint(count: number): number {
  let split = 1;
  while (split * 2 < count) split *= 2;
  return split;
}

/** CometBFT's Merkle root (RFC 6962) of byte strings: 32 bytes; SHA-256 of nothing for an empty list. */
export function merkleRoot(items: readonly Uint8Array[]): Uint8Array {
  const [first] = items;
  if (first === undefined) return sha256(new Uint8Array(0));
  if (items.length === 1) return hashLeaf(first);
  const split = splitPoint(items.length);
  return hashInner(merkleRoot(items.slice(0, split)), merkleRoot(items.slice(split)));
}

/** The root of a list, and a proof for every item, in order. */
export function merkleProofs(items: readonly Uint8Array[]): {
  readonly root: Uint8Array;
  readonly proofs: readonly MerkleProof[];
} {
  const leafHashes = items.map(hashLeaf);
  const aunts: Uint8Array[][] = items.map(() => []);
  const build = (from: number, to: number): Uint8Array => {
    const only = leafHashes[from];
    if (to - from === 1 && only !== undefined) return only;
    const middle = from + splitPoint(to - from);
    const left = build(from, middle);
    const right = build(middle, to);
    for (let i = from; i < to; i++) aunts[i]?.push(i < middle ? right : left);
    return hashInner(left, right);
  };
  const root = items.length === 0 ? sha256(new Uint8Array(0)) : build(0, items.length);
  const proofs = leafHashes.map((leafHash, index) => ({
    total: items.length,
    index,
    leafHash,
    aunts: aunts[index] ?? [],
  }));
  return { root, proofs };
}

/** True when the proof shows that `item` stands at its place under `root`. */
export function verifyMerkleProof(root: Uint8Array, item: Uint8Array, proof: MerkleProof): boolean {
  const { total, index, leafHash, aunts } = proof;
  if (!Number.isSafeInteger(total) || !Number.isSafeInteger(index) || index < 0 || index >= total) return false;
  if (aunts.length > MOST_AUNTS || aunts.some(({ length }) => length !== 32)) return false;
  if (!bytesEqual(leafHash, hashLeaf(item))) return false;
  // The ways taken from the root down: the aunts are consumed from the end.
  const lefts: boolean[] = [];
  for (let place = index, count = total; count > 1; ) {
    const split = splitPoint(count);
    const left = place < split;
    lefts.unshift(left);
    place = left ? place : place - split;
    count = left ? split : count - split;
  }
  if (lefts.length !== aunts.length) return false;
  let hash = leafHash;
  for (const [i, aunt] of aunts.entries()) hash = lefts[i] === true ? hashInner(hash, aunt) : hashInner(aunt, hash);
  return bytesEqual(hash, root);
}
