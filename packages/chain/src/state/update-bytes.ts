/** Bytes of a number as protobuf writes it. */
export function varintBytes(value: bigint): number {
  let bytes = 1;
  for (let rest = BigInt.asUintN(64, value) >> 7n; rest > 0n; rest >>= 7n) bytes++;
  return bytes;
}

/**
 * Bytes of an entry of one of the real chain's histories: a message of the height (field 1) and of another message (field 2)
 * that has this many bytes. Here the height is in the key alone.
 */
export function updateBytes(height: bigint, messageBytes: number): number {
  return 1 + varintBytes(height) + 1 + varintBytes(BigInt(messageBytes)) + messageBytes;
}
