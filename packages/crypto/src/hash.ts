import { hash } from "node:crypto";
import { ripemd160 as pureRipemd160 } from "@noble/hashes/legacy.js";
import { keccak_256 } from "@noble/hashes/sha3.js";

// Not every build of OpenSSL has every one, and `getHashes()` leaves some out even where they work.
function opensslHas(algorithm: string, digestOfNothing: string): boolean {
  try {
    return hash(algorithm, "").startsWith(digestOfNothing);
  } catch {
    return false;
  }
}

/** Keccak-256 as Ethereum uses it (the padding before FIPS 202). */
export const keccak256: (data: Uint8Array) => Uint8Array = opensslHas("keccak-256", "c5d24601")
  ? (data) => hash("keccak-256", data, "buffer")
  : (data) => keccak_256(data);

/** SHA-256 (FIPS 180-4). */
export function sha256(data: Uint8Array): Uint8Array {
  return hash("sha256", data, "buffer");
}

/** SHA3-256 (FIPS 202). */
export function sha3256(data: Uint8Array): Uint8Array {
  return hash("sha3-256", data, "buffer");
}

/** SHA3-512 (FIPS 202). */
export function sha3512(data: Uint8Array): Uint8Array {
  return hash("sha3-512", data, "buffer");
}

/** RIPEMD-160. */
export const ripemd160: (data: Uint8Array) => Uint8Array = opensslHas("ripemd160", "9c1185a5")
  ? (data) => hash("ripemd160", data, "buffer")
  : (data) => pureRipemd160(data);
