/** What is asked of every engine. */
export interface EngineQuery {
  /** As received: anything a client may write, at most 16 KiB. */
  readonly query: string;
  /** Most results, 1 to 50. */
  readonly maxResults: number;
}

/** One result of one engine, best first in its list. */
export interface EngineHit {
  readonly title: string;
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  /** Plain text, without markup. */
  readonly snippet: string;
  /** When the page was published or changed, ISO 8601 (a day or an instant); undefined when unknown. */
  readonly date: string | undefined;
}

/** A place that is searched. */
export interface SearchEngine extends AsyncDisposable {
  /** Unique in one service: `local`, `searxng`, `brave`, `tavily`, `exa`, or as the configuration names it. */
  readonly id: string;
  /**
   * The results, best first; no hits are an empty list.
   * Rejects with AppError SEARCH_ENGINE_FAILED, or with the signal's reason.
   */
  search(query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]>;
}

/** One result as it is answered: what the engines found, merged. */
export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
  /** 0 to 1, the best result of an answer nearest to 1; comparable within one answer only. */
  readonly score: number;
  /** Ids of the engines that found it, best rank first, joined by commas. */
  readonly source: string;
  /** ISO 8601, or null when unknown. */
  readonly date: string | null;
}

/** How one engine did in one search. */
export interface EngineReport {
  readonly id: string;
  readonly status: "ok" | "failed" | "timed_out";
  /** Hits that it gave, before merging. */
  readonly results: number;
  readonly took_ms: number;
}

/** The body of a 200 of `POST /v1/search`. */
export interface SearchAnswer {
  /** As received, byte for byte once parsed. */
  readonly query: string;
  readonly results: readonly SearchResult[];
  /** True when an engine failed or was late, so that there may be more. */
  readonly partial: boolean;
  readonly engines: readonly EngineReport[];
  readonly took_ms: number;
}

/** A document as the index takes it: what extraction made of a page or file. */
export interface SourceDocument {
  /** Absolute; it is the document's key, so that the same URL replaces what was there. */
  readonly url: string;
  readonly title: string;
  /** Main text, plain, paragraphs parted by newlines. */
  readonly text: string;
  /** ISO 639-1; undefined lets the index detect it. */
  readonly language: string | undefined;
  /** ISO 8601; undefined when unknown. */
  readonly date: string | undefined;
  /** Name of the source that it belongs to, such as a folder's path or a site's origin: a source is re-indexed as a whole. */
  readonly collection: string;
}

/** What an index holds. */
export interface IndexStats {
  readonly documents: number;
  /** Size of the files on disk, in bytes. */
  readonly bytes: number;
  readonly collections: readonly { readonly name: string; readonly documents: number }[];
  readonly languages: Readonly<Record<string, number>>;
}

/**
 * The one who writes an index. Synchronous: it runs in a command, not in the service. The service may read meanwhile.
 * Each call is one transaction, durable when it returns; after a crash the index holds whole documents only.
 */
export interface IndexWriter extends Disposable {
  /** Adds documents, or replaces those of the same URL. */
  put(documents: readonly SourceDocument[]): void;
  /** Removes documents; how many were there. */
  remove(urls: readonly string[]): number;
  /** URLs of a collection, in pages. */
  urlsOf(collection: string): Iterable<string>;
  stats(): IndexStats;
  /** Merges the index's segments; after much was written it makes queries faster. */
  optimize(): void;
}

/** A page or file before extraction. */
export interface RawPage {
  readonly url: string;
  /** Media type with parameters as sent, or guessed from a file's name; undefined when unknown. */
  readonly contentType: string | undefined;
  readonly body: Uint8Array;
  /** `Last-Modified` or the file's time, ISO 8601. */
  readonly modified: string | undefined;
}

/** A heading of a page. */
export interface PageHeading {
  readonly title: string;
  /** Its anchor, as GitHub names it; unique in the page. */
  readonly slug: string;
  /** 1 to 6. */
  readonly level: number;
  /** Where it begins in the page's text, in UTF-16 units. */
  readonly at: number;
}

/** What extraction makes of a page. */
export type Extracted =
  | {
      readonly ok: true;
      readonly title: string;
      readonly text: string;
      readonly language: string | undefined;
      readonly date: string | undefined;
      /** Absolute URLs without fragments, each once, in the page's order, bounded. */
      readonly links: readonly string[];
      /** `rel=canonical`, absolute; undefined without one. */
      readonly canonical: string | undefined;
      /** What the page itself forbids (robots meta tags). */
      readonly noIndex: boolean;
      readonly noFollow: boolean;
      /** In the page's order, bounded; undefined where they are not known. */
      readonly headings?: readonly PageHeading[];
    }
  | {
      readonly ok: false;
      /** `unsupported`: not text; `empty`: nothing to index; `too_large`; `timed_out`; `broken`: cannot be read as what it says it is. */
      readonly reason: "unsupported" | "empty" | "too_large" | "timed_out" | "broken";
    };

/** Reads pages in a worker, within time and memory. */
export interface Extractor extends AsyncDisposable {
  extract(page: RawPage, signal?: AbortSignal): Promise<Extracted>;
}

/** Progress of indexing one source. */
export interface IndexProgress {
  /** Pages or files looked at so far. */
  readonly seen: number;
  /** Pages or files put into the index; a long one is several documents. */
  readonly indexed: number;
  /** Unchanged since the last time: not read again. */
  readonly unchanged: number;
  /** Not taken: refused by robots.txt, unsupported, failed. */
  readonly skipped: number;
  /** Known and still to do; undefined when unknown. */
  readonly waiting: number | undefined;
  /** What is being worked on. */
  readonly current: string | undefined;
}

/** Result of indexing one source. */
export interface IndexReport extends IndexProgress {
  /** Documents whose pages or files are gone. */
  readonly removed: number;
  /** Why pages were skipped, by reason. */
  readonly reasons: Readonly<Record<string, number>>;
  /** True when limits (pages, depth, time) or the caller's signal ended it before all was done. */
  readonly incomplete: boolean;
}
