import { stem } from "./languages.ts";
import type { Term } from "./terms.ts";
import { camelParts, eachWord } from "./words.ts";

/** Where a text has a word of the query. */
export interface TextHit {
  /** Index of the term. */
  readonly term: number;
  readonly start: number;
  readonly end: number;
  /** Which word of the text it is. */
  readonly ordinal: number;
  readonly isExact: boolean;
}

const MAX_HITS = 2_000;
const MAX_SEEN = 20_000;

/** Finds the words of a query in texts of one language. Phrases count by their words. */
export type HitFinder = (text: string) => { readonly hits: readonly TextHit[]; readonly words: number };

interface Wanted {
  readonly term: number;
  readonly isExact: boolean;
}

const NOTHING: Wanted = { term: -1, isExact: false };

const isPlain = (code: number): boolean => (code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39);

/** First letters of forms, each with the second letters of words that may have such a form; an empty set is any. */
function startsOf(forms: readonly string[]): ReadonlyMap<number, ReadonlySet<number>> {
  const starts = new Map<number, Set<number>>();
  const open = new Set<number>();
  for (const form of forms) {
    const first = form.codePointAt(0) ?? 0;
    const second = form.charCodeAt(1);
    const seconds = starts.get(first) ?? new Set();
    starts.set(first, seconds);
    if (isPlain(second)) seconds.add(second);
    else open.add(first);
    // `dying` has the stem `die`
    if (second === 0x69) seconds.add(0x79);
  }
  for (const first of open) starts.get(first)?.clear();
  return starts;
}

/** Makes a finder; it remembers what it has seen, so use one for all texts of a language. */
export function createHitFinder(terms: readonly Term[], language: string): HitFinder {
  const byForm = new Map<string, number>();
  const exact = new Map<string, number>();
  const prefixes: { readonly text: string; readonly term: number }[] = [];
  for (const [index, term] of terms.entries()) {
    if (term.isPrefix) prefixes.push({ text: term.exact, term: index });
    for (const form of term.forms) for (const word of form.split(" ")) if (!byForm.has(word)) byForm.set(word, index);
    for (const word of term.exact.split(" ")) if (!exact.has(word)) exact.set(word, index);
  }
  // a stem begins as its word does, so most words of a text need no stem
  const starts = startsOf([...byForm.keys(), ...exact.keys()]);
  const seen = new Map<string, Wanted>();

  function wantedOf(raw: string, folded: string, isPair: boolean, camel: string | undefined): Wanted | undefined {
    const same = exact.get(folded);
    if (same !== undefined) return { term: same, isExact: true };
    if (isPair) {
      const prefix = prefixes.find(({ text }) => folded.startsWith(text));
      if (prefix !== undefined) return { term: prefix.term, isExact: true };
    }
    const term = byForm.get(folded) ?? (isPair ? undefined : byForm.get(stem(raw, folded, language)));
    if (term !== undefined) return { term, isExact: false };
    for (const part of camel === undefined ? [] : camelParts(camel)) {
      const found = exact.get(part) ?? byForm.get(stem(part, part, language));
      if (found !== undefined) return { term: found, isExact: false };
    }
    return undefined;
  }

  return (text) => {
    const hits: TextHit[] = [];
    const words = eachWord(
      text,
      ({ raw, folded, start, end, ordinal, isPair, isCamel }) => {
        if (hits.length >= MAX_HITS || !(isCamel || starts.has(folded.codePointAt(0) ?? 0))) return;
        const written = isCamel ? text.slice(start, end) : raw;
        let wanted = seen.get(written);
        if (wanted === undefined) {
          wanted = wantedOf(raw, folded, isPair, isCamel ? written : undefined) ?? NOTHING;
          if (seen.size < MAX_SEEN) seen.set(written, wanted);
        }
        if (wanted !== NOTHING) hits.push({ ...wanted, start, end, ordinal });
      },
      (first, second) => {
        const seconds = starts.get(first);
        return seconds !== undefined && (seconds.size === 0 || seconds.has(second));
      },
    );
    return { hits, words };
  };
}
