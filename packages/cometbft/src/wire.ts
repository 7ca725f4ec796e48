import { concatBytes } from "@turnpike/base";

/** Protobuf's varint of a number as an unsigned one of 64 bits. */
export function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

/** Bytes behind their length: how CometBFT frames what it signs. */
export function delimited(bytes: Uint8Array): Uint8Array {
  return concatBytes(varint(BigInt(bytes.length)), bytes);
}

/** `google.protobuf.BytesValue` or `StringValue`; nothing when it is empty. */
export function wrappedBytes(bytes: Uint8Array): Uint8Array {
  return bytes.length === 0 ? bytes : concatBytes(Uint8Array.of(0x0a), delimited(bytes));
}

/** `google.protobuf.Int64Value`; nothing when it is 0. */
export function wrappedInt64(value: bigint): Uint8Array {
  return value === 0n ? new Uint8Array(0) : concatBytes(Uint8Array.of(0x08), varint(value));
}
