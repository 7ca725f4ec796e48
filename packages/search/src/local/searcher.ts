import { statSync } from "node:fs";
import type { EngineHit, IndexStats, SourceDocument } from "../types.ts";
import { IndexReader } from "./reader.ts";
import { onIndex, openForReading } from "./schema.ts";
import { NO_STATS } from "./stats.ts";

export interface SearcherOptions {
  readonly file: string;
  readonly maxSnippetChars: number;
}

function identityOf(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined || stat.size === 0 ? undefined : `${stat.dev}:${stat.ino}`;
}

/**
 * One index, read by one thread, synchronously. A file that appears, vanishes or is replaced is noticed at the next
 * call; without a file there are no results.
 */
export class IndexSearcher implements Disposable {
  readonly #options: SearcherOptions;
  #reader: IndexReader | undefined;

  constructor(options: SearcherOptions) {
    this.#options = options;
  }

  /**
   * Results, best first.
   * @throws AppError SEARCH_INDEX; SEARCH_ENGINE_FAILED after `deadlineMs` (of `performance.now()`).
   */
  search(query: string, maxResults: number, deadlineMs: number): readonly EngineHit[] {
    return this.#run([], (reader) => reader.search(query, maxResults, deadlineMs));
  }

  document(url: string): SourceDocument | undefined {
    return this.#run(undefined, (reader) => reader.document(url));
  }

  stats(): IndexStats {
    return this.#run(NO_STATS, (reader) => reader.stats());
  }

  [Symbol.dispose](): void {
    this.#reader?.[Symbol.dispose]();
  }

  #run<T>(none: T, use: (reader: IndexReader) => T): T {
    try {
      return onIndex(this.#options.file, () => {
        const reader = this.#current();
        return reader === undefined ? none : use(reader);
      });
    } catch (error) {
      // what is broken now may be fixed or replaced at the next call
      this.#close();
      throw error;
    }
  }

  #current(): IndexReader | undefined {
    const { file, maxSnippetChars } = this.#options;
    const identity = identityOf(file);
    if (this.#reader !== undefined && this.#reader.identity === identity) return this.#reader;
    this.#close();
    if (identity === undefined) return undefined;
    const database = openForReading(file);
    if (database === undefined) return undefined;
    try {
      this.#reader = new IndexReader({ file, identity, maxSnippetChars }, database);
      return this.#reader;
    } catch (error) {
      database.close();
      throw error;
    }
  }

  #close(): void {
    this.#reader?.[Symbol.dispose]();
    this.#reader = undefined;
  }
}
