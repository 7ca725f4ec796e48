import { isAppError } from "@turnpike/base";
import { matchExpression } from "./match.ts";
import type { Term } from "./terms.ts";

/** What is looked for. */
export interface CandidatesWanted {
  readonly terms: readonly Term[];
  readonly excluded: readonly string[];
  /** Most of one look-up. */
  readonly wanted: number;
}

/** Asks the index: rows that match an expression of FTS5, the best first. */
export type Find = (expression: string, limit: number) => readonly { readonly id: number; readonly score: number }[];

const SCOPED = "title headings address";
/**
 * A word that more documents have than this is looked for in titles first, and documents with only some of the words are
 * looked for by as many: scoring them all takes long, and helps little.
 */
const COMMON = 2_000;
/** With fewer documents than this that have all words, those with some of them are looked at too. */
const FEW = 10;

/** The rarest words: one that is in many documents is taken only where those before it find too few. */
function rarestOf(words: readonly Term[], wanted: number): readonly Term[] {
  const rarest: Term[] = [];
  let reach = 0;
  for (const word of words.toSorted((a, b) => a.documents - b.documents)) {
    if (reach >= wanted && reach + word.documents > COMMON) break;
    rarest.push(word);
    reach += word.documents;
  }
  return rarest;
}

/** Ids of documents worth ranking, with their bm25: those with all words first, then with any of them. */
export function findCandidates({ terms, excluded, wanted }: CandidatesWanted, find: Find): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const take = (expression: string): number => {
    const rows = find(expression, wanted);
    for (const { id, score } of rows) if (!found.has(id)) found.set(id, score);
    return rows.length;
  };
  const there = terms.filter(({ forms }) => forms.length > 0);
  const phrases = there.filter(({ isPhrase }) => isPhrase);
  const words = there.filter(({ isPhrase }) => !isPhrase);
  if (there.length === 0) return found;
  const rarest = Math.min(...words.map((word) => word.documents));
  if (phrases.length === 0 && rarest > COMMON && take(matchExpression(there, [], excluded, SCOPED)) >= wanted)
    return found;
  if (take(matchExpression(there, [], excluded)) >= FEW || words.length < 2) return found;
  try {
    take(matchExpression(phrases, rarestOf(words, wanted), excluded));
  } catch (error) {
    // out of time: what has all words is an answer
    if (!isAppError(error, "SEARCH_ENGINE_FAILED") || found.size === 0) throw error;
  }
  return found;
}
