import { crc32 } from "node:zlib";
import { AppError } from "@turnpike/base";
import type { Bytes } from "./types.ts";

const CRC_BYTES = 4;

const sumOf = (key: Bytes, bytes: Bytes): number => crc32(bytes, crc32(key));

/** A stored value with a sum over its key and itself: LMDB has none, and a damaged page must not become a state. */
export function seal(key: Bytes, parts: readonly Bytes[]): Buffer {
  const bytes = Buffer.concat([new Uint8Array(CRC_BYTES), ...parts]);
  bytes.writeUInt32BE(sumOf(key, bytes.subarray(CRC_BYTES)));
  return bytes;
}

/**
 * What was given to {@link seal}.
 * @throws AppError CHAIN_STORE_DAMAGED when it is not what was stored there.
 */
export function unseal(table: string, key: Bytes, sealed: Buffer): Buffer {
  const bytes = sealed.subarray(CRC_BYTES);
  if (sealed.length < CRC_BYTES || sealed.readUInt32BE() !== sumOf(key, bytes)) throw damaged(`a value of "${table}"`);
  return bytes;
}

/** The error of a store whose file does not hold what was written. */
export function damaged(what: string, cause?: unknown): AppError {
  return new AppError("CHAIN_STORE_DAMAGED", {
    message: `The chain's store is damaged: ${what} is not what was written.`,
    cause,
  });
}
