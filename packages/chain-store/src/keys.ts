import type { Bytes } from "./types.ts";

/** Longest key of the state or of a record, in bytes: LMDB's own limit bounds it, with room for what is added to it. */
export const MAX_KEY_BYTES = 512;

/** More than any key has, a record's with its table too. LMDB does not take keys of over 1,978 bytes, not even to look. */
const MOST_BOUND_BYTES = MAX_KEY_BYTES + 100;

const HEIGHT_BYTES = 8;
const END = [0x00, 0x00];
const ESCAPED_ZERO = [0x00, 0xff];

/** A height as 8 bytes that sort as the heights do. */
export function heightToBytes(heightBlocks: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(HEIGHT_BYTES);
  bytes.writeBigUInt64BE(heightBlocks);
  return bytes;
}

/** Reads {@link heightToBytes}. */
export function bytesToHeight(bytes: Bytes, offset = 0): bigint {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).readBigUInt64BE(offset);
}

/**
 * A key as bytes that sort as the keys do, and of which none begins with another: a zero byte is `00 ff`, and `00 00`
 * ends it. So what is written after it never mixes with a longer key.
 */
export function encodeKey(key: Bytes): Buffer {
  let zeros = 0;
  for (const byte of key) if (byte === 0) zeros++;
  const bytes = Buffer.alloc(key.length + zeros + END.length);
  if (zeros === 0) {
    bytes.set(key);
    return bytes;
  }
  let at = 0;
  for (const byte of key) {
    bytes[at++] = byte;
    if (byte === 0) bytes[at++] = 0xff;
  }
  return bytes;
}

/** Key of one version: {@link encodeKey}, then the height. */
export function versionKey(key: Bytes, heightBlocks: bigint): Buffer {
  return Buffer.concat([encodeKey(key), heightToBytes(heightBlocks)]);
}

/** Takes {@link versionKey} apart; undefined when it is none. */
export function parseVersionKey(bytes: Bytes): { readonly key: Buffer; readonly heightBlocks: bigint } | undefined {
  const end = bytes.length - HEIGHT_BYTES - END.length;
  if (end < 1 || bytes[end] !== END[0] || bytes[end + 1] !== END[1]) return undefined;
  const key = Buffer.allocUnsafe(end);
  let length = 0;
  for (let at = 0; at < end; at++) {
    const byte = bytes[at] ?? 0;
    key[length++] = byte;
    if (byte === ESCAPED_ZERO[0] && bytes[++at] !== ESCAPED_ZERO[1]) return undefined;
  }
  return { key: key.subarray(0, length), heightBlocks: bytesToHeight(bytes, end + END.length) };
}

/** Smallest byte string after all that begin with the prefix; undefined when there is none. */
export function afterPrefix(prefix: Bytes): Buffer | undefined {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) return undefined;
  const bytes = Buffer.from(prefix.subarray(0, length));
  bytes[length - 1] = (bytes[length - 1] ?? 0) + 1;
  return bytes;
}

/** Keys from `from` on, before `to`; undefined is no bound. */
export interface KeyBounds {
  readonly from: Bytes;
  readonly to: Bytes | undefined;
}

// The part that is cut off could not distinguish two keys.
const bound = (key: Bytes): Bytes => (key.length > MOST_BOUND_BYTES ? key.subarray(0, MOST_BOUND_BYTES) : key);

/** The bounds of a range with a prefix; undefined when nothing can be between them. */
export function boundsOf(prefix: Bytes, from: Bytes | undefined, to: Bytes | undefined): KeyBounds | undefined {
  if (prefix.length > MOST_BOUND_BYTES) return undefined;
  const first = from !== undefined && Buffer.compare(from, prefix) > 0 ? from : prefix;
  const end = afterPrefix(prefix);
  const last = to !== undefined && (end === undefined || Buffer.compare(to, end) < 0) ? to : end;
  if (last !== undefined && Buffer.compare(first, last) >= 0) return undefined;
  return { from: bound(first), to: last === undefined ? undefined : bound(last) };
}
