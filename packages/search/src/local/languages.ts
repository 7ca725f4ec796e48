import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { fold } from "./words.ts";

/** What is written for a document whose language is not known. */
export const UNKNOWN_LANGUAGE = "und";

const ALGORITHMS: Readonly<Record<string, string>> = {
  ar: "arabic",
  hy: "armenian",
  eu: "basque",
  ca: "catalan",
  cs: "czech",
  da: "danish",
  nl: "dutch",
  en: "english",
  fi: "finnish",
  fr: "french",
  de: "german",
  hu: "hungarian",
  it: "italian",
  ga: "irish",
  no: "norwegian",
  pt: "portuguese",
  ro: "romanian",
  ru: "russian",
  es: "spanish",
  sl: "slovene",
  sv: "swedish",
  ta: "tamil",
  tr: "turkish",
};

interface Stemmer {
  stem(word: string): string;
}

interface Detected {
  readonly language: string;
  isReliable(): boolean;
}

const require = createRequire(import.meta.url);
const MAX_STEMMED = 40;
const MAX_KEPT = 200_000;
/** Characters that the language is detected from. */
const SAMPLE = 2_000;

let factory: { newStemmer(algorithm: string): Stemmer } | undefined;
let detector: { detect(text: string): Detected } | undefined;
const stemmers = new Map<string, Stemmer>();
const kept = new Map<string, Map<string, string>>();

/** `en` of `en-GB`; `und` of what is no language. */
export function languageCode(tag: string | undefined): string {
  const [code = ""] = (tag ?? "").trim().toLowerCase().split(/[-_]/u, 1);
  if (code === "nb" || code === "nn") return "no";
  return /^[a-z]{2,3}$/u.test(code) ? code : UNKNOWN_LANGUAGE;
}

/** True when words of the language can be stemmed. */
export function hasStemmer(language: string): boolean {
  return Object.hasOwn(ALGORITHMS, language);
}

/**
 * The word's stem in the language, folded; the folded word itself for a language without a stemmer.
 * Stems that were asked for lately are kept: the stemmer takes microseconds, most words come again and again.
 */
export function stem(raw: string, folded: string, language: string): string {
  const algorithm = ALGORITHMS[language];
  if (algorithm === undefined || raw.length > MAX_STEMMED) return folded;
  let stems = kept.get(language);
  if (stems === undefined) {
    stems = new Map();
    kept.set(language, stems);
  }
  const found = stems.get(raw);
  if (found !== undefined) return found;
  const made = stemNow(raw, folded, language, algorithm);
  if (stems.size >= MAX_KEPT) stems.clear();
  stems.set(raw, made);
  return made;
}

const PLAIN = /^[\p{L}\p{M}]+$/u;

function stemNow(raw: string, folded: string, language: string, algorithm: string): string {
  if (!PLAIN.test(raw)) return folded;
  let stemmer = stemmers.get(language);
  if (stemmer === undefined) {
    factory ??= require("snowball-stemmers") as { newStemmer(algorithm: string): Stemmer };
    stemmer = factory.newStemmer(algorithm);
    stemmers.set(language, stemmer);
  }
  const made = fold(stemmer.stem(raw));
  // a stemmer may leave nothing, or (of odd input) signs that the index would split at
  return made !== "" && PLAIN.test(made) ? made : folded;
}

/**
 * The language of a text, ISO 639-1; `und` when it cannot be detected. The detector's data is loaded at the first call
 * (some 0.3 s): a service that only searches never loads it.
 */
export function detectLanguage(text: string): string {
  // its entry has no `require` condition, so the file is found as an import and then required: the writer is synchronous
  detector ??= (
    require(fileURLToPath(import.meta.resolve("eld/extrasmall"))) as {
      eld: { detect(text: string): Detected };
    }
  ).eld;
  const sample = text.slice(0, SAMPLE);
  const found = detector.detect(sample);
  return found.language !== "" && (found.isReliable() || sample.length < 80)
    ? languageCode(found.language)
    : UNKNOWN_LANGUAGE;
}
