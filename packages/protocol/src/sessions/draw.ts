import { bytesToHex, concatBytes, utf8ToBytes } from "@turnpike/base";
import { sha3256 } from "@turnpike/crypto";

/** What makes a session's id. */
export interface SessionSeed {
  /** Hash of the block at `startHeight` itself, 32 bytes. */
  readonly blockHash: Uint8Array;
  readonly serviceId: string;
  /** Bech32 address. */
  readonly applicationAddress: string;
  /** First block of the session. */
  readonly startHeight: bigint;
}

const DOT = utf8ToBytes(".");

/** The bytes that both the session id and the weights of its suppliers come from. */
export function sessionPreimage(seed: SessionSeed): Uint8Array {
  const height = Buffer.alloc(8);
  height.writeBigUInt64LE(BigInt.asUintN(64, seed.startHeight));
  return concatBytes(seed.blockHash, utf8ToBytes(`.${seed.serviceId}.${seed.applicationAddress}.`), height);
}

/** The session's id: SHA3-256 of its preimage, as lower-case hex. */
export function sessionId(preimage: Uint8Array): string {
  return bytesToHex(sha3256(preimage));
}

/** A supplier's weight in a session, a signed 64-bit number. Its seed is the session's preimage, not the id. */
export function supplierWeight(preimage: Uint8Array, operatorAddress: string): bigint {
  const digest = sha3256(concatBytes(preimage, DOT, utf8ToBytes(operatorAddress)));
  return Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength).readBigInt64BE(0);
}

/**
 * The suppliers of a session, in its order: by weight ascending, equal weights by address, the first `limit`. With
 * fewer candidates than `limit` all of them, unsorted, as they stand in the store.
 *
 * @param candidates the active suppliers of the service in store order: by activation height, then operator address
 */
export function drawSuppliers<T extends { readonly operatorAddress: string }>(
  preimage: Uint8Array,
  candidates: readonly T[],
  limit: number,
): T[] {
  if (candidates.length < limit) return [...candidates];
  return candidates
    .map((candidate) => ({ candidate, weight: supplierWeight(preimage, candidate.operatorAddress) }))
    .sort((a, b) => {
      if (a.weight !== b.weight) return a.weight < b.weight ? -1 : 1;
      if (a.candidate.operatorAddress === b.candidate.operatorAddress) return 0;
      return a.candidate.operatorAddress < b.candidate.operatorAddress ? -1 : 1;
    })
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}
