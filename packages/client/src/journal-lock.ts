import { chmod, stat } from "node:fs/promises";
import { AppError, type FaultPoints, isAppError, noFaults } from "@turnpike/base";

type Database = typeof import("node:sqlite").DatabaseSync;

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

/** Maximum times that a lock file is looked for again, because another process removed it. */
const MAX_ATTEMPTS = 20;

function inUse(file: string, cause?: unknown): AppError {
  return new AppError("SPEND_JOURNAL", {
    message: `${file} is in use by another process, and one budget is spent by one at a time; nothing was signed.`,
    cause,
  });
}

/** True for the error of a journal that another process has: it is whole, and free when that process ends. */
export function isJournalInUse(error: unknown): boolean {
  if (!isAppError(error, "SPEND_JOURNAL") || !(error.cause instanceof Error)) return false;
  return "errcode" in error.cause && error.cause.errcode === BUSY;
}

/** Locks the file that the path leads to now; undefined where another one has taken its place meanwhile, or it was made only now. */
async function lockOnce(file: string, DatabaseSync: Database, faults: FaultPoints): Promise<JournalLock | undefined> {
  const path = `${file}.lock`;
  const before = await identityOf(path);
  const database = new DatabaseSync(path);
  try {
    await faults.reach("journal.lock");
    database.exec("BEGIN EXCLUSIVE");
    const locked = await identityOf(path);
    // Between the two a process that was the last to need it may have removed the file that is locked here.
    if (locked === undefined || locked !== before) {
      database.close();
      return undefined;
    }
    await chmod(path, 0o600);
    return {
      isHeld: async () => (await identityOf(path)) === locked,
      [Symbol.dispose]: () => database.close(),
    };
  } catch (cause) {
    database.close();
    if (!(cause instanceof Error) || !("errcode" in cause) || cause.errcode !== BUSY) throw cause;
    throw inUse(file, cause);
  }
}

/**
 * Takes the lock of a journal, for as long as the process lives or until it is disposed. The lock is that of the
 * operating system on `<file>.lock`, by way of SQLite: it ends with its process, however that dies, so there is no
 * stale one to judge. The lock file is empty. Only who holds the lock may remove it.
 *
 * Only SQLite may open the lock file: POSIX drops a process's locks on a file when the process closes any
 * descriptor of it. SQLite keeps count of its own, also for other journals of this process (its `os_unix.c`, "Posix
 * Advisory Locking").
 * @throws AppError SPEND_JOURNAL when another process, or another journal of this one, holds it.
 */
export async function lockJournal(file: string, faults: FaultPoints = noFaults): Promise<JournalLock> {
  // Loaded when a file is wanted: the other commands do without it.
  const { DatabaseSync } = await import("node:sqlite");
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const lock = await lockOnce(file, DatabaseSync, faults);
    if (lock !== undefined) return lock;
  }
  throw inUse(file);
}
