import { type Address, AppError, bytesToHex0x, concatBytes } from "@turnpike/base";
import { curve } from "./curve.ts";
import { keccak256 } from "./hash.ts";

/** Which implementation runs: `native` is about 20 times as fast. The command warns about `pure`. */
export const secp256k1Backend: "native" | "pure" = curve.name;

// Half of the group order, rounded down (SEC 2 §2.4.1; EIP-2).
const HALF_ORDER = Uint8Array.from(
  Buffer.from("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0", "hex"),
);

/** An ECDSA signature over secp256k1: 32 bytes each of r and s, and the parity of R's y. */
export interface EcdsaSignature {
  readonly r: Uint8Array;
  readonly s: Uint8Array;
  readonly yParity: 0 | 1;
}

/** True when s is in the lower half of the group order (EIP-2): the only form that tokens accept. */
export function isLowS(s: Uint8Array): boolean {
  return s.length === 32 && Buffer.compare(s, HALF_ORDER) <= 0;
}

/**
 * Address (lower case) whose key made this signature; undefined when there is none. `v` is 27 or 28, nothing else.
 * Does not refuse a high s: see {@link isLowS}.
 */
export function recoverAddress(digest: Uint8Array, r: Uint8Array, s: Uint8Array, v: number): Address | undefined {
  if (digest.length !== 32 || r.length !== 32 || s.length !== 32 || (v !== 27 && v !== 28)) return undefined;
  const key = curve.recover(digest, concatBytes(r, s), v === 27 ? 0 : 1);
  return key === undefined ? undefined : publicKeyToAddress(key);
}

/** Address (lower case) that made a 65-byte signature (r, s, v of 27 or 28); undefined when there is none. */
export function recoverSigner(digest: Uint8Array, signature: Uint8Array): Address | undefined {
  if (digest.length !== 32 || signature.length !== 65) return undefined;
  const v = signature[64];
  if (v !== 27 && v !== 28) return undefined;
  const key = curve.recover(digest, signature.subarray(0, 64), v === 27 ? 0 : 1);
  return key === undefined ? undefined : publicKeyToAddress(key);
}

/**
 * Signs a 32-byte digest: deterministic (RFC 6979), low s.
 * @throws AppError CONFIG_INVALID when the key is not a private key of the curve.
 */
export function sign(digest: Uint8Array, key: Uint8Array): EcdsaSignature {
  if (digest.length !== 32) throw new AppError("INTERNAL", { detail: { digestLength: digest.length } });
  if (!isPrivateKey(key)) throw new AppError("CONFIG_INVALID", { message: "This is not a private key of secp256k1." });
  const { signature, yParity } = curve.sign(digest, key);
  return { r: signature.slice(0, 32), s: signature.slice(32, 64), yParity };
}

/** True for 32 bytes that are not zero and below the group order. */
export function isPrivateKey(key: Uint8Array): boolean {
  return key.length === 32 && curve.publicKey(key) !== undefined;
}

/** Uncompressed public key (65 bytes) of a private key. @throws AppError CONFIG_INVALID when it is none. */
export function privateKeyToPublicKey(key: Uint8Array): Uint8Array {
  const found = key.length === 32 ? curve.publicKey(key) : undefined;
  if (found === undefined) {
    throw new AppError("CONFIG_INVALID", { message: "This is not a private key of secp256k1." });
  }
  return found;
}

/** Ethereum address (lower case) of an uncompressed public key of 65 bytes. */
export function publicKeyToAddress(publicKey: Uint8Array): Address {
  if (publicKey.length !== 65) throw new AppError("INTERNAL", { detail: { publicKeyLength: publicKey.length } });
  return bytesToHex0x(keccak256(publicKey.subarray(1)).subarray(12));
}

/** Ethereum address (lower case) of a private key. @throws AppError CONFIG_INVALID when it is none. */
export function privateKeyToAddress(key: Uint8Array): Address {
  return publicKeyToAddress(privateKeyToPublicKey(key));
}
