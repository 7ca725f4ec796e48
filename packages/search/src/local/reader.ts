import type { DatabaseSync, StatementSync } from "node:sqlite";
import { AppError } from "@turnpike/base";
import type { EngineHit, IndexStats, SourceDocument } from "../types.ts";
import { findCandidates } from "./candidates.ts";
import { addressWords } from "./document-terms.ts";
import { createHitFinder, type HitFinder } from "./hits.ts";
import { UNKNOWN_LANGUAGE } from "./languages.ts";
import { parseQuery } from "./query.ts";
import { type Candidate, rank, termWeights } from "./rank.ts";
import { bytesOf } from "./schema.ts";
import { snippetOf } from "./snippet.ts";
import { readStats } from "./stats.ts";
import { type Term, termsOf } from "./terms.ts";
import { unpackText } from "./text-blob.ts";
import { createVocabulary, type Vocabulary } from "./vocabulary.ts";

interface ReaderOptions {
  readonly file: string;
  readonly identity: string;
  readonly maxSnippetChars: number;
}

/** bm25's weights of title, headings, address, body and forms. */
const COLUMNS = "6, 2.5, 2, 1, 0.5";
const MIN_CANDIDATES = 30;
const MAX_CANDIDATES = 100;
/** Characters of one text, and of all texts of a query, that are read to rank. */
const MAX_READ = 100_000;
const MAX_READ_OF_ALL = 1_500_000;

interface Facts {
  readonly documents: number;
  readonly languages: readonly string[];
  /** Not counted again before this time while a writer is at work. */
  readonly staleMs: number;
}

interface Found extends Candidate {
  readonly shownTitle: string;
  readonly text: string;
  readonly date: string | undefined;
}

const tooLate = (): AppError =>
  new AppError("SEARCH_ENGINE_FAILED", {
    message: "The local index did not answer in time.",
    detail: { reason: "late" },
  });

/** A name for a page without a title: the end of its path, or its host. */
function titleOf(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return url;
  const last = parsed.pathname.split("/").findLast((part) => part !== "");
  return last === undefined ? parsed.hostname : `${parsed.hostname}: ${last}`;
}

const textOrUndefined = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Reads one index file through a connection of `openForReading`. */
export class IndexReader implements Disposable {
  readonly #options: ReaderOptions;
  readonly #database: DatabaseSync;
  readonly #find: StatementSync;
  readonly #read: StatementSync;
  readonly #byUrl: StatementSync;
  readonly #version: StatementSync;
  readonly #count: StatementSync;
  readonly #languagesOf: StatementSync;
  #vocabulary: Vocabulary;
  #facts: Facts = { documents: 0, languages: [], staleMs: 0 };
  #seenVersion: unknown;
  #deadlineMs = Number.POSITIVE_INFINITY;

