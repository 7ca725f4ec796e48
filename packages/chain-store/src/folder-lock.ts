import { chmod } from "node:fs/promises";
import { AppError } from "@turnpike/base";

/** SQLite's code for a database that somebody else has locked. */
const BUSY = 5;

/**
 * Takes a store's lock for as long as the process lives or until it is disposed. It is the operating system's, by way of
 * SQLite: it ends with its process, however that dies, so there is no stale one to judge. Only SQLite may open
 * the file. The empty file stays.
 * @throws AppError CHAIN_STORE_BUSY when another process, or another store of this one, holds it.
 */
export async function lockFolder(folder: string, file: string): Promise<Disposable> {
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  try {
    // Nothing is ever written there: a journal would only fail on a full disk.
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    await chmod(file, 0o600);
  } catch (cause) {
    database.close();
    if (!(cause instanceof Error) || !("errcode" in cause) || cause.errcode !== BUSY) throw cause;
    throw new AppError("CHAIN_STORE_BUSY", {
      message: `The chain's store in ${folder} is in use by another process.`,
      detail: { folder },
      cause,
    });
  }
  return { [Symbol.dispose]: () => database.close() };
}
