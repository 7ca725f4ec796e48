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

// A digest as bytes costs more than the hashing of short data: as text, and its characters taken over, it is half as much.
function digest(algorithm: string, data: Uint8Array): Uint8Array {
  const text = hash(algorithm, data, "latin1");
  const bytes = Buffer.alloc(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Keccak-256 as Ethereum uses it (the padding before FIPS 202). */
export const keccak256: (data: Uint8Array) => Uint8Array = opensslHas("keccak-256", "c5d24601")
  ? (data) => digest("keccak-256", data)
  : (data) => keccak_256(data);

/** SHA-256 (FIPS 180-4). */
export function sha256(data: Uint8Array): Uint8Array {
  return digest("sha256", data);
}

/** SHA3-256 (FIPS 202). */
export function sha3256(data: Uint8Array): Uint8Array {
  return digest("sha3-256", data);
}

/** SHA3-512 (FIPS 202). */
export function sha3512(data: Uint8Array): Uint8Array {
  return digest("sha3-512", data);
}

/** RIPEMD-160. */
export const ripemd160: (data: Uint8Array) => Uint8Array = opensslHas("ripemd160", "9c1185a5")
  ? (data) => digest("ripemd160", data)
  : (data) => pureRipemd160(data);
