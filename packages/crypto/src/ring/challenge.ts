import { hash } from "node:crypto";
import { ORDER, reduceScalar } from "../scalars.ts";

/** A challenge of a ring. */
export interface Challenge {
  /** 32 bytes below the group order. */
  readonly scalar: Uint8Array;
  /** True when the number had a leading zero byte: one in 256, on which the network's two curve libraries disagree. */
  readonly short: boolean;
}

/**
 * SHA3-512 of the bytes as a number modulo the group order, then in the form of the network: the number's bytes without
 * leading zeros are put at the *front* of 32 bytes. (go-dleq `HashToScalar`, chain of 2026.)
 */
export function hashToScalar(data: Uint8Array): Challenge {
  const digits = (BigInt(`0x${hash("sha3-512", data, "hex")}`) % ORDER).toString(16);
  const minimal = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex");
  const scalar = new Uint8Array(32);
  scalar.set(minimal);
  return { scalar: reduceScalar(scalar), short: minimal.length < 32 };
}

/** The challenge that follows on two compressed points: of digest, left and right, one behind the other. */
export function challengeOf(digest: Uint8Array, left: Uint8Array, right: Uint8Array): Challenge {
  const data = new Uint8Array(digest.length + left.length + right.length);
  data.set(digest, 0);
  data.set(left, digest.length);
  data.set(right, digest.length + left.length);
  return hashToScalar(data);
}
