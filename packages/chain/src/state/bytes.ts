import type { Bytes } from "@turnpike/chain-store";

// What `toString("latin1")` of a Buffer calls, which takes any bytes: without a Buffer around them it costs half as much.
const { latin1Slice } = Buffer.prototype as unknown as {
  readonly latin1Slice: (this: Bytes, from: number, to: number) => string;
};

/** Bytes as a text of one character a byte: equal and ordered as the bytes are, and a key of a Map. */
export function bytesToText(bytes: Bytes): string {
  return latin1Slice.call(bytes, 0, bytes.length);
}

/** Two byte strings one behind the other, for the short ones of keys: a third cheaper than `Buffer.concat`. */
export function joinBytes(first: Bytes, second: Bytes): Bytes {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

/** The bytes of {@link bytesToText}. */
export function textToBytes(text: string): Bytes {
  return new Uint8Array(Buffer.from(text, "latin1"));
}

/** First text after all that begin with the prefix; undefined when there is none. */
export function textAfterPrefix(prefix: string): string | undefined {
  let length = prefix.length;
  while (length > 0 && prefix.charCodeAt(length - 1) === 0xff) length--;
  if (length === 0) return undefined;
  return prefix.slice(0, length - 1) + String.fromCharCode(prefix.charCodeAt(length - 1) + 1);
}
