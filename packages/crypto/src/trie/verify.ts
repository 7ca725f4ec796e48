import { bytesEqual, concatBytes } from "@turnpike/base";
import type { CompactClosestProof, CompactProof } from "./closest-proof.ts";
import {
  DIGEST_BYTES,
  digestOf,
  EMPTY_DIGEST,
  flipPathBit,
  innerDigest,
  leafPreimage,
  PATH_BYTES,
  pathBit,
} from "./digests.ts";

/** Why a closest proof is refused. */
export type ProofFault =
  | "path"
  | "depth"
  | "flipped-bits"
  | "closest-path"
  | "value"
  | "side-nodes"
  | "sibling"
  | "leaf"
  | "root";

/** What a check of a closest proof found. */
export type ProofVerdict = { readonly ok: true } | { readonly ok: false; readonly fault: ProofFault };

const MOST_DEPTH = PATH_BYTES * 8;
const refused = (fault: ProofFault): ProofVerdict => ({ ok: false, fault });

/**
 * Checks a closest proof against a root of 48 bytes exactly as the chain does (smt `VerifyCompactClosestProof` of a sum
 * trie without value hasher): what makes Go fail, or stop with a fault of its own, is refused here. It is lax where the
 * chain is: side nodes of another length are padded or cut when there is no sibling, a closest path may go on after its
 * 32 bytes, and that the proven leaf really is the closest is not checked: ask {@link isClosest} as well.
 * Takes at most 512 hashes.
 */
export function verifyClosestProof(proof: CompactClosestProof, root: Uint8Array): ProofVerdict {
  if (proof.path.length !== PATH_BYTES) return refused("path");
  const depth = depthOf(proof.depth);
  if (depth === undefined || depth > MOST_DEPTH) return refused("depth");
  const way = Uint8Array.from(proof.path);
  for (const bytes of proof.flippedBits) {
    const bit = depthOf(bytes);
    if (bit === undefined || bit > depth || bit >= MOST_DEPTH) return refused("flipped-bits");
    flipPathBit(way, bit);
  }
  const { closestPath, closestProof } = proof;
  if (closestPath.length < PATH_BYTES || !sharePrefix(way, closestPath, depth)) return refused("closest-path");
  if (closestProof === undefined) return refused("side-nodes");
  const sideNodes = expandSideNodes(closestProof);
  if (sideNodes === undefined) return refused("side-nodes");
  if (!isLeafDataLongEnough(closestProof)) return refused("leaf");
  if (!siblingFits(closestProof, sideNodes)) return refused("sibling");
  const path = closestPath.subarray(0, PATH_BYTES);
  const leaf = leafDigest(proof, path);
  if (typeof leaf === "string") return refused(leaf);
  let digest = leaf;
  for (const [i, given] of sideNodes.entries()) {
    const node = new Uint8Array(DIGEST_BYTES);
    node.set(given.subarray(0, DIGEST_BYTES));
    const left = pathBit(path, sideNodes.length - 1 - i) === 0;
    digest = left ? innerDigest(digest, node) : innerDigest(node, digest);
  }
  return bytesEqual(digest, root) ? { ok: true } : refused("root");
}

/**
 * True when a proof that holds also shows what the chain does not look at: that its leaf is where following the path
 * leads. The leaf is at the depth named, and beside every flipped bit there is nothing, and beside no other.
 */
export function isClosest(proof: CompactClosestProof): boolean {
  const depth = depthOf(proof.depth);
  const { closestProof } = proof;
  if (depth === undefined || closestProof?.numSideNodes !== depth) return false;
  const sideNodes = expandSideNodes(closestProof);
  if (sideNodes === undefined) return false;
  if (proof.closestValueHash === undefined) return depth === 0;
  const flipped = new Set(proof.flippedBits.map(depthOf));
  if (flipped.size !== proof.flippedBits.length) return false;
  for (const bit of flipped) {
    if (bit === undefined || bit >= depth) return false;
    if (!bytesEqual(sideNodes[depth - 1 - bit] ?? proof.path, EMPTY_DIGEST)) return false;
  }
  return true;
}

