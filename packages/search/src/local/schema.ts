import { closeSync, openSync, readSync, rmSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { AppError, isRecord } from "@turnpike/base";

/** In the file's header: `TPSX`. */
const APPLICATION_ID = 0x54505358;
/** Version of the tables and of how words are made. Another one means that the file must be made anew. */
const VERSION = 1;

/**
 * `terms` holds no text, only where words stand. `forms` are exact words whose stem is another, and parts of names.
 * The tokenizer gets words that are made already (`words.ts`), parted by spaces: `ascii` leaves them as they are.
 */
const TABLES = `
  create table collections (id integer primary key, name text not null unique) strict;
  create table documents (
    id integer primary key,
    url text not null unique,
    title text not null,
    language text not null,
    date text,
    collection integer not null references collections (id),
    digest blob not null
  ) strict;
  create index documents_of_collection on documents (collection);
  create table texts (id integer primary key references documents (id), body blob not null) strict;
  create virtual table terms using fts5 (
    title, headings, address, body, forms, content = '', contentless_delete = 1, tokenize = 'ascii'
  );
  insert into terms (terms, rank) values ('hashsize', 16777216);
`;

const HEAD = "SQLite format 3\0";

const quoted = (file: string): string => JSON.stringify(file);

/** The error of a file that is no index of ours, or a broken one. */
function indexError(file: string, why: string, cause?: unknown): AppError {
  return new AppError("SEARCH_INDEX", {
    message: `The search index ${quoted(file)} cannot be used: ${why}. Remove it (with its -wal and -shm) and run turnpike search index again, or set search.local.file.`,
    detail: { file },
    ...(cause === undefined ? {} : { cause }),
  });
}

const CODES = { error: 1, busy: 5, locked: 6, ioError: 10, corrupt: 11, full: 13, cantOpen: 14, notADatabase: 26 };

function sqliteCode(error: unknown): number | undefined {
  return isRecord(error) && typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}

/** What an error of SQLite means for the one who asked; other errors as they are. */
function toAppError(file: string, error: unknown): unknown {
  const code = sqliteCode(error);
  if (code === CODES.busy || code === CODES.locked) {
    return new AppError("SEARCH_INDEX_BUSY", {
      message: `Another process is writing the search index ${quoted(file)}.`,
      detail: { file },
      cause: error,
    });
  }
  const message = error instanceof Error ? error.message : "";
  // a broken page can show itself as a table that is not there
  const hasLostTable = code === CODES.error && /vtable constructor failed|no such (?:table|column)/u.test(message);
  if (code === CODES.corrupt || code === CODES.notADatabase || hasLostTable)
    return indexError(file, "it is damaged", error);
  if (code === CODES.full || code === CODES.ioError || code === CODES.cantOpen) {
    return new AppError("SEARCH_INDEX", {
      message: `The search index ${quoted(file)} cannot be read or written: ${message}. Check the disk's space and the folder's rights.`,
      detail: { file },
      cause: error,
    });
  }
  return error;
}

/** Runs it; errors of SQLite become errors that name the file. */
export function onIndex<T>(file: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw toAppError(file, error);
  }
}

/** False for a missing or empty file. Throws for one that is no SQLite database: SQLite would write into some of them. */
function holdsDatabase(file: string): boolean {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return false;
  if (!stat.isFile()) throw indexError(file, "it is not a file");
  if (stat.size === 0) return false;
  const head = Buffer.alloc(HEAD.length);
  const handle = openSync(file, "r");
  try {
    readSync(handle, head, 0, head.length, 0);
  } finally {
    closeSync(handle);
  }
  if (head.toString("latin1") !== HEAD) throw indexError(file, "it is not an index, or it is damaged");
  return true;
}

function numberOf(database: DatabaseSync, pragma: string): number {
  return Number(database.prepare(`pragma ${pragma}`).get()?.[pragma]);
}

/** `empty`: a database without tables, such as a writer leaves that was killed at its very start. */
function checkStamp(file: string, database: DatabaseSync): "ours" | "empty" {
  const id = numberOf(database, "application_id");
  const version = numberOf(database, "user_version");
  if (id === 0 && version === 0) {
    const tables = Number(database.prepare("select count(*) as n from sqlite_master").get()?.n);
    if (tables === 0) return "empty";
  }
  if (id !== APPLICATION_ID) throw indexError(file, "it belongs to another program");
  if (version !== VERSION) throw indexError(file, `it has version ${version}, and this Turnpike wants ${VERSION}`);
  return "ours";
}

/** True when the file was not there: then it is now, and this call has made it. */
function createdHere(file: string): boolean {
  try {
    // What is indexed may be private. SQLite gives its other files the rights of this one.
    closeSync(openSync(file, "wx", 0o600));
    return true;
  } catch (error) {
    if (isRecord(error) && error.code === "EEXIST") return false;
    const message = `The search index ${quoted(file)} cannot be made: its folder is missing or cannot be written.`;
    throw new AppError("SEARCH_INDEX", { message, detail: { file }, cause: error });
  }
}

/** Opens the index for writing, and makes its tables where they are missing. */
export function openForWriting(file: string, busyTimeoutMs: number): DatabaseSync {
  return onIndex(file, () => {
    const fresh = !holdsDatabase(file);
    if (fresh && createdHere(file)) {
      // left by an index that was removed: a service that still has them mapped must not share them with the new one
      for (const suffix of ["-wal", "-shm"]) rmSync(`${file}${suffix}`, { force: true });
    }
    const database = new DatabaseSync(file, { timeout: busyTimeoutMs });
    try {
      if (fresh) database.exec("pragma auto_vacuum = incremental");
      else checkStamp(file, database);
      database.exec("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536");
      database.exec("begin immediate");
      if (checkStamp(file, database) === "empty") {
        database.exec(TABLES);
        database.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${VERSION}`);
      }
      database.exec("commit");
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/** Opens the index for reading; undefined when there is none yet, or an empty one. */
export function openForReading(file: string): DatabaseSync | undefined {
  return onIndex(file, () => {
    if (!holdsDatabase(file)) return undefined;
    const database = new DatabaseSync(file, { readOnly: true, timeout: 2_000, defensive: true });
    try {
      if (checkStamp(file, database) === "empty") {
        database.close();
        return undefined;
      }
      database.exec("pragma cache_size = -32768");
      database.exec("create virtual table temp.vocabulary using fts5vocab (main, terms, row)");
      return database;
    } catch (error) {
      if (database.isOpen) database.close();
      throw error;
    }
  });
}

/** Bytes of the index on disk: its file, and what is written but not merged into it yet. */
export function bytesOf(file: string): number {
  return ["", "-wal"].reduce(
    (sum, suffix) => sum + (statSync(`${file}${suffix}`, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}
