/** Bytes between packages are `Uint8Array`; text forms exist only at the edges. */

const HEX = /^(?:[0-9a-fA-F]{2})*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The bytes as a Buffer over the same memory: the same object where they are one already, since each view costs. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Lower-case hex, without a prefix. */
export function bytesToHex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString("hex");
}

/** `0x` and lower-case hex. */
export function bytesToHex0x(bytes: Uint8Array): `0x${string}` {
  return `0x${bytesToHex(bytes)}`;
}

/** Reads hex with or without `0x`; undefined when it is not hex or not of `length` bytes. */
export function hexToBytes(text: string, length?: number): Uint8Array | undefined {
  const digits = text.startsWith("0x") ? text.slice(2) : text;
  if (!HEX.test(digits) || (length !== undefined && digits.length !== length * 2)) return undefined;
  return Uint8Array.from(Buffer.from(digits, "hex"));
}

/** Reads standard padded base64 (RFC 4648 §4), strictly: no line breaks, no URL alphabet, no loose bits. */
export function base64ToBytes(text: string): Uint8Array | undefined {
  if (!BASE64.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) return undefined;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Standard padded base64. */
export function bytesToBase64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString("base64");
}

/** UTF-8 bytes of a text. */
export function utf8ToBytes(text: string): Uint8Array {
  return Buffer.from(text, "utf8");
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Text of UTF-8 bytes; undefined when they are not UTF-8. */
export function bytesToUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Joins byte strings. */
export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

/** True when both have the same bytes. Not in constant time: for secrets use `node:crypto`. */
export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}
