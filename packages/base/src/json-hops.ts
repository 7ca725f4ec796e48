import { type JsonMemberSpan, jsonValueEnd, skipJsonSpace } from "./json-spans.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Deepest nesting. */
const MAX_DEPTH = 128;
/** With more brackets than one in so many bytes, reading every byte is quicker. */
const BYTES_PER_BRACKET = 48;

const isDigitOrWordEnd = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || code === 0x65 /* true, false */ || code === 0x6c; /* null */

/** True where a compact JSON text may have an opening bracket: one in a string is seldom in such a place. */
function mayOpen(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  return before === COLON || before === COMMA || before === OPEN_ARRAY;
}

/** True where a compact JSON text may have a closing bracket. */
function mayClose(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at + 1);
  const isAfterValue =
    before === QUOTE ||
    before === CLOSE_OBJECT ||
    before === CLOSE_ARRAY ||
    before === OPEN_OBJECT ||
    before === OPEN_ARRAY ||
    isDigitOrWordEnd(before);
  return isAfterValue && (after === COMMA || after === CLOSE_OBJECT || after === CLOSE_ARRAY);
}

/** First character after the nested value at `at`, by its brackets alone; -1 in any doubt. */
function hopEnd(text: string, at: number): number {
  const { length } = text;
  const next = (bracket: string, from: number): number => {
    const found = text.indexOf(bracket, from);
    return found === -1 ? length : found;
  };
  let openObject = next("{", at);
  let closeObject = next("}", at);
  let openArray = next("[", at);
  let closeArray = next("]", at);
  let left = Math.ceil((length - at) / BYTES_PER_BRACKET);
  const closers: number[] = [];
  for (;;) {
    const place = Math.min(openObject, closeObject, openArray, closeArray);
    if (place === length || --left < 0) return -1;
    if (place === openObject || place === openArray) {
      if (closers.length === MAX_DEPTH || !mayOpen(text, place)) return -1;
      if (place === openObject) {
        closers.push(CLOSE_OBJECT);
        openObject = next("{", place + 1);
      } else {
        closers.push(CLOSE_ARRAY);
        openArray = next("[", place + 1);
      }
    } else {
      if (closers.pop() !== text.charCodeAt(place) || !mayClose(text, place)) return -1;
      if (closers.length === 0) return place + 1;
      if (place === closeObject) closeObject = next("}", place + 1);
      else closeArray = next("]", place + 1);
    }
  }
}

/**
 * Members of the only object of a large text, as `jsonMemberSpans` tells them, without looking at what is in their
 * nested values but for the brackets. Keys must be of `keys`, plain, and each there once. Undefined in any doubt, such
 * as a bracket where compact JSON has none: then every byte has to be read. A text that was cut is told by its
 * brackets, unless the rest of them stands in a string just before the cut.
 *
 * @param text as `jsonText` gives it
 */
export function hopJsonMembers(text: string, keys: readonly string[]): readonly JsonMemberSpan[] | undefined {
  const members: JsonMemberSpan[] = [];
  let at = skipJsonSpace(text, 0);
  if (text.charCodeAt(at) !== OPEN_OBJECT) return undefined;
  for (;;) {
    at = skipJsonSpace(text, at + 1);
    const key = keys.find((one) => text.startsWith(`"${one}"`, at));
    if (key === undefined || members.some((one) => one.key === key)) return undefined;
    at = skipJsonSpace(text, at + key.length + 2);
    if (text.charCodeAt(at) !== COLON) return undefined;
    const start = skipJsonSpace(text, at + 1);
    const first = text.charCodeAt(start);
    const end = first === OPEN_OBJECT || first === OPEN_ARRAY ? hopEnd(text, start) : jsonValueEnd(text, start);
    if (end === -1) return undefined;
    members.push({ key, start, end });
    at = skipJsonSpace(text, end);
    const code = text.charCodeAt(at);
    if (code === CLOSE_OBJECT) return skipJsonSpace(text, at + 1) === text.length ? members : undefined;
    if (code !== COMMA) return undefined;
  }
}
