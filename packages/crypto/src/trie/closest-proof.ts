/** The way from a leaf to the root: what a closest proof holds inside. */
export interface CompactProof {
  /** Digests (48 bytes) beside the way, from the leaf up, without the empty ones. */
  readonly sideNodes: readonly Uint8Array[];
  /** The leaf that is there instead, when the proof says that something is not there. */
  readonly nonMembershipLeafData: Uint8Array | undefined;
  /** One bit for every depth, the leaf's first: set where the digest beside the way is empty. */
  readonly bitMask: Uint8Array;
  /** How many digests there are with the empty ones; not an integer of 0 to 256 in hostile proofs. */
  readonly numSideNodes: number;
  /** What the leaf's sibling hashes; a proof holds without it. */
  readonly siblingData: Uint8Array | undefined;
}

/** Proof of the leaf whose path is closest to a given path, as the chain takes it (Go: SparseCompactMerkleClosestProof). */
export interface CompactClosestProof {
  /** The path that was asked for: 32 bytes. */
  readonly path: Uint8Array;
  /** Depths at which the way had to take the other side, each in big-endian bytes without leading zeros. */
  readonly flippedBits: readonly Uint8Array[];
  /** Depth of the leaf, in such bytes. */
  readonly depth: Uint8Array;
  /** Path of the leaf. */
  readonly closestPath: Uint8Array;
  /** The leaf's value with weight and count, 8 bytes each, behind it; undefined in an empty trie. */
  readonly closestValueHash: Uint8Array | undefined;
  readonly closestProof: CompactProof | undefined;
}

/** The value that a closest proof proves, without weight and count; undefined when there is none. */
export function closestValue(proof: CompactClosestProof): Uint8Array | undefined {
  const data = proof.closestValueHash;
  return data === undefined || data.length < 16 ? undefined : data.subarray(0, data.length - 16);
}

/** The weight of the leaf that a closest proof proves; undefined when there is none. */
export function closestWeight(proof: CompactClosestProof): bigint | undefined {
  const data = proof.closestValueHash;
  if (data === undefined || data.length < 16) return undefined;
  return new DataView(data.buffer, data.byteOffset + data.length - 16, 8).getBigUint64(0);
}

/** Big-endian bytes of a depth (0 to 65,535) without leading zeros; zero is one byte. */
export function depthToBytes(depth: number): Uint8Array {
  return depth < 256 ? Uint8Array.of(depth) : Uint8Array.of(depth >> 8, depth & 255);
}
