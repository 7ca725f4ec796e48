import { hasStemmer, stem } from "./languages.ts";
import type { ParsedQuery } from "./query.ts";
import { isStopWord } from "./stop-words.ts";
import type { Word } from "./words.ts";

/** One thing that a query looks for, and the forms that the index may have it in. */
export interface Term {
  /** As FTS5 strings: a word, or the words of a phrase parted by spaces. */
  readonly forms: readonly string[];
  /** The word as it was asked for, folded; the whole phrase likewise. */
  readonly exact: string;
  readonly isPhrase: boolean;
  /** True for a single character of a script without spaces: it is looked for at the start of pairs. */
  readonly isPrefix: boolean;
  /** Documents that have it, about. */
  readonly documents: number;
}

/** A query held against an index. */
export interface QueryTerms {
  readonly terms: readonly Term[];
  readonly excluded: readonly string[];
  readonly language: string | undefined;
  /** True when every word is a small one, so that they are looked for after all. */
  readonly onlySmallWords: boolean;
}

/** What terms are made with. */
export interface TermsOptions {
  /** Languages of the index, the most frequent first. */
  readonly languages: readonly string[];
  /** Documents that have a word. */
  readonly documentsWith: (form: string) => number;
  /** Words of the index that are nearly this one. */
  readonly nearly: (folded: string) => readonly string[];
}

const MAX_LANGUAGES = 24;
/** Words of one query that are looked for: beyond, the ones that say least are left out. */
const MAX_TERMS = 16;
const MAX_FORMS = 8;

// `ment` and `ification` are no endings to the English stemmer, so that paying and payment would not match
function relatives(word: string, stemmed: string): readonly string[] {
  const found: string[] = [];
  if (/.{3}ments?$/u.test(word)) {
    const base = stemmed.replace(/ment$/u, "");
    if (base.length >= 3 && base !== "com") found.push(base, stem(base, base, "en"), base.replace(/e$/u, ""));
  } else if (stemmed.length >= 3) found.push(`${stemmed}ment`, `${stemmed}ement`);
  if (stemmed.endsWith("ifi")) found.push(stemmed.slice(0, -1));
  else if (stemmed.endsWith("if")) found.push(`${stemmed}i`);
  return found;
}

function formsOf(word: Word, languages: readonly string[]): readonly string[] {
  if (word.isPair) return [word.folded];
  const forms = new Set([word.folded]);
  for (const language of languages) {
    const made = stem(word.raw, word.folded, language);
    forms.add(made);
    // typed without its diacritics
    forms.add(stem(word.folded, word.folded, language));
  }
  return [...forms];
}

/** Makes terms of a query's words: stems in the index's languages, exact words, and for what is not there nearly alike ones. */
export function termsOf(query: ParsedQuery, opts: TermsOptions): QueryTerms {
  const stemmed = opts.languages.filter(hasStemmer).slice(0, MAX_LANGUAGES);
  const languages =
    query.language !== undefined && stemmed.includes(query.language)
      ? [query.language, ...stemmed.filter((one) => one !== query.language)]
      : stemmed;
  const known =
    query.language === undefined ? [...new Set(["en", ...opts.languages.slice(0, MAX_LANGUAGES)])] : [query.language];
  const content = query.words.filter(({ folded }) => !isStopWord(folded, known));
  const onlySmallWords = content.length === 0 && query.phrases.length === 0;
  const chosen = onlySmallWords ? query.words : content;

  const termOf = (word: Word): Term => {
    const isPrefix = word.isPair && /^.$/u.test(word.folded);
    const all = formsOf(word, languages);
    let found = all
      .map((form) => ({ form, documents: opts.documentsWith(form) }))
      .filter(({ documents }) => documents > 0);
    if (languages.includes("en") && !word.isPair) {
      const more = relatives(word.folded, stem(word.raw, word.folded, "en")).filter((form) => !all.includes(form));
      for (const form of new Set(more)) {
        const documents = opts.documentsWith(form);
        if (documents > 0) found.push({ form, documents });
      }
    }
    if (found.length === 0 && !word.isPair) {
      found = opts.nearly(word.folded).map((form) => ({ form, documents: opts.documentsWith(form) }));
    }
    found = found.slice(0, MAX_FORMS);
    return {
      forms: found.map(({ form }) => form),
      exact: word.folded,
      isPhrase: false,
      isPrefix,
      documents: isPrefix ? 1 : found.reduce((sum, { documents }) => sum + documents, 0),
    };
  };
  const words = chosen.map(termOf).map((term) => (term.isPrefix ? { ...term, forms: [term.exact] } : term));
  const kept = new Set(
    words.length <= MAX_TERMS
      ? words
      : words
          .filter(({ forms }) => forms.length > 0)
          .toSorted((a, b) => a.documents - b.documents)
          .slice(0, MAX_TERMS),
  );
  const phrases = query.phrases.map((phrase): Term => {
    const forms = phraseForms(phrase, languages);
    return {
      forms,
      exact: phrase.map(({ folded }) => folded).join(" "),
      isPhrase: true,
      isPrefix: false,
      documents: 1,
    };
  });
  return {
    terms: [...phrases, ...words.filter((term) => kept.has(term))],
    excluded: query.excluded.flatMap((words) => phraseForms(words, languages)),
    language: query.language,
    onlySmallWords,
  };
}

function phraseForms(words: readonly Word[], languages: readonly string[]): readonly string[] {
  const inOne = (language: string): string =>
    words.map(({ raw, folded, isPair }) => (isPair ? folded : stem(raw, folded, language))).join(" ");
  const forms = new Set([words.map(({ folded }) => folded).join(" "), ...languages.map(inOne)]);
  return [...forms].slice(0, MAX_FORMS);
}
