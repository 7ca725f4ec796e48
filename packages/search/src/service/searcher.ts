import type { Clock, Log, Metrics } from "@turnpike/base";
import type { WeightedEngine } from "../engines/create-engines.ts";
import { searchCacheBytes, searchCacheHitsTotal } from "../metrics.ts";
import type { EngineReport, SearchAnswer, SearchResult } from "../types.ts";
import { createAnswerCache } from "./answer-cache.ts";
import { type AskModules, askEngine } from "./ask-engines.ts";
import { mergeHits } from "./merge.ts";

export interface SearcherOptions {
  /** Longest time of one search, in milliseconds; engines that are later count as late. */
  readonly timeoutMs: number;
  /** How long an answer may be given again, in seconds; 0 keeps none. */
  readonly cacheSeconds: number;
  /** Most bytes of kept answers. */
  readonly cacheBytes: number;
}

export interface SearcherModules {
  readonly engines: readonly WeightedEngine[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What a search ended in. `failed`: no engine answered. */
export type SearchOutcome =
  | { readonly ok: true; readonly answer: SearchAnswer }
  | { readonly ok: false; readonly engines: readonly EngineReport[] };

/** Asks all engines and merges what they find. */
export interface Searcher extends AsyncDisposable {
  /** `query` as received. Never rejects for what engines do. */
  search(query: string, maxResults: number): Promise<SearchOutcome>;
  /** How each engine did the last time it was asked; undefined: it was not asked yet. */
  lastStatus(id: string): EngineReport["status"] | undefined;
}

/** A search without its question, as it is kept and shared. */
interface Found {
  readonly isAnswered: boolean;
  readonly results: readonly SearchResult[];
  readonly partial: boolean;
  readonly engines: readonly EngineReport[];
}

/**
 * Makes the searcher. Engines are asked at once, each within its own time and that of the whole; what has come until
 * then is answered. Equal questions at once are asked once, and complete answers are kept for a while.
 */
export function createSearcher(opts: SearcherOptions, modules: SearcherModules): Searcher {
  const { engines, clock, metrics } = modules;
  const cache = createAnswerCache<Found>({ ttlMs: opts.cacheSeconds * 1_000, maxBytes: opts.cacheBytes }, { clock });
  const flights = new Map<string, Promise<Found>>();
  const last = new Map<string, EngineReport["status"]>();
  const stopping = new AbortController();
  const askModules: AskModules = modules;

  const askAll = async (query: string, maxResults: number): Promise<Found> => {
    const answers = await Promise.all(
      engines.map(async (one) => {
        const timeoutMs = Math.min(one.timeoutMs, opts.timeoutMs);
        const answer = await askEngine({ ...one, timeoutMs }, { query, maxResults }, stopping.signal, askModules);
        last.set(one.engine.id, answer.report.status);
        return { ...answer, id: one.engine.id, weight: one.weight };
      }),
    );
    const answered = answers.filter(({ failure }) => failure === undefined);
    return {
      isAnswered: answered.length > 0,
      results: mergeHits(answered, maxResults),
      partial: answered.length < answers.length,
      engines: answers.map(({ report }) => report),
    };
  };

  const askOnce = (key: string, query: string, maxResults: number): Promise<Found> => {
    const flight = (async () => {
      try {
        const found = await askAll(query, maxResults);
        if (found.isAnswered && !found.partial) {
          cache.put(key, found, Buffer.byteLength(JSON.stringify(found)) * 2);
          metrics.set(searchCacheBytes, cache.bytes);
        }
        return found;
      } finally {
        flights.delete(key);
      }
    })();
    flights.set(key, flight);
    return flight;
  };

  const find = (trimmed: string, maxResults: number): Found | Promise<Found> => {
    const key = `${maxResults} ${trimmed}`;
    const kept = cache.get(key);
    if (kept !== undefined) {
      metrics.count(searchCacheHitsTotal, { kind: "kept" });
      return kept;
    }
    const under = flights.get(key);
    if (under === undefined) return askOnce(key, trimmed, maxResults);
    metrics.count(searchCacheHitsTotal, { kind: "joined" });
    return under;
  };

  return {
    async search(query, maxResults) {
      const startMs = clock.monotonicMs();
      const { isAnswered, results, partial, engines: reports } = await find(query.trim(), maxResults);
      if (!isAnswered) return { ok: false, engines: reports };
      const took_ms = Math.round(clock.monotonicMs() - startMs);
      return { ok: true, answer: { query, results, partial, engines: reports, took_ms } };
    },
    lastStatus: (id) => last.get(id),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled(flights.values());
    },
  };
}
