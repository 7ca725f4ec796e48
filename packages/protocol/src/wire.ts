import { concatBytes } from "@turnpike/base";

/** What a field of a message holds, for {@link readMessage}. Integers are unsigned on the wire, whatever their type. */
export type WireField =
  | { readonly kind: "bytes" }
  | { readonly kind: "integer"; readonly bits: 32 | 64 }
  | { readonly kind: "message"; readonly shape: WireShape; readonly always?: true };

/** A message's known fields by number. */
export type WireShape = ReadonlyMap<number, WireField>;

/** A message read from bytes: the values of the known fields that were there. */
export type WireMessage = Map<number, Uint8Array | bigint | WireMessage>;

interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
}

function readVarint(cursor: Cursor): bigint | undefined {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = cursor.bytes[cursor.at++];
    if (byte === undefined) return undefined;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asUintN(64, value);
  }
  return undefined;
}

function readSpan(cursor: Cursor): Uint8Array | undefined {
  const length = readVarint(cursor);
  if (length === undefined || length > BigInt(cursor.bytes.length - cursor.at)) return undefined;
  const start = cursor.at;
  cursor.at += Number(length);
  return cursor.bytes.subarray(start, cursor.at);
}

/** Steps over a field that is not known; false when the bytes end in it or its kind does not exist. */
function skip(cursor: Cursor, wireType: number): boolean {
  if (wireType === 0) return readVarint(cursor) !== undefined;
  if (wireType === 2) return readSpan(cursor) !== undefined;
  const width = wireType === 1 ? 8 : 4;
  if (wireType !== 1 && wireType !== 5) return false;
  cursor.at += width;
  return cursor.at <= cursor.bytes.length;
}

function readField(
  cursor: Cursor,
  field: WireField,
  wireType: number,
  before: Uint8Array | bigint | WireMessage | undefined,
): Uint8Array | bigint | WireMessage | undefined {
  if (wireType !== (field.kind === "integer" ? 0 : 2)) return undefined;
  if (field.kind === "integer") {
    const value = readVarint(cursor);
    return value === undefined ? undefined : BigInt.asUintN(field.bits, value);
  }
  const span = readSpan(cursor);
  if (span === undefined || field.kind === "bytes") return span;
  return readMessage(span, field.shape, before instanceof Map ? before : undefined);
}

/**
 * Reads a message as the chain does: unknown fields are dropped, of a repeated field the last one holds, a repeated
 * message is merged. Undefined when the bytes are none. Groups, which no message of the protocol has, are refused.
 */
export function readMessage(bytes: Uint8Array, shape: WireShape, into?: WireMessage): WireMessage | undefined {
  const message: WireMessage = into ?? new Map();
  const cursor: Cursor = { bytes, at: 0 };
  while (cursor.at < bytes.length) {
    const tag = readVarint(cursor);
    if (tag === undefined) return undefined;
    const number = Number(BigInt.asIntN(32, tag >> 3n));
    const wireType = Number(tag & 7n);
    if (number <= 0) return undefined;
    const field = shape.get(number);
    if (field === undefined) {
      if (!skip(cursor, wireType)) return undefined;
      continue;
    }
    const value = readField(cursor, field, wireType, message.get(number));
    if (value === undefined) return undefined;
    message.set(number, value);
  }
  return message;
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

function lengthPrefixed(number: number, bytes: Uint8Array): Uint8Array[] {
  return [varint(BigInt(number << 3) | 2n), varint(BigInt(bytes.length)), bytes];
}

/** Writes a message: fields by number, empty values left out, messages that the chain always writes written. */
export function writeMessage(message: WireMessage, shape: WireShape): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [number, field] of [...shape].sort(([a], [b]) => a - b)) {
    const value = message.get(number);
    if (field.kind === "message") {
      if (value === undefined && field.always !== true) continue;
      const inner = value instanceof Map ? value : new Map<number, Uint8Array>();
      parts.push(...lengthPrefixed(number, writeMessage(inner, field.shape)));
    } else if (typeof value === "bigint") {
      if (value !== 0n) parts.push(varint(BigInt(number << 3)), varint(BigInt.asUintN(64, value)));
    } else if (value instanceof Uint8Array && value.length > 0) {
      parts.push(...lengthPrefixed(number, value));
    }
  }
  return concatBytes(...parts);
}
