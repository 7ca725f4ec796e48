/** A token of a text: its form in the index, and where it stands. */
export interface Word {
  /** Lower case as written, for the stemmers; a pair of characters in scripts without spaces. */
  readonly raw: string;
  /** Without case, diacritics and ligatures. */
  readonly folded: string;
  readonly start: number;
  readonly end: number;
  /** Which word of the text it is. */
  readonly ordinal: number;
  /** True for a pair (or the last single one) of characters of a script that writes without spaces. */
  readonly isPair: boolean;
  /** True for a name such as `createIndexWriter`. */
  readonly isCamel: boolean;
}

/** Longest token, in UTF-16 units: a hash of 32 bytes in hex fits. What is longer is cut, in texts and queries alike. */
const MAX_WORD_LENGTH = 72;

const INVISIBLE = "\\u00ad\\u200b-\\u200f\\u2060-\\u2064\\ufeff\\u202a-\\u202e\\u2066-\\u2069";
const WORD = `[\\p{L}\\p{N}][\\p{L}\\p{N}\\p{M}${INVISIBLE}]*(?:\\+\\+|#(?![\\p{L}\\p{N}]))?`;
const HIDDEN = new RegExp(`[${INVISIBLE}]+`, "gu");
// what NFKD leaves: combining marks of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel signs and the tatweel
const MARKS =
  /(?:[\u0300-\u036f]|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]|[\u0610-\u061a]|[\u064b-\u065f\u0670]|\u0640)+/gu;
const LETTERS = /[ßæœøłđðþıħŧ]/gu;
const LETTER_OF: Readonly<Record<string, string>> = {
  ß: "ss",
  æ: "ae",
  œ: "oe",
  ø: "o",
  ł: "l",
  đ: "d",
  ð: "d",
  þ: "th",
  ı: "i",
  ħ: "h",
  ŧ: "t",
};
/** Scripts that write without spaces, or (Hangul) with endings that are no words: indexed in pairs of characters. */
const SPACELESS =
  /[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\u{20000}-\u{3ffff}]/u;
const RUNS =
  /[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\u{20000}-\u{3ffff}]+|[^\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\u{20000}-\u{3ffff}]+/gu;

/** True when all of the text is ASCII. */
function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) > 127) return false;
  }
  return true;
}

/** A word without case, diacritics, ligatures and invisible characters. `+` and `#` become letters of their own. */
export function fold(word: string): string {
  const lower = word.toLowerCase();
  const plain = isAscii(lower)
    ? lower
    : lower
        .replace(HIDDEN, "")
        .normalize("NFKD")
        .replace(MARKS, "")
        .normalize("NFC")
        .toLowerCase()
        .replace(LETTERS, (letter) => LETTER_OF[letter] ?? letter);
  return signsToLetters(plain);
}

// full-width signs are no ASCII, so that the index's tokenizer takes them for letters: `c++` and `c#` are words
function signsToLetters(word: string): string {
  const last = word.charCodeAt(word.length - 1);
  if (last === 0x2b) return word.replace("++", "＋＋");
  return last === 0x23 ? word.replace("#", "＃") : word;
}

/** Takes a word; what it is not asked for is counted all the same. */
type Take = (word: Word) => void;

interface Walk {
  readonly take: Take;
  ordinal: number;
}

const LOWER = 1;
const UPPER = 2;
const DIGIT = 3;
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  return code >= 0x30 && code <= 0x39 ? DIGIT : 0;
});

/** Signs of other blocks that are often between words; all others are left to the pattern. */
const isSign = (code: number): boolean =>
  (code >= 0x2010 && code <= 0x2027) ||
  code === 0xa0 ||
  code === 0xab ||
  code === 0xbb ||
  code === 0x3001 ||
  code === 0x3002;

/**
 * Words of a text one after another, with their places; scripts without spaces in overlapping pairs. `wants` may leave
 * out plain words by the codes of their first two letters, in lower case; the second is 0 where there is none. Gives the
 * number of words.
 */
