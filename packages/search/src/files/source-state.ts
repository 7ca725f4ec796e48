import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Log } from "@turnpike/base";
import { openClosedDatabase } from "../closed-database.ts";

/** What is remembered of one file. */
export interface FileRecord {
  /** Size, time and whatever else says that the file is the same. */
  readonly stamp: string;
  readonly url: string;
  /** Addresses of its further sections, in their order. */
  readonly sections: readonly string[];
  /** Why it is not in the index; undefined when it is. */
  readonly skipped: string | undefined;
}

/**
 * Which files of a collection were read, and in which state. It is written after the index, never before: lost or old
 * entries cost reading a file again, and nothing else.
 */
export interface SourceState extends Disposable {
  /** Everything of a collection, by path. */
  load(collection: string): Map<string, FileRecord>;
  /** Stores the records of `seen` and deletes those of `gone`, in one transaction. */
  save(collection: string, seen: ReadonlyMap<string, FileRecord>, gone: readonly string[]): void;
}

/** Raised when extraction changes, so that all is read again. */
const VERSION = 2;

/** Opens the memory in a file; one that cannot be read is replaced by an empty one. Without a file nothing is remembered. */
export function openSourceState(file: string | undefined, log: Log): SourceState {
  if (file === undefined) return new SqliteState(new DatabaseSync(":memory:"));
  mkdirSync(dirname(file), { recursive: true });
  try {
    return new SqliteState(openClosedDatabase(file));
  } catch (error) {
    log.warn({ error: String(error) }, "what was known of indexed files cannot be read; they are read again");
    for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(file + suffix, { force: true });
    return new SqliteState(openClosedDatabase(file));
  }
}

class SqliteState implements SourceState {
  readonly #db: DatabaseSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    try {
      db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
      const version = Number(db.prepare("PRAGMA user_version").get()?.user_version ?? 0);
      if (version !== VERSION)
        db.exec(
          `BEGIN IMMEDIATE; DROP TABLE IF EXISTS files;
           CREATE TABLE files (collection TEXT NOT NULL, path TEXT NOT NULL, stamp TEXT NOT NULL, url TEXT NOT NULL,
             sections TEXT NOT NULL, skipped TEXT, PRIMARY KEY (collection, path)) STRICT, WITHOUT ROWID;
           CREATE INDEX files_by_url ON files (url);
           PRAGMA user_version = ${VERSION}; COMMIT`,
        );
    } catch (error) {
      db.close();
      throw error;
    }
  }

  load(collection: string): Map<string, FileRecord> {
    const records = new Map<string, FileRecord>();
    const rows = this.#db.prepare("SELECT path, stamp, url, sections, skipped FROM files WHERE collection = ?");
    for (const { path, stamp, url, sections, skipped } of rows.iterate(collection)) {
      const reason = skipped === null ? undefined : String(skipped);
      const further = listOf(sections);
      records.set(String(path), { stamp: String(stamp), url: String(url), sections: further, skipped: reason });
    }
    return records;
  }

  save(collection: string, seen: ReadonlyMap<string, FileRecord>, gone: readonly string[]): void {
    if (seen.size === 0 && gone.length === 0) return;
    const put = this.#db.prepare("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)");
    const drop = this.#db.prepare("DELETE FROM files WHERE collection = ? AND path = ?");
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      for (const [path, { stamp, url, sections, skipped }] of seen)
        put.run(collection, path, stamp, url, sections.join("\n"), skipped ?? null);
      for (const path of gone) drop.run(collection, path);
      this.#db.exec("COMMIT");
    } catch (error) {
      this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

/** Addresses have no line ends. */
const listOf = (written: unknown): readonly string[] =>
  typeof written !== "string" || written === "" ? [] : written.split("\n");

/**
 * Addresses of a page's further sections, out of the memory that {@link openSourceState} keeps; none when the memory is
 * not there, or does not know the page. Another process may write it meanwhile.
 */
export function furtherSections(file: string, url: string): readonly string[] {
  if (!existsSync(file)) return [];
  try {
    const db = new DatabaseSync(file, { readOnly: true, timeout: 1_000 });
    try {
      return listOf(
        db.prepare("SELECT sections FROM files WHERE url = ? AND skipped IS NULL LIMIT 1").get(url)?.sections,
      );
    } finally {
      db.close();
    }
  } catch {
    // An older memory, or a broken one: the next run of the index writes it anew.
    return [];
  }
}
