import { webcrypto } from "node:crypto";
import { promisify } from "node:util";
import { crc32, deflateRaw, inflateRaw } from "node:zlib";
import type { Bytes } from "@turnpike/chain-store";
import { CHUNK_BYTES } from "./format.ts";

const deflated = promisify<Uint8Array, { level: number }, Buffer>(deflateRaw);
const inflated = promisify<Uint8Array, { maxOutputLength: number }, Buffer>(inflateRaw);

/** Longest compressed chunk: what does not become smaller grows by some bytes, and CometBFT's limit is 16 MB. */
export const MAX_PACKED_BYTES: number = CHUNK_BYTES + 65_536;
// The quickest: snapshots are made beside blocks.
const LEVEL = 1;
const SUM_BYTES = 4;

/** SHA-256, worked out beside the thread. */
export async function chunkHash(bytes: Bytes): Promise<Buffer> {
  return Buffer.from(await webcrypto.subtle.digest("SHA-256", new Uint8Array(bytes)));
}

/** A chunk as it is stored and sent: raw deflate. */
export function packChunk(chunk: Bytes): Promise<Buffer> {
  return deflated(chunk, { level: LEVEL });
}

/** Reads an untrusted {@link packChunk}; undefined when it is none, or becomes longer than a chunk. */
export async function unpackChunk(packed: Bytes): Promise<Buffer | undefined> {
  if (packed.length === 0 || packed.length > MAX_PACKED_BYTES) return undefined;
  try {
    return await inflated(packed, { maxOutputLength: CHUNK_BYTES });
  } catch {
    return undefined;
  }
}

/** A file's content: bytes, and their CRC-32, so that a damaged one is not sent. */
export function sealFile(bytes: Bytes): Buffer {
  const sum = Buffer.alloc(SUM_BYTES);
  sum.writeUInt32BE(crc32(bytes));
  return Buffer.concat([bytes, sum]);
}

/** Reads {@link sealFile}; undefined when it is damaged. */
export function unsealFile(content: Buffer): Buffer | undefined {
  const end = content.length - SUM_BYTES;
  if (end < 0) return undefined;
  const bytes = content.subarray(0, end);
  return crc32(bytes) === content.readUInt32BE(end) ? bytes : undefined;
}
