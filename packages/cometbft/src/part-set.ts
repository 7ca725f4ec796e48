import { type MerkleProof, merkleProofs, verifyMerkleProof } from "@turnpike/crypto";
import type { PartSetHeader } from "./types.ts";

/** Bytes of every part but the last. */
export const PART_BYTES = 65_536;

/** CometBFT's bound of a block's bytes. */
export const MAX_BLOCK_BYTES = 104_857_600;

/** A piece of a block's bytes, with the proof of its place. */
export interface Part {
  readonly index: number;
  readonly bytes: Uint8Array;
  readonly proof: MerkleProof;
}

/** A block's bytes in parts. */
export interface PartSet {
  readonly header: PartSetHeader;
  readonly parts: readonly Part[];
}

/** Cuts a block's bytes. The parts are views of them. */
export function partSetOf(bytes: Uint8Array): PartSet {
  const total = Math.ceil(bytes.length / PART_BYTES);
  const pieces = Array.from({ length: total }, (_, i) => bytes.subarray(i * PART_BYTES, (i + 1) * PART_BYTES));
  const { root, proofs } = merkleProofs(pieces);
  const parts = proofs.map((proof, index) => ({ index, bytes: pieces[index] ?? new Uint8Array(0), proof }));
  return { header: { total, hash: root }, parts };
}

/** True when a part belongs at its place under a header. */
export function isPartOf(header: PartSetHeader, part: Part): boolean {
  const { index, bytes, proof } = part;
  if (proof.total !== header.total || proof.index !== index || bytes.length > PART_BYTES) return false;
  if (index < header.total - 1 && bytes.length !== PART_BYTES) return false;
  return verifyMerkleProof(header.hash, bytes, proof);
}

/** The bytes of all parts of a header, given in order; undefined when one is missing, wrong or they are too many. */
export function joinParts(header: PartSetHeader, parts: readonly Part[]): Uint8Array | undefined {
  if (parts.length !== header.total || header.total > MAX_BLOCK_BYTES / PART_BYTES) return undefined;
  if (!parts.every((part, index) => part.index === index && isPartOf(header, part))) return undefined;
  return Buffer.concat(parts.map(({ bytes }) => bytes));
}
