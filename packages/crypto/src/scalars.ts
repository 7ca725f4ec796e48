/** The order of secp256k1's group (SEC 2 §2.4.1). */
export const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const ORDER_BYTES = Uint8Array.from(
  Buffer.from("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", "hex"),
);

/** The number that big-endian bytes are. */
export function bytesToNumber(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  return BigInt(`0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`);
}

/** 32 big-endian bytes of a number that fits. */
export function numberToBytes32(value: bigint): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes.set(Buffer.from(value.toString(16).padStart(64, "0"), "hex"));
  return bytes;
}

/** True when 32 bytes are below the group order. */
export function isReduced(bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, ORDER_BYTES) < 0;
}

/** 32 bytes modulo the group order; the argument itself when it is reduced already. */
export function reduceScalar(bytes: Uint8Array): Uint8Array {
  return isReduced(bytes) ? bytes : numberToBytes32(bytesToNumber(bytes) - ORDER);
}

/** True when all bytes are zero. */
export function isZero(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (byte !== 0) return false;
  return true;
}
