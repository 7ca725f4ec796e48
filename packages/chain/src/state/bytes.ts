import type { Bytes } from "../types.ts";

/** Bytes as a text of one character a byte: equal and ordered as the bytes are, and a key of a Map. */
export function bytesToText(bytes: Bytes): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

/** The bytes of {@link bytesToText}. */
export function textToBytes(text: string): Bytes {
  return Uint8Array.from(Buffer.from(text, "latin1"));
}

/** First text after all that begin with the prefix; undefined when there is none. */
export function textAfterPrefix(prefix: string): string | undefined {
  let length = prefix.length;
  while (length > 0 && prefix.charCodeAt(length - 1) === 0xff) length--;
  if (length === 0) return undefined;
  return prefix.slice(0, length - 1) + String.fromCharCode(prefix.charCodeAt(length - 1) + 1);
}
