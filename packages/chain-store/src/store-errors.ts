import { statfsSync } from "node:fs";
import { AppError, isAppError, thrownCode } from "@turnpike/base";

/**
 * Codes of the operating system that say there is no room: EFBIG, ENOSPC, EDQUOT on Linux and on macOS. And EIO: LMDB
 * gives it when a write was cut short, which is how a disk that fills up begins.
 */
const NO_ROOM = new Set([5, 27, 28, 69, 122]);
/** LMDB's codes for pages that are not what they should be: MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PROBLEM. */
const DAMAGE = new Set([-30797, -30796, -30779]);

/** Room on a folder's disk, in bytes; undefined where the system does not say. */
export function freeBytesOf(folder: string): number | undefined {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

function freeText(folder: string): string {
  const freeBytes = freeBytesOf(folder);
  return freeBytes === undefined ? "" : ` (${(freeBytes / 1_000_000).toFixed(1)} MB free)`;
}

/** Converts what LMDB or the file system throws into an {@link AppError} that names the folder and what to do. */
export function storeError(folder: string, cause: unknown): AppError {
  if (isAppError(cause)) return cause;
  const code = thrownCode(cause);
  const detail = { folder };
  if (code === "ENOSPC" || code === "EDQUOT" || (typeof code === "number" && NO_ROOM.has(code))) {
    return new AppError("CHAIN_STORE_FULL", {
      message: `There is no room for the chain's store in ${folder}${freeText(folder)}, or its disk fails; nothing was written. Make room on that disk.`,
      detail,
      cause,
    });
  }
  if (typeof code === "number" && DAMAGE.has(code)) {
    return new AppError("CHAIN_STORE_DAMAGED", {
      message: `The chain's store in ${folder} is damaged: ${cause instanceof Error ? cause.message : "unknown"}.`,
      detail,
      cause,
    });
  }
  return refusedStore(folder, cause instanceof Error ? cause.message : "unknown", cause);
}

/** A store that cannot be used, and why. */
export function refusedStore(folder: string, why: string, cause?: unknown): AppError {
  return new AppError("CHAIN_STORE", {
    message: `The chain's store in ${folder} cannot be used: ${why}.`,
    detail: { folder },
    cause,
  });
}
