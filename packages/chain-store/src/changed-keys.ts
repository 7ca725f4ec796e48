import { bytesToHeight, heightToBytes } from "./keys.ts";
import { damaged } from "./sealed.ts";
import type { Bytes } from "./types.ts";

/** Most keys of one entry. */
const CHUNK_KEYS = 256;

/** Entries that hold the keys a block changed: height and number → length and bytes of each key. */
export function* changedKeyEntries(heightBlocks: bigint, keys: readonly Bytes[]) {
  for (let at = 0, n = 0; at < keys.length; at += CHUNK_KEYS, n++) {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(n);
    const parts = keys.slice(at, at + CHUNK_KEYS).flatMap((key) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(key.length);
      return [length, key];
    });
    yield [Buffer.concat([heightToBytes(heightBlocks), number]), Buffer.concat(parts)] as const;
  }
}

/** Reads an entry of {@link changedKeyEntries}. */
export function readChangedKeys(entryKey: Buffer, value: Buffer) {
  const keys: Buffer[] = [];
  for (let at = 0; at < value.length; ) {
    const length = at + 2 <= value.length ? value.readUInt16BE(at) : value.length;
    if (at + 2 + length > value.length) throw damaged('a value of "changed"');
    keys.push(value.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return { heightBlocks: bytesToHeight(entryKey), keys };
}