  constructor(options: ReaderOptions, database: DatabaseSync) {
    this.#options = options;
    this.#database = database;
    // called once in 1,024 rows: a statement that runs cannot be ended from outside
    database.function("in_time", { directOnly: true, varargs: true }, () => {
      this.#checkTime();
      return 1;
    });
    this.#find = database.prepare(
      `select rowid as id, -bm25(terms, ${COLUMNS}) as score from terms ` +
        "where terms match ? and (rowid % 1024 <> 0 or in_time(rowid)) order by score desc, rowid limit ?",
    );
    this.#read = database.prepare(
      "select d.url, d.title, d.language, d.date, t.body from documents d join texts t on t.id = d.id where d.id = ?",
    );
    this.#byUrl = database.prepare(
      "select d.url, d.title, d.language, d.date, c.name, t.body from documents d join texts t on t.id = d.id " +
        "join collections c on c.id = d.collection where d.url = ?",
    );
    this.#version = database.prepare("pragma data_version");
    this.#count = database.prepare("select count(*) as n from documents");
    this.#languagesOf = database.prepare("select language from documents group by language order by count(*) desc");
    this.#vocabulary = createVocabulary(database);
  }

  /** Device and inode of the file, which stay the same when it is renamed. */
  get identity(): string {
    return this.#options.identity;
  }

  /** @throws AppError SEARCH_ENGINE_FAILED after `deadlineMs` (of `performance.now()`) */
  search(query: string, maxResults: number, deadlineMs: number): readonly EngineHit[] {
    this.#deadlineMs = deadlineMs;
    this.#database.exec("begin");
    try {
      return this.#search(query, maxResults);
    } finally {
      if (this.#database.isTransaction) this.#database.exec("rollback");
    }
  }

  document(url: string): SourceDocument | undefined {
    const row = this.#byUrl.get(url);
    if (row === undefined) return undefined;
    return {
      url: String(row.url),
      title: String(row.title),
      text: unpackText(row.body),
      language: row.language === UNKNOWN_LANGUAGE ? undefined : String(row.language),
      date: textOrUndefined(row.date),
      collection: String(row.name),
    };
  }

  stats(): IndexStats {
    return readStats(this.#database, bytesOf(this.#options.file));
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #checkTime(): void {
    if (performance.now() > this.#deadlineMs) throw tooLate();
  }

  #search(query: string, maxResults: number): readonly EngineHit[] {
    const { documents, languages } = this.#refresh();
    if (documents === 0) return [];
    const { terms, excluded, language } = termsOf(parseQuery(query), { languages, ...this.#vocabulary });
    const ids = findCandidates(
      { terms, excluded, wanted: Math.min(MAX_CANDIDATES, Math.max(MIN_CANDIDATES, maxResults * 2)) },
      (expression, limit) =>
        this.#find.all(expression, limit).map(({ id, score }) => ({ id: Number(id), score: Number(score) })),
    );
    const weights = termWeights(terms, documents);
    return rank(this.#readAll(ids, terms), terms, documents, language)
      .slice(0, maxResults)
      .map(({ shownTitle: title, url, text, body, date }) => ({
        title,
        url,
        snippet: snippetOf(text, body, weights, this.#options.maxSnippetChars),
        date,
      }));
  }

  #refresh(): Facts {
    const version = this.#version.get()?.data_version;
    if (this.#seenVersion !== version) this.#vocabulary = createVocabulary(this.#database);
    const startedMs = performance.now();
    if (this.#facts.documents === 0 || (this.#seenVersion !== version && startedMs >= this.#facts.staleMs)) {
      const documents = Number(this.#count.get()?.n);
      const languages = this.#languagesOf.all().map(({ language }) => String(language));
      const endedMs = performance.now();
      // counting may take a twentieth of the time at most
      this.#facts = { documents, languages, staleMs: endedMs + 20 * (endedMs - startedMs) };
    }
    this.#seenVersion = version;
    return this.#facts;
  }

  #readAll(ids: ReadonlyMap<number, number>, terms: readonly Term[]): readonly Found[] {
    const finders = new Map<string, HitFinder>();
    const finderOf = (language: string): HitFinder => {
      const finder = finders.get(language) ?? createHitFinder(terms, language);
      finders.set(language, finder);
      return finder;
    };
    const texts = new Set<string>();
    const found: Found[] = [];
    let left = MAX_READ_OF_ALL;
    for (const [id, bm25] of ids) {
      this.#checkTime();
      const row = this.#read.get(id);
      if (row === undefined) continue;
      const full = unpackText(row.body);
      // the same text under several addresses is one result
      if (full !== "" && texts.has(full)) continue;
      texts.add(full);
      const text = full.slice(0, Math.min(MAX_READ, left));
      left -= text.length;
      const [url, shownTitle, language] = [String(row.url), String(row.title), String(row.language)];
      const finder = finderOf(language);
      found.push({
        id,
        bm25,
        url,
        language,
        title: finder(shownTitle),
        address: finder(addressWords(url)).hits,
        body: finder(text).hits,
        shownTitle: shownTitle === "" ? titleOf(url) : shownTitle,
        text,
        date: textOrUndefined(row.date),
      });
    }
    return found;
  }
}
