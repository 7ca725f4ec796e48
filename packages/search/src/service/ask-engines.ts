import type { Clock, Log, Metrics } from "@turnpike/base";
import type { WeightedEngine } from "../engines/create-engines.ts";
import { type EngineFailure, engineFailed, failureReason } from "../engines/failure.ts";
import { searchEngineCallsTotal, searchEngineSeconds } from "../metrics.ts";
import type { EngineHit, EngineQuery, EngineReport } from "../types.ts";

/** What one engine gave, and how it did. */
export interface EngineAnswer {
  readonly hits: readonly EngineHit[];
  readonly report: EngineReport;
  /** Undefined when it answered. */
  readonly failure: EngineFailure | undefined;
}

interface AskModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Hits of an engine, and no more of them than were asked for: it may be anybody's. */
function listed(hits: unknown, maxResults: number): readonly EngineHit[] {
  if (!Array.isArray(hits)) throw engineFailed("bad_answer");
  return (hits as readonly EngineHit[]).slice(0, maxResults);
}

/**
 * Asks one engine within its time. Never rejects. An engine that does not heed the signal is late all the same: its
 * answer is not waited for.
 */
export async function askEngine(
  { engine, timeoutMs }: WeightedEngine,
  query: EngineQuery,
  signal: AbortSignal,
  modules: AskModules,
): Promise<EngineAnswer> {
  const { clock, log, metrics } = modules;
  const { id } = engine;
  const startMs = clock.monotonicMs();
  const late = new AbortController();
  const { promise: given, reject: giveUp } = Promise.withResolvers<never>();
  const onLate = (): void => {
    late.abort(engineFailed("timed_out"));
    giveUp(engineFailed("timed_out"));
  };
  const timer = setTimeout(onLate, timeoutMs);
  signal.addEventListener("abort", onLate, { once: true });
  let hits: readonly EngineHit[] = [];
  let failure: EngineFailure | undefined;
  try {
    if (signal.aborted) throw engineFailed("timed_out");
    // An engine may throw before it gives a promise.
    const answer = (async () => engine.search(query, late.signal))();
    hits = listed(await Promise.race([answer, given]), query.maxResults);
  } catch (error) {
    failure = late.signal.aborted ? "timed_out" : failureReason(error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onLate);
  }
  const tookMs = clock.monotonicMs() - startMs;
  metrics.count(searchEngineCallsTotal, { engine: id, outcome: failure ?? "ok" });
  metrics.observe(searchEngineSeconds, tookMs / 1_000, { engine: id });
  if (failure !== undefined) log.warn({ engine: id, reason: failure }, "a search engine gave no answer");
  const status = failure === undefined ? "ok" : failure === "timed_out" ? "timed_out" : "failed";
  return { hits, failure, report: { id, status, results: hits.length, took_ms: Math.round(tookMs) } };
}
