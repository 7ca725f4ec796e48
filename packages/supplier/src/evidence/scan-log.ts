import type { FileHandle } from "node:fs/promises";
import { type FoundRecord, HEADER_BYTES, nextMark, PREAMBLE_BYTES, readPreamble, readRecord } from "./records.ts";

/** What a scan of a log found besides its records. */
export interface LogScan {
  /** Of its checksums. */
  readonly salt: number;
  /** Where the last whole record ends: what follows was never finished, and is cut. */
  readonly endBytes: number;
  /** Bytes behind {@link endBytes}. */
  readonly tornBytes: number;
  /** Bytes before it that are part of no record: damage that a crash while writing does not do. */
  readonly damagedBytes: number;
  readonly records: number;
}

const PART_BYTES = 1_048_576;

/**
 * Reads all records of a log in order, one part of the file at a time, and lets other work in between. Bytes that are no
 * record are stepped over to the next record that is whole; only when none follows are they a torn end. Undefined when the file does not begin as a log does.
 */
export async function scanLog(file: FileHandle, record: (found: FoundRecord) => void): Promise<LogScan | undefined> {
  const first = Buffer.alloc(PREAMBLE_BYTES);
  const { bytesRead } = await file.read(first, 0, PREAMBLE_BYTES, 0);
  const salt = readPreamble(first.subarray(0, bytesRead));
  if (salt === undefined) return undefined;
  let part = Buffer.alloc(0);
  let base = PREAMBLE_BYTES;
  let at = 0;
  let endBytes = PREAMBLE_BYTES;
  let damagedBytes = 0;
  let records = 0;
  let isEnd = false;
  /** Makes the part longer, by dropping what was read and reading on. */
  const extend = async (needed: number): Promise<void> => {
    const rest = part.subarray(at);
    const more = Buffer.allocUnsafe(Math.max(PART_BYTES, needed - rest.length));
    const { bytesRead } = await file.read(more, 0, more.length, base + part.length);
    isEnd = bytesRead === 0;
    base += at;
    at = 0;
    part = Buffer.concat([rest, more.subarray(0, bytesRead)]);
  };
  for (;;) {
    const found = readRecord(part, at, base, salt);
    if (found.kind === "record") {
      damagedBytes += base + at - endBytes;
      at = found.end;
      endBytes = base + at;
      records++;
      record(found.record);
      continue;
    }
    if (found.kind === "short" && !isEnd) {
      await extend(found.needed);
      continue;
    }
    if (isEnd && part.length - at < HEADER_BYTES) break;
    // A record that is not whole: the next one may begin anywhere behind its first byte.
    const next = nextMark(part, at + 1);
    if (next !== -1) at = next;
    else {
      at = Math.max(at + 1, part.length - 3);
      if (isEnd) break;
      await extend(HEADER_BYTES);
    }
  }
  const size = base + part.length;
  return { salt, endBytes, tornBytes: size - endBytes, damagedBytes, records };
}
