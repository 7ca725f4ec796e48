import { chmod, stat } from "node:fs/promises";
import { AppError } from "@turnpike/base";

/** SQLite's code for a database that somebody else has locked. */
const BUSY = 5;

/** The lock of a journal, held until it is disposed. */
export interface JournalLock extends Disposable {
  /** False when the lock file is no more the one that was locked: another process may have locked the one in its place. */
  isHeld(): Promise<boolean>;
}

/** Which file a path leads to; undefined when there is none. */
async function identityOf(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : `${found.dev} ${found.ino}`;
}

/**
 * Takes the lock of a journal, for as long as the process lives or until it is disposed. The lock is that of the
 * operating system on `<file>.lock`, by way of SQLite: it ends with its process, however that dies, so there is no
 * stale one to judge. The empty lock file stays.
 *
 * Only SQLite may open the lock file: POSIX drops a process's locks on a file when the process closes any
 * descriptor of it. SQLite keeps count of its own, also for other journals of this process (its `os_unix.c`, "Posix
 * Advisory Locking").
 * @throws AppError SPEND_JOURNAL when another process, or another journal of this one, holds it.
 */
export async function lockJournal(file: string): Promise<JournalLock> {
  // Loaded when a file is wanted: the other commands do without it.
  const { DatabaseSync } = await import("node:sqlite");
  const path = `${file}.lock`;
  const database = new DatabaseSync(path);
  try {
    database.exec("BEGIN EXCLUSIVE");
    await chmod(path, 0o600);
  } catch (cause) {
    database.close();
    if (!(cause instanceof Error) || !("errcode" in cause) || cause.errcode !== BUSY) throw cause;
    throw new AppError("SPEND_JOURNAL", {
      message: `${file} is in use by another process, and one budget is spent by one at a time; nothing was signed.`,
      cause,
    });
  }
  const locked = await identityOf(path);
  return {
    isHeld: async () => locked !== undefined && (await identityOf(path)) === locked,
    [Symbol.dispose]: () => database.close(),
  };
}
