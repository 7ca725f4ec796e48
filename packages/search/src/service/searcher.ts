import type { Clock, Log, Metrics } from "@turnpike/base";
import type { WeightedEngine } from "../engines/create-engines.ts";
import { searchCacheBytes, searchCacheHitsTotal } from "../metrics.ts";
import type { EngineReport, SearchAnswer, SearchResult } from "../types.ts";
import { AnswerCache } from "./answer-cache.ts";
import { askEngine } from "./ask-engines.ts";
import { mergeHits } from "./merge.ts";

export interface SearcherOptions {
  /** Longest time of one search, in milliseconds; engines that are later count as late. */
  readonly timeoutMs: number;
  /** How long an answer may be given again, in seconds; 0 keeps none. */
  readonly cacheSeconds: number;
  /** Most bytes of kept answers. */
  readonly cacheBytes: number;
}

interface SearcherModules {
  readonly engines: readonly WeightedEngine[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What a search ended in. `failed`: no engine answered. */
export type SearchOutcome =
  | { readonly ok: true; readonly answer: SearchAnswer }
  | { readonly ok: false; readonly engines: readonly EngineReport[] };

/** A search without its question, as it is kept and shared. */
interface Found {
  readonly isAnswered: boolean;
  readonly results: readonly SearchResult[];
  readonly partial: boolean;
  readonly engines: readonly EngineReport[];
}

/**
 * Asks all engines and merges what they find. They are asked at once, each within its own time and that of the whole; what
 * has come until then is answered. Equal questions at once are asked once, and complete answers are kept for a while.
 */
export class Searcher implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #modules: SearcherModules;
  readonly #cache: AnswerCache<Found>;
  readonly #inFlight = new Map<string, Promise<Found>>();
  readonly #last = new Map<string, EngineReport["status"]>();
  readonly #stopping = new AbortController();

  constructor({ timeoutMs, cacheSeconds, cacheBytes }: SearcherOptions, modules: SearcherModules) {
    this.#timeoutMs = timeoutMs;
    this.#modules = modules;
    this.#cache = new AnswerCache({ ttlMs: cacheSeconds * 1_000, maxBytes: cacheBytes }, modules);
  }

  /** `query` as received. Never rejects for what engines do. */
  async search(query: string, maxResults: number): Promise<SearchOutcome> {
    const { clock } = this.#modules;
    const startMs = clock.monotonicMs();
    const { isAnswered, results, partial, engines } = await this.#find(query.trim(), maxResults);
    if (!isAnswered) return { ok: false, engines };
    const took_ms = Math.round(clock.monotonicMs() - startMs);
    return { ok: true, answer: { query, results, partial, engines, took_ms } };
  }

  /** How each engine did the last time it was asked; undefined: it was not asked yet. */
  lastStatus(id: string): EngineReport["status"] | undefined {
    return this.#last.get(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled(this.#inFlight.values());
  }

  #find(trimmed: string, maxResults: number): Found | Promise<Found> {
    const { metrics } = this.#modules;
    const key = `${maxResults} ${trimmed}`;
    const kept = this.#cache.get(key);
    if (kept !== undefined) {
      metrics.count(searchCacheHitsTotal, { kind: "kept" });
      return kept;
    }
    const same = this.#inFlight.get(key);
    if (same !== undefined) {
      metrics.count(searchCacheHitsTotal, { kind: "joined" });
      return same;
    }
    const asked = this.#ask(key, trimmed, maxResults).finally(() => this.#inFlight.delete(key));
    this.#inFlight.set(key, asked);
    return asked;
  }

  async #ask(key: string, query: string, maxResults: number): Promise<Found> {
    const found = await this.#askAll(query, maxResults);
    if (found.isAnswered && !found.partial) {
      this.#cache.put(key, found, Buffer.byteLength(JSON.stringify(found)) * 2);
      this.#modules.metrics.set(searchCacheBytes, this.#cache.bytes);
    }
    return found;
  }

  async #askAll(query: string, maxResults: number): Promise<Found> {
    const { signal } = this.#stopping;
    const answers = await Promise.all(
      this.#modules.engines.map(async (one) => {
        const timeoutMs = Math.min(one.timeoutMs, this.#timeoutMs);
        const answer = await askEngine({ ...one, timeoutMs }, { query, maxResults }, signal, this.#modules);
        this.#last.set(one.engine.id, answer.report.status);
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
  }
}
