import { DatabaseSync } from "node:sqlite";
import type { SourceDocument } from "@turnpike/search";
import type { BuildTarget } from "./work.ts";

/** One FTS5 table with the texts in it, default tokenizer, as durable as ours. */
export function openBare(file: string): BuildTarget & Disposable {
  const database = new DatabaseSync(file);
  database.exec("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536");
  database.exec("create virtual table plain using fts5 (url unindexed, title, text)");
  const add = database.prepare("insert into plain values (?, ?, ?)");
  return {
    put(documents: readonly SourceDocument[]) {
      database.exec("begin immediate");
      for (const { url, title, text } of documents) add.run(url, title, text);
      database.exec("commit");
    },
    optimize() {
      database.exec("insert into plain (plain) values ('optimize')");
      database.exec("pragma wal_checkpoint(truncate)");
    },
    [Symbol.dispose]: () => database.close(),
  };
}
