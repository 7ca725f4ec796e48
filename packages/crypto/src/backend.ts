/** What both implementations of secp256k1 do. Arguments have the right lengths; everything else is checked by them. */
export interface Secp256k1 {
  readonly name: "native" | "pure";
  /** Uncompressed public key (65 bytes, 0x04 first) that made `signature` (r, s); undefined when there is none. */
  recover(digest: Uint8Array, signature: Uint8Array, yParity: 0 | 1): Uint8Array | undefined;
  /** RFC 6979 signature with low s: r and s in 64 bytes. The key is valid. */
  sign(digest: Uint8Array, key: Uint8Array): { readonly signature: Uint8Array; readonly yParity: 0 | 1 };
  /** Uncompressed public key; undefined when the key is zero or not below the group order. */
  publicKey(key: Uint8Array): Uint8Array | undefined;
}
