import { cleanHit } from "../engines/hits.ts";
import type { EngineHit, SearchResult } from "../types.ts";
import { canonicalUrlKey } from "./canonical-url.ts";

/** What one engine found. */
export interface EngineHits {
  readonly id: string;
  readonly weight: number;
  /** Best first. */
  readonly hits: readonly EngineHit[];
}

/** The constant of reciprocal rank fusion: so far down the ranks still count for much. */
const RANK_OFFSET = 60;

interface Finding {
  readonly id: string;
  readonly rank: number;
  readonly weight: number;
  readonly hit: EngineHit;
}

/** Best rank first; of equal ranks that of the weightier engine, then that of the engine named first. */
const byRank = (a: Finding, b: Finding): number => a.rank - b.rank || b.weight - a.weight;

function findingsByPage(lists: readonly EngineHits[]): Map<string, Finding[]> {
  const pages = new Map<string, Finding[]>();
  for (const { id, weight, hits } of lists) {
    const seen = new Set<string>();
    for (const raw of hits) {
      const hit = cleanHit({ ...raw });
      if (hit === undefined) continue;
      const key = canonicalUrlKey(hit.url);
      if (seen.has(key)) continue;
      seen.add(key);
      const found = pages.get(key) ?? [];
      found.push({ id, weight, hit, rank: seen.size });
      pages.set(key, found);
    }
  }
  return pages;
}

/**
 * Merges what engines found by weighted reciprocal rank fusion: a page's score is the sum of `weight / (60 + rank)` over
 * the engines that found it (Cormack, Clarke, Büttcher: "Reciprocal Rank Fusion outperforms Condorcet and individual
 * Rank Learning Methods", SIGIR 2009, §2, with k = 60), divided by what a page has that all of them put first. A page
 * counts once, however its URL is spelled; it is shown as the engine with the best rank has it, and what that one does
 * not know is taken from the next. URLs other than http and https are dropped.
 */
export function mergeHits(lists: readonly EngineHits[], maxResults: number): readonly SearchResult[] {
  const most = lists.reduce((sum, { weight, hits }) => sum + (hits.length === 0 ? 0 : weight), 0) / (RANK_OFFSET + 1);
  const pages = [...findingsByPage(lists).values()].map((findings) => {
    const ranked = findings.toSorted(byRank);
    const score = ranked.reduce((sum, { weight, rank }) => sum + weight / (RANK_OFFSET + rank), 0) / most;
    return { ranked, score };
  });
  pages.sort((a, b) => b.score - a.score || (a.ranked[0]?.rank ?? 0) - (b.ranked[0]?.rank ?? 0));
  return pages.slice(0, maxResults).flatMap(({ ranked, score }) => {
    const best = ranked[0]?.hit;
    if (best === undefined) return [];
    return {
      title: best.title,
      url: best.url,
      snippet: ranked.find(({ hit }) => hit.snippet !== "")?.hit.snippet ?? "",
      score: Math.min(1, Math.round(score * 10_000) / 10_000),
      source: ranked.map(({ id }) => id).join(","),
      date: ranked.find(({ hit }) => hit.date !== undefined)?.hit.date ?? null,
    };
  });
}
