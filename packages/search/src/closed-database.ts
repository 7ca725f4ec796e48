import { closeSync, openSync } from "node:fs";
import { DatabaseSync, type DatabaseSyncOptions } from "node:sqlite";

/** Opens a database for writing; a new one is closed to other users. SQLite gives its other files the rights of this one. */
export function openClosedDatabase(file: string, options: DatabaseSyncOptions = {}): DatabaseSync {
  // Made before SQLite does, which would leave it open by the usual umask.
  closeSync(openSync(file, "a", 0o600));
  return new DatabaseSync(file, options);
}
