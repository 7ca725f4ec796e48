import { afterString, type JsonSpan } from "./json-spans.ts";

// Functions on texts that are JSON, as their reader checked (foreign-json.ts): they show what was sent, where a parsed value holds
// doubles in place of its numbers and the last of the members that have one key.

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
const isOpening = (code: number): boolean => code === OPEN_OBJECT || code === OPEN_ARRAY;
const isClosing = (code: number): boolean => code === CLOSE_OBJECT || code === CLOSE_ARRAY;
const isSeparator = (code: number): boolean => code === COMMA || code === COLON;
const startsNumber = (code: number): boolean => code === MINUS || (code >= 0x30 && code <= 0x39);

function spaceEnd(json: string, at: number): number {
  let end = at;
  while (isSpace(json.charCodeAt(end))) end++;
  return end;
}

/** End of the number, `true`, `false` or `null` that starts at `at`. */
function scalarEnd(json: string, at: number): number {
  for (let end = at; end < json.length; end++) {
    const code = json.charCodeAt(end);
    if (isClosing(code) || isSeparator(code) || isSpace(code)) return end;
  }
  return json.length;
}

/** End of the value that starts at `at`. */
function valueEnd(json: string, at: number): number {
  const first = json.charCodeAt(at);
  if (first === QUOTE) return afterString(json, at);
  if (!isOpening(first)) return scalarEnd(json, at);
  let depth = 0;
  for (let end = at; end < json.length; ) {
    const code = json.charCodeAt(end);
    if (code === QUOTE) {
      end = afterString(json, end);
      continue;
    }
    end++;
    if (isOpening(code)) depth++;
    else if (isClosing(code) && --depth === 0) return end;
  }
  return json.length;
}

/** Maximum characters of a number that is compared with its double. */
const MAX_COMPARED_CHARACTERS = 1_000;
/** Number of significant digits that every double keeps. */
const KEPT_DIGITS = 15;

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** One text for each decimal value, however it is written. */
function decimalOf(number: string): string | undefined {
  const parts = NUMBER.exec(number);
  if (parts === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  if (digits === "") return `${sign}0`;
  let { length } = digits;
  while (digits.charAt(length - 1) === "0") length--;
  const significant = digits.slice(0, length);
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - length}`;
}

/** True for a JSON number whose value a double has: a program that parses it reads the number that was sent. */
export function isExactNumber(number: string): boolean {
  const isNegative = number.charCodeAt(0) === MINUS;
  if (number.length <= KEPT_DIGITS && !isNegative && !/[eE]/.test(number)) return true;
  if (number.length > MAX_COMPARED_CHARACTERS) return false;
  const value = Number(number);
  // Minus zero is written as 0.
  return Number.isFinite(value) && decimalOf(number) === decimalOf(String(value));
}

/** A JSON text on one line. */
export interface CompactJson {
  readonly text: string;
  /** True where the text is only a beginning. */
  readonly isCut: boolean;
  /** True where each number in the text has the value of a double. */
  readonly isExact: boolean;
}

/** Maximum characters of the escape of one character. */
const MAX_ESCAPE_LENGTH = 6;

/** The beginning of a string's token, cut between two of its characters, as a token. */
function cutToken(token: string, maxCharacters: number): string {
  if (token.length <= maxCharacters) return token;
  const head = token.slice(0, maxCharacters);
  const last = head.lastIndexOf("\\");
  let first = last;
  while (head.charAt(first - 1) === "\\") first--;
  // Of a run of backslashes each second one is what the one before it escapes.
  const isEscape = last !== -1 && (last - first) % 2 === 0;
  const isWhole = head.charAt(last + 1) === "u" ? last + MAX_ESCAPE_LENGTH <= head.length : last + 2 <= head.length;
  return `${isEscape && !isWhole ? head.slice(0, last) : head}"`;
}

/** Part of a JSON text, and bound of its compact form. */
export interface CompactOptions {
  readonly start?: number;
  readonly end?: number;
  readonly maxCharacters?: number;
}

/**
 * A JSON text without white space, and with each string as `JSON.stringify` writes it. Numbers, repeated keys and the order of members
 * are as they were sent. Reads no further than its bound.
 */
