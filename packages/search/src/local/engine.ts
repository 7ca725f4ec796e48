import { AppError, isAppError, type Log } from "@turnpike/base";
import type { EngineHit, IndexStats, SearchEngine, SourceDocument } from "../types.ts";
import { ThreadPool } from "./thread-pool.ts";

/** The index as an engine, and what else is read of it. */
export interface LocalEngine extends SearchEngine {
  /** The document of an address, as it was indexed; undefined when it is not there. */
  document(url: string): Promise<SourceDocument | undefined>;
  /** What the index holds; nothing while there is none. @throws AppError SEARCH_INDEX when it cannot be read. */
  stats(): Promise<IndexStats>;
}

export interface LocalEngineOptions {
  /** The index's file. It may come later, be written meanwhile, or be replaced. */
  readonly file: string;
  readonly threads: number;
  /** Longest time of one search, waiting included. */
  readonly timeoutMs: number;
  /** Longest passage of a result, in characters; 320 by default. */
  readonly maxSnippetChars?: number;
  /** Most searches that wait for a thread; 256 by default. */
  readonly maxQueued?: number;
  /** Name in answers; `local` by default. */
  readonly id?: string;
}

const WEB = /^https?:\/\//iu;

/** Opens the index of a file for searching, in threads of its own. An index that is not there yet has no hits. */
export function openLocalEngine(opts: LocalEngineOptions, modules: { readonly log: Log }): LocalEngine {
  const pool = new ThreadPool(
    {
      file: opts.file,
      threads: opts.threads,
      timeoutMs: opts.timeoutMs,
      maxSnippetChars: opts.maxSnippetChars ?? 320,
      maxQueued: opts.maxQueued ?? 256,
    },
    modules,
  );
  return {
    id: opts.id ?? "local",
    async search({ query, maxResults }, signal) {
      try {
        const ask = (budgetMs: number) => ({ ask: "search", query, maxResults, budgetMs }) as const;
        const hits = (await pool.ask(ask, signal)) as readonly EngineHit[];
        return hits.filter(({ url }) => WEB.test(url));
      } catch (cause) {
        // to a search a damaged index is an engine that failed; `stats` says why
        if (!isAppError(cause, "SEARCH_INDEX")) throw cause;
        throw new AppError("SEARCH_ENGINE_FAILED", { message: "The local index cannot be read.", cause });
      }
    },
    async document(url) {
      return (await pool.ask(() => ({ ask: "document", url }))) as SourceDocument | undefined;
    },
    async stats() {
      return (await pool.ask(() => ({ ask: "stats" }))) as IndexStats;
    },
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}