export function eachWord(text: string, take: Take, wants?: (first: number, second: number) => boolean): number {
  const walk: Walk = { take, ordinal: 0 };
  // some letters become longer in lower case, and then places differ
  const lowered = text.toLowerCase();
  const lower = lowered.length === text.length ? lowered : undefined;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    const kind = code < 128 ? (KINDS[code] ?? 0) : 0;
    if (kind === 0 && (code < 128 || isSign(code))) {
      at++;
      continue;
    }
    const start = at;
    let isCamel = false;
    for (let next = kind, before = 0; next !== 0; ) {
      if (next === UPPER && before !== UPPER && before !== 0) isCamel = true;
      before = next;
      at++;
      const following = at < text.length ? text.charCodeAt(at) : 0x20;
      next = following < 128 ? (KINDS[following] ?? 0) : 0;
    }
    const after = at < text.length ? text.charCodeAt(at) : 0x20;
    if (kind === 0 || (after >= 128 && !isSign(after))) {
      at = otherWord(text, start, walk);
      continue;
    }
    if (after === 0x2b && text.charCodeAt(at + 1) === 0x2b) at += 2;
    else if (after === 0x23 && !isLetterAt(text, at + 1)) at++;
    if (
      wants !== undefined &&
      !isCamel &&
      !wants(lowerCode(code), at > start + 1 ? lowerCode(text.charCodeAt(start + 1)) : 0)
    ) {
      walk.ordinal++;
      continue;
    }
    const end = Math.min(at, start + MAX_WORD_LENGTH);
    const raw = lower === undefined ? text.slice(start, end).toLowerCase() : lower.slice(start, end);
    take({ raw, folded: signsToLetters(raw), start, end: at, ordinal: walk.ordinal++, isPair: false, isCamel });
  }
  return walk.ordinal;
}

const lowerCode = (code: number): number => (KINDS[code] === UPPER ? code + 32 : code);

const LETTER = /[\p{L}\p{N}]/uy;
const OTHER_WORD = new RegExp(WORD, "uy");

function isLetterAt(text: string, at: number): boolean {
  LETTER.lastIndex = at;
  return LETTER.test(text);
}

/** Takes the word at `start` that is not plain ASCII; where to go on. */
function otherWord(text: string, start: number, walk: Walk): number {
  OTHER_WORD.lastIndex = start;
  const whole = OTHER_WORD.exec(text)?.[0];
  if (whole === undefined) return start + 1;
  if (SPACELESS.test(whole)) eachRun(whole, start, walk);
  else takeWord(whole, start, start + whole.length, walk);
  return start + whole.length;
}

function takeWord(whole: string, start: number, end: number, walk: Walk): void {
  const written = whole.length > MAX_WORD_LENGTH ? whole.slice(0, MAX_WORD_LENGTH).toWellFormed() : whole;
  const cut = written.toLowerCase();
  const folded = fold(cut);
  if (folded === "") return;
  // letters with compatibility forms can fold to signs: what is between them are words
  if (NO_TOKEN.test(folded)) {
    for (const part of folded.split(NO_TOKEN)) {
      if (part !== "")
        walk.take({ raw: part, folded: part, start, end, ordinal: walk.ordinal++, isPair: false, isCamel: false });
    }
    return;
  }
  const raw = isAscii(cut) ? cut : cut.replace(HIDDEN, "").normalize("NFC");
  walk.take({ raw, folded, start, end, ordinal: walk.ordinal++, isPair: false, isCamel: MAYBE_CAMEL.test(written) });
}

/** What the index's tokenizer would split at. */
const NO_TOKEN = /[^\p{L}\p{N}\p{M}＋＃]+/u;

function eachRun(whole: string, offset: number, walk: Walk): void {
  for (const { 0: run, index } of whole.matchAll(RUNS)) {
    const start = offset + index;
    if (SPACELESS.test(run)) eachPair(run, start, walk);
    else takeWord(run, start, start + run.length, walk);
  }
}

function eachPair(run: string, start: number, walk: Walk): void {
  const pair = (folded: string, from: number, to: number): void =>
    walk.take({ raw: folded, folded, start: from, end: to, ordinal: walk.ordinal++, isPair: true, isCamel: false });
  let before: { readonly text: string; readonly start: number } | undefined;
  let at = start;
  for (const character of run) {
    const folded = fold(character);
    const here = at;
    at += character.length;
    if (folded === "" || NO_TOKEN.test(folded)) continue;
    if (before !== undefined) pair(before.text + folded, before.start, at);
    before = { text: folded, start: here };
  }
  // alone, so that a query of one character finds the last one too
  if (before !== undefined) pair(before.text, before.start, at);
}

/** The words of a short text. */
export function wordsOf(text: string): readonly Word[] {
  const words: Word[] = [];
  eachWord(text, (word) => words.push(word));
  return words;
}

const CAMEL = /\p{Lu}?[\p{Ll}\p{N}]+|\p{Lu}+(?!\p{Ll})/gu;
const MAYBE_CAMEL = /\p{Ll}\p{Lu}/u;

/** Parts of a name such as `createIndexWriter`, folded. */
export function camelParts(written: string): readonly string[] {
  if (written.length > MAX_WORD_LENGTH) return [];
  return [...written.matchAll(CAMEL)]
    .map(([part]) => fold(part))
    .filter((part) => part.length > 1 && !NO_TOKEN.test(part));
}
