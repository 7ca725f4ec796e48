/**
 * What both implementations of secp256k1 do. Arguments have the right lengths; everything else is checked by them.
 * A point is 65 bytes (0x04 first) and on the curve; a scalar is 32 bytes, big-endian and below the group order. The
 * point at infinity is never an argument: where it is a result the result is undefined.
 */
export interface Secp256k1 {
  readonly name: "native" | "pure";
  /** Uncompressed public key (65 bytes, 0x04 first) that made `signature` (r, s); undefined when there is none. */
  recover(digest: Uint8Array, signature: Uint8Array, yParity: 0 | 1): Uint8Array | undefined;
  /** RFC 6979 signature with low s: r and s in 64 bytes. The key is valid. */
  sign(digest: Uint8Array, key: Uint8Array): { readonly signature: Uint8Array; readonly yParity: 0 | 1 };
  /** True when `signature` (r, s) of the digest is that of `publicKey` (33 or 65 bytes) and s is low. */
  verify(digest: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean;
  /** Uncompressed public key; undefined when the key is zero or not below the group order. */
  publicKey(key: Uint8Array): Uint8Array | undefined;
  /** The point that 33 or 65 bytes are; undefined when they are none. */
  point(encoded: Uint8Array): Uint8Array | undefined;
  /** The point times a secret scalar that is not zero. */
  multiplySecret(point: Uint8Array, scalar: Uint8Array): Uint8Array;
  /** The point times a scalar that is not zero. Time depends on the arguments: they are public. */
  multiply(point: Uint8Array, scalar: Uint8Array): Uint8Array;
  /** `S + c·P`, compressed (33 bytes). Time depends on the arguments: they are public. */
  addMultiple(sum: Uint8Array, c: Uint8Array, point: Uint8Array): Uint8Array | undefined;
  /** `s·G + c·P`, compressed (33 bytes). Time depends on the arguments: they are public. */
  addBase(s: Uint8Array, c: Uint8Array, point: Uint8Array): Uint8Array | undefined;
  /** `s·P + c·Q`, compressed (33 bytes). Time depends on the arguments: they are public. */
  addPoints(s: Uint8Array, p: Uint8Array, c: Uint8Array, q: Uint8Array): Uint8Array | undefined;
  /** `u − c·x` modulo the group order, of secret `u` and `x`, none of the three zero; undefined when it is zero. */
  subtractProduct(u: Uint8Array, c: Uint8Array, x: Uint8Array): Uint8Array | undefined;
}
