import { createHash } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type { Log } from "@turnpike/base";
import type { IndexStats, IndexWriter, SourceDocument } from "../types.ts";
import { documentTerms } from "./document-terms.ts";
import { detectLanguage, languageCode, UNKNOWN_LANGUAGE } from "./languages.ts";
import { bytesOf, onIndex, openForWriting } from "./schema.ts";
import { readStats } from "./stats.ts";
import { MAX_TEXT_LENGTH, packText } from "./text-blob.ts";

export interface IndexWriterOptions {
  /** The index's file; its folder must be there. */
  readonly file: string;
  /** How long a call waits for another writer; 10,000 by default. */
  readonly busyTimeoutMs?: number;
}

const MAX_TITLE = 500;
const PAGE = 1_000;

/** A document as it is kept: bounded, well-formed, without control characters in its title. */
function cleaned(document: SourceDocument): SourceDocument & { readonly language: string } {
  const title = document.title
    .slice(0, MAX_TITLE)
    .toWellFormed()
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim();
  const text = document.text.slice(0, MAX_TEXT_LENGTH).toWellFormed().replaceAll("\0", " ");
  const declared = languageCode(document.language);
  const language = declared === UNKNOWN_LANGUAGE ? detectLanguage(`${title}\n${text}`) : declared;
  return { ...document, url: document.url.toWellFormed(), title, text, language };
}

function digestOf({ title, text, language, date, collection }: SourceDocument): Uint8Array {
  const all = JSON.stringify([title, text, language, date ?? null, collection.toWellFormed()]);
  return createHash("sha256").update(all).digest().subarray(0, 16);
}

const BUSY_TIMEOUT_MS = 10_000;

/**
 * Opens the index for writing, and creates it where there is none. One writer works at a time: a call waits
 * `busyTimeoutMs` for the others.
 * @throws AppError SEARCH_INDEX for a file that is damaged, of another program or of another version;
 * SEARCH_INDEX_BUSY when another writer held it too long.
 */
export function openIndexWriter(opts: IndexWriterOptions, modules: { readonly log: Log }): IndexWriter {
  const { file } = opts;
  const database = openForWriting(file, opts.busyTimeoutMs ?? BUSY_TIMEOUT_MS);
  modules.log.debug({ file }, "search index opened for writing");
  try {
    return onIndex(file, () => new SqliteIndexWriter(file, database));
  } catch (error) {
    database.close();
    throw error;
  }
}

function prepare(database: DatabaseSync) {
  const statements = {
    collectionId: database.prepare(
      "insert into collections (name) values (?) on conflict (name) do update set name = excluded.name returning id",
    ),
    known: database.prepare("select id, digest from documents where url = ?"),
    add: database.prepare(
      "insert into documents (url, title, language, date, collection, digest) values (?, ?, ?, ?, ?, ?) " +
        "on conflict (url) do update set title = excluded.title, language = excluded.language, date = excluded.date, " +
        "collection = excluded.collection, digest = excluded.digest returning id",
    ),
    addText: database.prepare("insert or replace into texts (id, body) values (?, ?)"),
    addTerms: database.prepare(
      "insert into terms (rowid, title, headings, address, body, forms) values (?, ?, ?, ?, ?, ?)",
    ),
    deleteTerms: database.prepare("delete from terms where rowid = ?"),
    deleteText: database.prepare("delete from texts where id = ?"),
    deleteDocument: database.prepare("delete from documents where id = ?"),
    page: database.prepare(
      "select d.id, d.url from documents d where d.collection = (select id from collections where name = ?) and d.id > ? " +
        "order by d.id limit ?",
    ),
  };
  // FTS5 leaves row ids behind that no number holds
  const { addText, addTerms, deleteTerms, deleteText, deleteDocument } = statements;
  for (const statement of [addText, addTerms, deleteTerms, deleteText, deleteDocument]) statement.setReadBigInts(true);
  return statements;
}

class SqliteIndexWriter implements IndexWriter {
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(file: string, database: DatabaseSync) {
    this.#file = file;
    this.#database = database;
    this.#statements = prepare(database);
  }

  put(documents: readonly SourceDocument[]): void {
    this.#transaction(() => {
      for (const document of documents) this.#putOne(document);
    });
  }

  remove(urls: readonly string[]): number {
    const { known, deleteTerms, deleteText, deleteDocument } = this.#statements;
    return this.#transaction(() => {
      let removed = 0;
      for (const url of urls) {
        const id = known.get(url)?.id;
        if (id === undefined || id === null) continue;
        deleteTerms.run(id);
        deleteText.run(id);
        deleteDocument.run(id);
        removed++;
      }
      return removed;
    });
  }

  *urlsOf(collection: string): Iterable<string> {
    let after = 0;
    for (;;) {
      const rows = onIndex(this.#file, () => this.#statements.page.all(collection, after, PAGE));
      for (const row of rows) yield String(row.url);
      if (rows.length < PAGE) return;
      after = Number(rows.at(-1)?.id);
    }
  }

  stats(): IndexStats {
    return onIndex(this.#file, () => readStats(this.#database, bytesOf(this.#file)));
  }

  optimize(): void {
    onIndex(this.#file, () => {
      this.#database.exec("insert into terms (terms) values ('optimize')");
      // merging leaves about as many free pages as the index has
      this.#database.exec("pragma incremental_vacuum");
      this.#database.exec("pragma wal_checkpoint(truncate)");
    });
  }

  [Symbol.dispose](): void {
    if (!this.#database.isOpen) return;
    try {
      // so that the file is whole by itself when it is copied or moved
      this.#database.exec("pragma wal_checkpoint(truncate)");
    } catch {
      // a reader is in its way: the next one does it
    }
    this.#database.close();
  }

  #transaction<T>(run: () => T): T {
    const database = this.#database;
    return onIndex(this.#file, () => {
      database.exec("begin immediate");
      try {
        const made = run();
        database.exec("commit");
        return made;
      } catch (error) {
        if (database.isTransaction) database.exec("rollback");
        throw error;
      }
    });
  }

  #putOne(given: SourceDocument): void {
    const { collectionId, known, add, addText, addTerms, deleteTerms } = this.#statements;
    const document = cleaned(given);
    const digest = digestOf(document);
    const before = known.get(document.url);
    if (before?.digest instanceof Uint8Array && Buffer.compare(before.digest, digest) === 0) return;
    const { url, title, text, language, date } = document;
    const collection = Number(collectionId.get(document.collection.toWellFormed())?.id);
    const id = Number(add.get(url, title, language, date ?? null, collection, digest)?.id);
    addText.run(id, packText(text));
    if (before !== undefined) deleteTerms.run(id);
    const terms = documentTerms(document, language);
    addTerms.run(id, terms.title, terms.headings, terms.address, terms.body, terms.forms);
  }
}