export function compactJson(json: string, options: CompactOptions = {}): CompactJson {
  const { start = 0, end = json.length, maxCharacters = Number.POSITIVE_INFINITY } = options;
  const parts: string[] = [];
  let length = 0;
  let isExact = true;
  // What is already as it should be is taken over in long runs.
  let runStart = start;
  let at = start;
  const add = (part: string): void => {
    parts.push(part);
    length += part.length;
  };
  while (at < end && length + at - runStart <= maxCharacters) {
    const code = json.charCodeAt(at);
    if (isSpace(code)) {
      add(json.slice(runStart, at));
      at = spaceEnd(json, at);
      runStart = at;
    } else if (code === QUOTE) {
      const stringStart = at;
      at = afterString(json, at);
      const string = json.slice(stringStart, at);
      if (!string.includes("\\")) continue;
      add(json.slice(runStart, stringStart));
      const maxLength = MAX_ESCAPE_LENGTH * (maxCharacters - length + 2);
      add(JSON.stringify(JSON.parse(cutToken(string, maxLength))));
      runStart = at;
    } else if (startsNumber(code)) {
      const numberStart = at;
      at = scalarEnd(json, at);
      isExact &&= isExactNumber(json.slice(numberStart, at));
    } else at++;
  }
  add(json.slice(runStart, Math.min(at, end)));
  const text = parts.join("");
  const isCut = text.length > maxCharacters || spaceEnd(json, at) < end;
  return { text: text.length > maxCharacters ? text.slice(0, maxCharacters) : text, isCut, isExact };
}

/** Maximum nesting that is indented: each further level would add its spaces to every line within it. */
const MAX_INDENTED_DEPTH = 32;
/** Maximum length of compact JSON that is indented. */
const MAX_INDENTED_LENGTH = 1_048_576;
const INDENTS = Array.from({ length: MAX_INDENTED_DEPTH + 1 }, (_, depth) => `\n${"  ".repeat(depth)}`);

/** A JSON text for people: two spaces of indentation, or one line where it is nested deeply or long. Numbers are as they were sent. */
export function indentJson(json: string): string {
  const { text } = compactJson(json);
  if (text.length > MAX_INDENTED_LENGTH) return text;
  const parts: string[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    const character = text.charAt(at);
    if (isOpening(code) && !isClosing(text.charCodeAt(at + 1))) {
      if (++depth > MAX_INDENTED_DEPTH) return text;
      parts.push(character, INDENTS[depth] ?? "");
      at++;
    } else if (isOpening(code)) {
      if (depth === MAX_INDENTED_DEPTH) return text;
      parts.push(text.slice(at, at + 2));
      at += 2;
    } else if (isClosing(code)) {
      parts.push(INDENTS[--depth] ?? "", character);
      at++;
    } else if (isSeparator(code)) {
      parts.push(character, code === COMMA ? (INDENTS[depth] ?? "") : " ");
      at++;
    } else {
      const end = valueEnd(text, at);
      parts.push(text.slice(at, end));
      at = end;
    }
  }
  return parts.join("");
}

/** Places of the values of members of the outermost object, by key, as often as a key is there; undefined where there is no object. */
export function jsonMembersNamed(
  json: string,
  keys: readonly string[],
): ReadonlyMap<string, readonly JsonSpan[]> | undefined {
  let at = spaceEnd(json, 0);
  if (json.charCodeAt(at) !== OPEN_OBJECT) return undefined;
  const spans = new Map<string, JsonSpan[]>();
  at = spaceEnd(json, at + 1);
  while (json.charCodeAt(at) === QUOTE) {
    const keyEnd = afterString(json, at);
    const token = json.slice(at, keyEnd);
    const key = token.includes("\\") ? (JSON.parse(token) as string) : token.slice(1, -1);
    const start = spaceEnd(json, spaceEnd(json, keyEnd) + 1);
    const end = valueEnd(json, start);
    if (keys.includes(key)) {
      const places = spans.get(key);
      if (places === undefined) spans.set(key, [{ start, end }]);
      else places.push({ start, end });
    }
    // Behind the comma, or at the end.
    at = spaceEnd(json, spaceEnd(json, end) + 1);
  }
  return spans;
}