function depthOf(bytes: Uint8Array): number | undefined {
  if (bytes.length > 2) return undefined;
  let depth = 0;
  for (const byte of bytes) depth = depth * 256 + byte;
  return depth;
}

function sharePrefix(a: Uint8Array, b: Uint8Array, bits: number): boolean {
  for (let i = 0; i < bits; i++) if (pathBit(a, i) !== pathBit(b, i)) return false;
  return true;
}

function setBits(mask: Uint8Array): number {
  let count = 0;
  for (const byte of mask) for (let rest = byte; rest !== 0; rest &= rest - 1) count++;
  return count;
}

function expandSideNodes({ numSideNodes, bitMask, sideNodes }: CompactProof): readonly Uint8Array[] | undefined {
  if (!Number.isInteger(numSideNodes) || numSideNodes < 0 || numSideNodes > MOST_DEPTH) return undefined;
  if (bitMask.length !== Math.ceil(numSideNodes / 8)) return undefined;
  if (numSideNodes > 0 && sideNodes.length !== numSideNodes - setBits(bitMask)) return undefined;
  const expanded: Uint8Array[] = [];
  let next = 0;
  for (let i = 0; i < numSideNodes; i++) {
    // A mask with bits behind its end leaves too few nodes.
    const node = pathBit(bitMask, i) === 1 ? EMPTY_DIGEST : sideNodes[next++];
    if (node === undefined) return undefined;
    expanded.push(node);
  }
  return expanded;
}

function isLeafDataLongEnough({ nonMembershipLeafData }: CompactProof): boolean {
  return nonMembershipLeafData === undefined || nonMembershipLeafData.length >= 1 + PATH_BYTES;
}

// Only with a sibling does Go look at the lengths of side nodes.
function siblingFits({ siblingData }: CompactProof, sideNodes: readonly Uint8Array[]): boolean {
  const first = sideNodes[0];
  if (siblingData === undefined || first === undefined) return true;
  if (sideNodes.some((node) => node.length !== DIGEST_BYTES)) return false;
  const digest = siblingData[0] === 2 ? extensionDigest(siblingData) : plainDigest(siblingData);
  return digest !== undefined && bytesEqual(digest, first);
}

function plainDigest(data: Uint8Array): Uint8Array | undefined {
  return data.length < 16 ? undefined : digestOf(data);
}

function extensionDigest(data: Uint8Array): Uint8Array | undefined {
  const [, begin = 0, end = 0] = data;
  const path = data.subarray(3, 3 + PATH_BYTES);
  if (data.length < 3 + PATH_BYTES + 16) return undefined;
  let digest: Uint8Array = data.subarray(3 + PATH_BYTES, data.length - 16);
  for (let depth = end - 1; depth >= begin; depth--) {
    if (digest.length < 16) return undefined;
    const empty = EMPTY_DIGEST;
    const sides = pathBit(path, depth) === 0 ? [digest, empty] : [empty, digest];
    // Go does not look at the child's length: it hashes what there is.
    digest = digestOf(concatBytes(Uint8Array.of(1), ...sides, digest.subarray(digest.length - 16)));
  }
  return digest;
}

// The leaf's digest, or what is wrong with it.
function leafDigest(
  { closestValueHash, closestProof }: CompactClosestProof,
  path: Uint8Array,
): Uint8Array | ProofFault {
  if (closestValueHash !== undefined) {
    if (closestValueHash.length < 16) return "value";
    // A value of no bytes and no weight is how Go says that nothing is there.
    const isNothing = closestValueHash.length === 16 && closestValueHash.subarray(0, 8).every((byte) => byte === 0);
    if (!isNothing) return digestOf(leafPreimage(path, closestValueHash));
  }
  const other = closestProof?.nonMembershipLeafData;
  if (other === undefined) return EMPTY_DIGEST;
  if (other[0] !== 0 || bytesEqual(other.subarray(1, 1 + PATH_BYTES), path)) return "leaf";
  return digestOf(other);
}
