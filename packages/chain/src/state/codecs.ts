import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { AppError, bytesToUtf8, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { decodeMessage, encodeMessage } from "@turnpike/proto";
import { joinBytes } from "./bytes.ts";

/** How one part of a key, or a value, is written. */
export interface Codec<T> {
  encode(value: T): Bytes;
  /** @throws AppError CHAIN_STORE_DAMAGED when the bytes are not of this kind */
  decode(bytes: Bytes): T;
}

/** A key that knows where it ends inside longer bytes. */
export interface KeyCodec<K> extends Codec<K> {
  /** How many bytes at the beginning are this key; undefined: all of them. */
  readonly length?: (bytes: Bytes) => number;
}

const damaged = (what: string): AppError => new AppError("CHAIN_STORE_DAMAGED", { detail: { damaged: what } });
const unwritable = (what: string): AppError => new AppError("INTERNAL", { detail: { unwritable: what } });

/** Bytes as they are; as a key only in the last place. */
export const rawCodec: KeyCodec<Bytes> = { encode: (value) => value, decode: (bytes) => Uint8Array.from(bytes) };

/** A text in UTF-8; as a key only in the last place. */
export const textCodec: KeyCodec<string> = { encode: utf8ToBytes, decode: (bytes) => bytesToUtf8(bytes) ?? "" };

/** A text that ends in a zero byte; the text must hold none. */
export const endedTextCodec: KeyCodec<string> = {
  encode: (value) => utf8ToBytes(`${value}\0`),
  decode: (bytes) => bytesToUtf8(bytes.subarray(0, -1)) ?? "",
  length: (bytes) => bytes.indexOf(0) + 1,
};

/** A text that ends in a slash, as the keys of actors do in the pages that clients were recorded with; it must hold none. */
export const slashEndedTextCodec: KeyCodec<string> = {
  encode: (value) => utf8ToBytes(`${value}/`),
  decode: (bytes) => bytesToUtf8(bytes.subarray(0, -1)) ?? "",
  length: (bytes) => bytes.indexOf(0x2f) + 1,
};

/** Up to 255 bytes behind their length: an address inside a longer key. */
export const lengthPrefixedCodec: KeyCodec<Bytes> = {
  encode(value) {
    if (value.length > 255) throw unwritable("a key part of over 255 bytes");
    const bytes = new Uint8Array(1 + value.length);
    bytes[0] = value.length;
    bytes.set(value, 1);
    return bytes;
  },
  decode: (bytes) => Uint8Array.from(bytes.subarray(1)),
  length: (bytes) => 1 + (bytes[0] ?? 0),
};

/** An unsigned 64-bit number, big-endian, so that keys are in its order. */
export const uint64Codec: KeyCodec<bigint> = {
  encode(value) {
    // Throws for what is no such number, where a DataView would cut it.
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(value);
    return new Uint8Array(bytes);
  },
  decode(bytes) {
    if (bytes.length !== 8) throw damaged("a 64-bit number");
    return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0);
  },
  length: () => 8,
};

/** A whole number as decimal text, of any size. */
export const bigintTextCodec: Codec<bigint> = {
  encode: (value) => utf8ToBytes(value.toString()),
  decode(bytes) {
    const text = bytesToUtf8(bytes) ?? "";
    if (!/^-?\d+$/.test(text)) throw damaged("a decimal number");
    return BigInt(text);
  },
};

/** One byte, 1 or 0. */
export const booleanCodec: Codec<boolean> = {
  encode: (value) => Uint8Array.of(value ? 1 : 0),
  decode: (bytes) => bytes[0] === 1,
};

/** No key: for what there is one of. */
export const noKey: KeyCodec<undefined> = { encode: () => new Uint8Array(0), decode: () => undefined, length: () => 0 };

/** Two keys one behind the other; the first must know its length. */
export function pairCodec<A, B>(first: KeyCodec<A>, second: KeyCodec<B>): KeyCodec<readonly [A, B]> {
  const firstLength = first.length;
  if (firstLength === undefined) throw unwritable("a key of two parts without a length");
  const secondLength = second.length;
  return {
    encode: ([a, b]) => joinBytes(first.encode(a), second.encode(b)),
    decode(bytes) {
      const length = firstLength(bytes);
      return [first.decode(bytes.subarray(0, length)), second.decode(bytes.subarray(length))];
    },
    ...(secondLength === undefined
      ? {}
      : { length: (bytes: Bytes) => firstLength(bytes) + secondLength(bytes.subarray(firstLength(bytes))) }),
  };
}

/** A protobuf message. */
export function messageCodec<Desc extends DescMessage>(schema: Desc): Codec<MessageShape<Desc>> {
  return {
    encode: (value) => encodeMessage(schema, value),
    decode(bytes) {
      const decoded = decodeMessage(schema, bytes);
      if (!decoded.ok) throw damaged(schema.typeName);
      return decoded.message;
    },
  };
}

/** As a codec, but the same bytes (not equal ones: the very object) are decoded once. Who reads must not change what it gives. */
export function keptCodec<T extends object>(codec: Codec<T>): Codec<T> {
  const kept = new WeakMap<Bytes, T>();
  return {
    encode: (value) => codec.encode(value),
    decode(bytes) {
      const known = kept.get(bytes);
      if (known !== undefined) return known;
      const value = codec.decode(bytes);
      kept.set(bytes, value);
      return value;
    },
  };
}
