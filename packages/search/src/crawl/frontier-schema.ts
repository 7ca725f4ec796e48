import type { DatabaseSync } from "node:sqlite";
import { AppError } from "@turnpike/base";
import { openClosedDatabase } from "../closed-database.ts";

const VERSION = 1;

// `run` is the run that last met an item; `asked` the last that sent a request for it. `doc` is 1 while the index holds
// the item's document.
const SCHEMA = `
  CREATE TABLE source (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, run INTEGER NOT NULL, is_open INTEGER NOT NULL,
    is_rechecked INTEGER NOT NULL, removed INTEGER NOT NULL, dropped INTEGER NOT NULL, twin TEXT
  ) STRICT;
  CREATE TABLE item (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, is_listing INTEGER NOT NULL, url TEXT NOT NULL, host TEXT NOT NULL,
    depth INTEGER NOT NULL, redirects INTEGER NOT NULL, run INTEGER NOT NULL, waiting INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, asked INTEGER NOT NULL DEFAULT 0, outcome TEXT, doc INTEGER NOT NULL DEFAULT 0,
    etag TEXT, modified TEXT, hash TEXT, canonical TEXT, links TEXT, fetched_ms INTEGER NOT NULL DEFAULT 0,
    UNIQUE (source, is_listing, url)
  ) STRICT;
  CREATE INDEX item_waiting ON item (source, host, depth, id) WHERE waiting = 1;
  CREATE INDEX item_run ON item (source, run, waiting);
  CREATE INDEX item_hash ON item (source, hash) WHERE hash IS NOT NULL;
  CREATE INDEX item_canonical ON item (source, canonical) WHERE canonical IS NOT NULL;
  CREATE TABLE variant (source INTEGER NOT NULL, path TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (source, path))
    STRICT, WITHOUT ROWID;
  CREATE TABLE robots (origin TEXT PRIMARY KEY, text TEXT NOT NULL, fetched_ms INTEGER NOT NULL) STRICT;
  PRAGMA user_version = ${VERSION};
`;

/**
 * Opens the file of the crawl's state for one process alone; the lock ends with the process, however it ends.
 * @throws AppError SOURCE_REFUSED when another crawl has it, or it is something else.
 */
export function openState(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    db = openClosedDatabase(file, { timeout: 0 });
    // After a power failure the last pages may be missing from the state; they are fetched again.
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    db.exec("BEGIN IMMEDIATE");
    const version = Number(db.prepare("PRAGMA user_version").get()?.user_version ?? 0);
    if (version === 0) db.exec(SCHEMA);
    db.exec("COMMIT");
    if (version !== 0 && version !== VERSION) throw new AppError("SOURCE_REFUSED", { message: strange(file) });
    return db;
  } catch (cause) {
    db?.close();
    if (cause instanceof AppError) throw cause;
    const isBusy = cause instanceof Error && "errcode" in cause && cause.errcode === 5;
    const message = isBusy ? `Another crawl is using ${file}.` : strange(file);
    throw new AppError("SOURCE_REFUSED", { message, cause });
  }
}

const strange = (file: string): string => `${file} is no crawl state of this version: remove it and index again.`;
