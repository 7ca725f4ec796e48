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

/**
 * Opens the index for writing, and creates it where there is none. One writer works at a time: a call waits
 * `busyTimeoutMs` for the others.
 * @throws AppError SEARCH_INDEX for a file that is damaged, of another program or of another version;
 * SEARCH_INDEX_BUSY when another writer held it too long.
 */
export function openIndexWriter(opts: IndexWriterOptions, modules: { readonly log: Log }): IndexWriter {
  const { file } = opts;
  const database = openForWriting(file, opts.busyTimeoutMs ?? 10_000);
  modules.log.debug({ file }, "search index opened for writing");
  try {
    return onIndex(file, () => createWriter(file, database));
  } catch (error) {
    database.close();
    throw error;
  }
}

function createWriter(file: string, database: DatabaseSync): IndexWriter {
  const collectionId = database.prepare(
    "insert into collections (name) values (?) on conflict (name) do update set name = excluded.name returning id",
  );
  const known = database.prepare("select id, digest from documents where url = ?");
  const add = database.prepare(
    "insert into documents (url, title, language, date, collection, digest) values (?, ?, ?, ?, ?, ?) " +
      "on conflict (url) do update set title = excluded.title, language = excluded.language, date = excluded.date, " +
      "collection = excluded.collection, digest = excluded.digest returning id",
  );
  const addText = database.prepare("insert or replace into texts (id, body) values (?, ?)");
  const addTerms = database.prepare(
    "insert into terms (rowid, title, headings, address, body, forms) values (?, ?, ?, ?, ?, ?)",
  );
  const dropTerms = database.prepare("delete from terms where rowid = ?");
  const dropText = database.prepare("delete from texts where id = ?");
  const drop = database.prepare("delete from documents where id = ?");
  const pageOf = database.prepare(
    "select d.id, d.url from documents d where d.collection = (select id from collections where name = ?) and d.id > ? " +
      "order by d.id limit ?",
  );

  // FTS5 leaves row ids behind that no number holds
  for (const statement of [addText, addTerms, dropTerms, dropText, drop]) statement.setReadBigInts(true);

  function transaction<T>(run: () => T): T {
    return onIndex(file, () => {
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

  function putOne(given: SourceDocument): void {
    const document = cleaned(given);
    const digest = digestOf(document);
    const before = known.get(document.url);
    if (before?.digest instanceof Uint8Array && Buffer.compare(before.digest, digest) === 0) return;
    const { url, title, text, language, date } = document;
    const collection = Number(collectionId.get(document.collection.toWellFormed())?.id);
    const id = Number(add.get(url, title, language, date ?? null, collection, digest)?.id);
    addText.run(id, packText(text));
    if (before !== undefined) dropTerms.run(id);
    const terms = documentTerms(document, language);
    addTerms.run(id, terms.title, terms.headings, terms.address, terms.body, terms.forms);
  }

  return {
    put: (documents) =>
      transaction(() => {
        for (const document of documents) putOne(document);
      }),
    remove: (urls) =>
      transaction(() => {
        let removed = 0;
        for (const url of urls) {
          const id = known.get(url)?.id;
          if (id === undefined || id === null) continue;
          dropTerms.run(id);
          dropText.run(id);
          drop.run(id);
          removed++;
        }
        return removed;
      }),
    *urlsOf(collection) {
      let after = 0;
      for (;;) {
        const rows = onIndex(file, () => pageOf.all(collection, after, PAGE));
        for (const row of rows) yield String(row.url);
        if (rows.length < PAGE) return;
        after = Number(rows.at(-1)?.id);
      }
    },
    stats: (): IndexStats => onIndex(file, () => readStats(database, bytesOf(file))),
    optimize: () =>
      onIndex(file, () => {
        database.exec("insert into terms (terms) values ('optimize')");
        // merging leaves about as many free pages as the index has
        database.exec("pragma incremental_vacuum");
        database.exec("pragma wal_checkpoint(truncate)");
      }),
    [Symbol.dispose]() {
      if (!database.isOpen) return;
      try {
        // so that the file is whole by itself when it is copied or moved
        database.exec("pragma wal_checkpoint(truncate)");
      } catch {
        // a reader is in its way: the next one does it
      }
      database.close();
    },
  };
}
