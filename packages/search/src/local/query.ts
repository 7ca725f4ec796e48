import { STOP_WORDS } from "./stop-words.ts";
import { type Word, wordsOf } from "./words.ts";

/** What a query asks, before it is held against an index. */
export interface ParsedQuery {
  /** Words outside of quotes, each once, in their order. */
  readonly words: readonly Word[];
  /** What stood in quotes: words in their order. */
  readonly phrases: readonly (readonly Word[])[];
  /** What must not be there: words, or phrases of several. */
  readonly excluded: readonly (readonly Word[])[];
  /** The language of its stop words, ISO 639-1; undefined when they are of none or of several. */
  readonly language: string | undefined;
}

const MAX_QUERY = 16_384;
const MAX_WORDS = 64;
const MAX_PHRASES = 8;
const MAX_PHRASE_WORDS = 16;
const MAX_EXCLUDED = 16;

const QUOTES = /["“”„‟«»「」『』＂]/u;
const EXCLUSION = /^[-−–](?=[\p{L}\p{N}]{2})(?!\p{N}+$)/u;

/** A run's last character stands alone in the index too; in a query that is noise, but for a run of one character. */
function withoutSingles(words: readonly Word[]): readonly Word[] {
  return words.filter((word, index) => {
    const before = words[index - 1];
    return !(word.isPair && before?.isPair === true && word.start < before.end && word.end === before.end);
  });
}

function phraseOf(text: string): readonly Word[] {
  const words = wordsOf(text.slice(0, 2_000)).slice(0, MAX_PHRASE_WORDS);
  const last = words.at(-1);
  const before = words.at(-2);
  // inside a phrase the single characters keep their places; the last one would keep it from matching a longer run
  return last?.isPair === true && before?.isPair === true && last.start < before.end && last.end === before.end
    ? words.slice(0, -1)
    : words;
}

/**
 * Reads a query: quotes make phrases, a hyphen before a word (or a phrase) leaves out what has it. All else is words,
 * whatever signs or operators it holds. Never fails; what is too long or too much is not looked at.
 */
export function parseQuery(query: string): ParsedQuery {
  const segments = query.slice(0, MAX_QUERY).toWellFormed().split(QUOTES);
  const words = new Map<string, Word>();
  const phrases: (readonly Word[])[] = [];
  const excluded: (readonly Word[])[] = [];
  const takePlain = (text: string): void => {
    for (const part of text.split(/\s+/u)) {
      if (part === "") continue;
      const isExcluded = EXCLUSION.test(part);
      const found = withoutSingles(wordsOf(part));
      if (isExcluded) {
        if (excluded.length < MAX_EXCLUDED && found.length > 0) excluded.push(found.slice(0, MAX_PHRASE_WORDS));
        continue;
      }
      for (const word of found) {
        if (words.size >= MAX_WORDS) break;
        if (!words.has(word.folded)) words.set(word.folded, word);
      }
    }
  };
  for (const [index, segment] of segments.entries()) {
    const isQuoted = index % 2 === 1 && index < segments.length - 1;
    if (!isQuoted) {
      const opensExcluded = index % 2 === 0 && index + 2 < segments.length && /(?:^|\s)[-−–]$/u.test(segment);
      takePlain(opensExcluded ? segment.slice(0, -1) : segment);
      continue;
    }
    const phrase = phraseOf(segment);
    if (phrase.length === 0) continue;
    if (/(?:^|\s)[-−–]$/u.test(segments[index - 1] ?? "")) {
      if (excluded.length < MAX_EXCLUDED) excluded.push(phrase);
    } else if (phrases.length < MAX_PHRASES) phrases.push(phrase);
  }
  const all = [...words.values()];
  return { words: all, phrases, excluded, language: languageOf(query, [...all, ...phrases.flat()]) };
}

const SCRIPTS: readonly (readonly [RegExp, string])[] = [
  [/[\p{Script=Hiragana}\p{Script=Katakana}]/u, "ja"],
  [/\p{Script=Hangul}/u, "ko"],
  [/\p{Script=Han}/u, "zh"],
  [/\p{Script=Thai}/u, "th"],
  [/\p{Script=Greek}/u, "el"],
  [/\p{Script=Hebrew}/u, "he"],
  [/\p{Script=Armenian}/u, "hy"],
];

function languageOf(query: string, words: readonly Word[]): string | undefined {
  const start = query.slice(0, 1_000);
  const script = SCRIPTS.find(([pattern]) => pattern.test(start));
  if (script !== undefined) return script[1];
  const counts = Object.entries(STOP_WORDS)
    .map(([language, list]) => ({ language, count: words.filter(({ folded }) => list.has(folded)).length }))
    .toSorted((a, b) => b.count - a.count);
  const [first, second] = counts;
  if (first === undefined || first.count === 0 || first.count === second?.count) return undefined;
  return first.language;
}
