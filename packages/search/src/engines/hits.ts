import { isRecord } from "@turnpike/base";
import type { EngineHit } from "../types.ts";
import { cleanDate, cleanText, cleanUrl, MAX_SNIPPET_CHARS, MAX_TITLE_CHARS } from "./clean.ts";
import { engineFailed } from "./failure.ts";

/** The list at a path of an answer. @throws AppError SEARCH_ENGINE_FAILED (`bad_answer`) when there is none. */
export function listOf(answer: unknown, ...path: readonly string[]): readonly unknown[] {
  let at = answer;
  for (const name of path) at = isRecord(at) ? at[name] : undefined;
  if (Array.isArray(at)) return at as readonly unknown[];
  throw engineFailed("bad_answer");
}

/** The members of one result that count, before they are cleaned. */
export interface RawHit {
  readonly title: unknown;
  readonly url: unknown;
  readonly snippet: unknown;
  readonly date: unknown;
}

/**
 * Cleans a hit. Undefined: it has no URL that may be shown. Without a title it gets its host as one. Only for text that
 * is plain already.
 */
export function cleanHit(raw: RawHit): EngineHit | undefined {
  const url = cleanUrl(raw.url);
  if (url === undefined) return undefined;
  const title = cleanText(raw.title, MAX_TITLE_CHARS);
  return {
    title: title === "" ? new URL(url).host : title,
    url,
    snippet: cleanText(raw.snippet, MAX_SNIPPET_CHARS),
    date: cleanDate(raw.date),
  };
}

/** The hits of a list of results, as many as are wanted. What is no result is left out. */
export function hitsOf(
  results: readonly unknown[],
  maxResults: number,
  read: (result: Readonly<Record<string, unknown>>) => RawHit,
): readonly EngineHit[] {
  const hits: EngineHit[] = [];
  for (const result of results) {
    if (hits.length >= maxResults) break;
    const hit = isRecord(result) ? cleanHit(read(result)) : undefined;
    if (hit !== undefined) hits.push(hit);
  }
  return hits;
}
