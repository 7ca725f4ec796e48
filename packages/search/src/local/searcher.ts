import { statSync } from "node:fs";
import type { EngineHit, IndexStats, SourceDocument } from "../types.ts";
import { createReader, type Reader } from "./reader.ts";
import { onIndex, openForReading } from "./schema.ts";
import { NO_STATS } from "./stats.ts";

/** One index, read by one thread. Synchronous. */
export interface Searcher extends Disposable {
  /**
   * Results, best first; none where there is no index.
   * @throws AppError SEARCH_INDEX; SEARCH_ENGINE_FAILED after `deadlineMs` (of `performance.now()`).
   */
  search(query: string, maxResults: number, deadlineMs: number): readonly EngineHit[];
  document(url: string): SourceDocument | undefined;
  stats(): IndexStats;
}

export interface SearcherOptions {
  readonly file: string;
  readonly maxSnippetChars: number;
}

function identityOf(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined || stat.size === 0 ? undefined : `${stat.dev}:${stat.ino}`;
}

/** Opens an index to read, whenever there is one: a file that appears, vanishes or is replaced is noticed at the next call. */
export function createSearcher({ file, maxSnippetChars }: SearcherOptions): Searcher {
  let reader: Reader | undefined;

  function current(): Reader | undefined {
    const identity = identityOf(file);
    if (reader !== undefined && reader.identity === identity) return reader;
    reader?.[Symbol.dispose]();
    reader = undefined;
    if (identity === undefined) return undefined;
    const database = openForReading(file);
    if (database === undefined) return undefined;
    try {
      reader = createReader({ file, identity, maxSnippetChars }, database);
      return reader;
    } catch (error) {
      database.close();
      throw error;
    }
  }
  const run = <T>(none: T, use: (one: Reader) => T): T => {
    try {
      return onIndex(file, () => {
        const one = current();
        return one === undefined ? none : use(one);
      });
    } catch (error) {
      // what is broken now may be fixed or replaced at the next call
      reader?.[Symbol.dispose]();
      reader = undefined;
      throw error;
    }
  };
  return {
    search: (query, maxResults, deadlineMs) => run([], (one) => one.search(query, maxResults, deadlineMs)),
    document: (url) => run(undefined, (one) => one.document(url)),
    stats: () => run(NO_STATS, (one) => one.stats()),
    [Symbol.dispose]: () => reader?.[Symbol.dispose](),
  };
}
