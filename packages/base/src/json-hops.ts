import { type JsonMemberSpan, jsonText, jsonValueEnd, skipJsonSpace } from "./json-spans.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Deepest nesting. */
const MAX_DEPTH = 128;
/** Longer keys, and longer numbers, are left to who reads every byte. */
const MAX_KEY_BYTES = 32;
const MAX_SCALAR_BYTES = 64;
/** With more brackets than one in so many bytes, reading every byte is quicker. */
const BYTES_PER_BRACKET = 48;

const isDigitOrWordEnd = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || code === 0x65 /* true, false */ || code === 0x6c; /* null */

/** True where a compact JSON text may have an opening bracket: one in a string is seldom in such a place. */
function mayOpen(bytes: Buffer, at: number): boolean {
  const before = bytes[at - 1];
  return before === COLON || before === COMMA || before === OPEN_ARRAY;
}

/** True where a compact JSON text may have a closing bracket. */
function mayClose(bytes: Buffer, at: number): boolean {
  const before = bytes[at - 1] ?? 0;
  const after = bytes[at + 1];
  const isAfterValue =
    before === QUOTE ||
    before === CLOSE_OBJECT ||
    before === CLOSE_ARRAY ||
    before === OPEN_OBJECT ||
    before === OPEN_ARRAY ||
    isDigitOrWordEnd(before);
  return isAfterValue && (after === COMMA || after === CLOSE_OBJECT || after === CLOSE_ARRAY);
}

/** First byte after the nested value at `at`, by its brackets alone; -1 in any doubt. */
function hopEnd(bytes: Buffer, at: number): number {
  const { length } = bytes;
  const next = (bracket: number, from: number): number => {
    const found = bytes.indexOf(bracket, from);
    return found === -1 ? length : found;
  };
  let openObject = next(OPEN_OBJECT, at);
  let closeObject = next(CLOSE_OBJECT, at);
  let openArray = next(OPEN_ARRAY, at);
  let closeArray = next(CLOSE_ARRAY, at);
  let left = Math.ceil((length - at) / BYTES_PER_BRACKET);
  const closers: number[] = [];
  for (;;) {
    const place = Math.min(openObject, closeObject, openArray, closeArray);
    if (place === length || --left < 0) return -1;
    if (place === openObject || place === openArray) {
      if (closers.length === MAX_DEPTH || !mayOpen(bytes, place)) return -1;
      if (place === openObject) {
        closers.push(CLOSE_OBJECT);
        openObject = next(OPEN_OBJECT, place + 1);
      } else {
        closers.push(CLOSE_ARRAY);
        openArray = next(OPEN_ARRAY, place + 1);
      }
    } else {
      if (closers.pop() !== bytes[place] || !mayClose(bytes, place)) return -1;
      if (closers.length === 0) return place + 1;
      if (place === closeObject) closeObject = next(CLOSE_OBJECT, place + 1);
      else closeArray = next(CLOSE_ARRAY, place + 1);
    }
  }
}

/** First byte after the string at `at`; -1 when it does not end. */
function stringEnd(bytes: Buffer, at: number): number {
  for (let from = at + 1; ; ) {
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return -1;
    let slashes = quote - 1;
    while (slashes > at && bytes[slashes] === BACKSLASH) slashes--;
    if ((quote - slashes) % 2 === 1) return quote + 1;
    from = quote + 1;
  }
}

/** First byte after the number or word at `at`; -1 in any doubt. */
function scalarEnd(bytes: Buffer, at: number): number {
  const text = jsonText(bytes.subarray(at, at + MAX_SCALAR_BYTES));
  const end = jsonValueEnd(text, 0);
  return end === -1 || end === text.length ? -1 : at + end;
}

function valueEnd(bytes: Buffer, at: number): number {
  const first = bytes[at];
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) return hopEnd(bytes, at);
  return first === QUOTE ? stringEnd(bytes, at) : scalarEnd(bytes, at);
}

/**
 * Members of the only object in a large document, as `jsonMemberSpans` returns them, without looking at what is in their
 * nested values but for the brackets. Keys must be of `keys`, plain, and each there once. Undefined in any doubt, such
 * as a bracket where compact JSON has none: then every byte has to be read. A document that was cut is seen by its
 * brackets, unless the rest of them stands in a string just before the cut. It is never made into a text: for answers of
 * 30 KB that costs more than all the rest.
 */
export function hopJsonMembers(bytes: Buffer, keys: readonly string[]): readonly JsonMemberSpan[] | undefined {
  const members: JsonMemberSpan[] = [];
  let at = skipJsonSpace(bytes, 0);
  if (bytes[at] !== OPEN_OBJECT) return undefined;
  for (;;) {
    at = skipJsonSpace(bytes, at + 1);
    const shown = bytes.toString("latin1", at, at + MAX_KEY_BYTES);
    const key = keys.find((one) => shown.startsWith(`"${one}"`));
    if (key === undefined || members.some((one) => one.key === key)) return undefined;
    at = skipJsonSpace(bytes, at + key.length + 2);
    if (bytes[at] !== COLON) return undefined;
    const start = skipJsonSpace(bytes, at + 1);
    const end = valueEnd(bytes, start);
    if (end === -1) return undefined;
    members.push({ key, start, end });
    at = skipJsonSpace(bytes, end);
    const code = bytes[at];
    if (code === CLOSE_OBJECT) return skipJsonSpace(bytes, at + 1) === bytes.length ? members : undefined;
    if (code !== COMMA) return undefined;
  }
}
