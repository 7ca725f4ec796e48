import { hash } from "node:crypto";
import { keccak_256 } from "@noble/hashes/sha3.js";

// Not every build of OpenSSL has it, and `getHashes()` leaves it out even where it works.
function opensslHasKeccak(): boolean {
  try {
    return hash("keccak-256", "").startsWith("c5d24601");
  } catch {
    return false;
  }
}

/** Keccak-256 as Ethereum uses it (the padding before FIPS 202). */
export const keccak256: (data: Uint8Array) => Uint8Array = opensslHasKeccak()
  ? (data) => hash("keccak-256", data, "buffer")
  : (data) => keccak_256(data);

/** SHA-256 (FIPS 180-4). */
export function sha256(data: Uint8Array): Uint8Array {
  return hash("sha256", data, "buffer");
}
