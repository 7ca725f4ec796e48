import { open } from "node:fs/promises";
import { AppError } from "@turnpike/base";

/** SQLite's code for a database that somebody else has locked. */
const BUSY = 5;

/**
 * Takes the lock of a journal, for as long as the process lives or until it is disposed. The lock is that of the
 * operating system on `<file>.lock`, by way of SQLite: it ends with its process, however that dies, so there is no
 * stale one to judge. The empty lock file stays.
 * @throws AppError SPEND_JOURNAL when another process, or another journal of this one, holds it.
 */
export async function lockJournal(file: string): Promise<Disposable> {
  // Loaded when a file is wanted: the other commands do without it.
  const { DatabaseSync } = await import("node:sqlite");
  const path = `${file}.lock`;
  await (await open(path, "a", 0o600)).close();
  const database = new DatabaseSync(path);
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (cause) {
    database.close();
    if (!(cause instanceof Error) || !("errcode" in cause) || cause.errcode !== BUSY) throw cause;
    throw new AppError("SPEND_JOURNAL", {
      message: `${file} is in use by another process, and one budget is spent by one at a time; nothing was signed.`,
      cause,
    });
  }
  return { [Symbol.dispose]: () => database.close() };
}
