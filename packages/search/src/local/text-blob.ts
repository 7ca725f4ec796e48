import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { AppError, utf8ToBytes } from "@turnpike/base";

const PLAIN = 0;
const ZSTD = 1;
/** Longest text of one document, in UTF-16 units; the rest is not indexed. */
export const MAX_TEXT_LENGTH = 1_048_576;

/** A text as it is kept: a byte that says how, and what follows. */
export function packText(text: string): Uint8Array {
  const bytes = utf8ToBytes(text);
  const packed = zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 6 } });
  const [how, kept] = packed.length < bytes.length ? [ZSTD, packed] : [PLAIN, bytes];
  const blob = new Uint8Array(kept.length + 1);
  blob[0] = how;
  blob.set(kept, 1);
  return blob;
}

/** The text of a blob. */
export function unpackText(blob: unknown): string {
  if (!(blob instanceof Uint8Array) || blob.length === 0) return "";
  const kept = blob.subarray(1);
  if (blob[0] === PLAIN) return Buffer.from(kept.buffer, kept.byteOffset, kept.length).toString("utf8");
  if (blob[0] !== ZSTD)
    throw new AppError("SEARCH_INDEX", { message: "The search index keeps a text in an unknown way." });
  return zstdDecompressSync(kept, { maxOutputLength: MAX_TEXT_LENGTH * 3 }).toString("utf8");
}
