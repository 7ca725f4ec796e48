import { asBuffer } from "./bytes.ts";

/** Where a JSON value stands in bytes: from its first byte up to, and without, `end`. */
export interface JsonSpan {
  readonly start: number;
  readonly end: number;
}

/** One member of an object. */
export interface JsonMemberSpan extends JsonSpan {
  /** The key, decoded. */
  readonly key: string;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Classes of bytes outside strings. */
const SCALAR = 0;
const SPACE = 1;
const STRING = 2;
const OPEN = 3;
const CLOSE = 4;
const SEPARATOR = 5;
const NEVER = 6;

const CLASSES = new Uint8Array(256).fill(NEVER);
for (const byte of Buffer.from("0123456789+-.eEtrufalsn")) CLASSES[byte] = SCALAR;
for (const byte of Buffer.from(" \n\r\t")) CLASSES[byte] = SPACE;
for (const byte of Buffer.from("{[")) CLASSES[byte] = OPEN;
for (const byte of Buffer.from("}]")) CLASSES[byte] = CLOSE;
for (const byte of Buffer.from(",:")) CLASSES[byte] = SEPARATOR;
CLASSES[QUOTE] = STRING;

/** Deepest nesting. */
const MAX_JSON_DEPTH = 128;

/** Bytes, or their text by {@link jsonText}: scan many parts of one document by its text. */
export type JsonSource = Uint8Array | string;

/** Bytes as a text of one character a byte, so that places in it are places in the bytes. Searching it is quick. */
export function jsonText(bytes: Uint8Array): string {
  return asBuffer(bytes).toString("latin1");
}

const textOf = (source: JsonSource): string => (typeof source === "string" ? source : jsonText(source));

/** First character after the string whose quote is at `at`; -1 when it does not end. */
export function afterString(text: string, at: number): number {
  for (let from = at + 1; ; ) {
    const quote = text.indexOf('"', from);
    if (quote === -1) return -1;
    let slashes = quote - 1;
    while (slashes > at && text.charCodeAt(slashes) === BACKSLASH) slashes--;
    if ((quote - slashes) % 2 === 1) return quote + 1;
    from = quote + 1;
  }
}

/** The class of a character; the end of the text is of none. */
function classAt(text: string, at: number): number {
  return at < text.length ? (CLASSES[text.charCodeAt(at)] ?? NEVER) : NEVER;
}

function spaceEnd(text: string, at: number): number {
  let i = at;
  while (classAt(text, i) === SPACE) i++;
  return i;
}

/** First byte that is no white space. */
export function skipJsonSpace(source: JsonSource, at: number): number {
  if (typeof source === "string") return spaceEnd(source, at);
  let i = at;
  while (i < source.length && CLASSES[source[i] ?? 0] === SPACE) i++;
  return i;
}

/** Brackets that are open in the value that is read now: one for all, as nothing is read within another. */
const CLOSERS = new Uint8Array(MAX_JSON_DEPTH);

function afterNested(text: string, at: number): number {
  const { length } = text;
  let depth = 0;
  let closer = 0;
  let i = at;
  while (i < length) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = afterString(text, i);
      if (i === -1) return -1;
      continue;
    }
    const kind = CLASSES[code];
    if (kind === OPEN) {
      if (depth >= MAX_JSON_DEPTH) return -1;
      CLOSERS[depth++] = closer;
      closer = code === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY;
    } else if (kind === CLOSE) {
      if (code !== closer) return -1;
      closer = CLOSERS[--depth] ?? 0;
      if (depth === 0) return i + 1;
    } else if (kind === NEVER) return -1;
    i++;
  }
  return -1;
}

function valueEnd(text: string, at: number): number {
  const kind = classAt(text, at);
  if (kind === STRING) return afterString(text, at);
  if (kind === OPEN) return afterNested(text, at);
  let i = at;
  let areDigits = true;
  for (; classAt(text, i) === SCALAR; i++) areDigits &&= isDigit(text.charCodeAt(i));
  // Almost all are ids: digits, and no zero before others.
  if (areDigits && i > at && (i === at + 1 || text.charCodeAt(at) !== ZERO)) return i;
  return NUMBER_OR_WORD.test(text.slice(at, i)) ? i : -1;
}

const ZERO = 0x30;
const isDigit = (code: number): boolean => code >= ZERO && code <= 0x39;
const NUMBER_OR_WORD = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$/;

/**
 * First byte after the JSON value that starts at `at`; -1 when it does not end, its brackets do not match or it is
 * nested deeper than 128. What stands between brackets or quotes is not parsed: such a value is known to be whole, not to
 * be valid.
 */
export function jsonValueEnd(source: JsonSource, at: number): number {
  return valueEnd(textOf(source), at);
}

/**
 * Members of the object that starts at `start`, and where it ends, without reading their values. Undefined when it is
 * no whole object. Repeated keys are all there.
 */
export function jsonMemberSpans(
  source: JsonSource,
  start: number,
): { readonly members: readonly JsonMemberSpan[]; readonly end: number } | undefined {
  const text = textOf(source);
  if (text.charCodeAt(start) !== OPEN_OBJECT) return undefined;
  const members: JsonMemberSpan[] = [];
  let at = spaceEnd(text, start + 1);
  if (text.charCodeAt(at) === CLOSE_OBJECT) return { members, end: at + 1 };
  for (;;) {
    if (text.charCodeAt(at) !== QUOTE) return undefined;
    let key = rpcKey(text, at);
    let keyEnd: number;
    if (key === undefined) {
      keyEnd = afterString(text, at);
      if (keyEnd === -1) return undefined;
      key = keyText(text, at, keyEnd);
      if (key === undefined) return undefined;
    } else keyEnd = at + key.length + 2;
    at = spaceEnd(text, keyEnd);
    if (text.charCodeAt(at) !== COLON) return undefined;
    const from = spaceEnd(text, at + 1);
    const end = valueEnd(text, from);
    if (end === -1) return undefined;
    members.push({ key, start: from, end });
    at = spaceEnd(text, end);
    if (text.charCodeAt(at) === CLOSE_OBJECT) return { members, end: at + 1 };
    if (text.charCodeAt(at) !== COMMA) return undefined;
    at = spaceEnd(text, at + 1);
  }
}

const PLAIN_KEY = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** The key of JSON-RPC whose token begins at `at`; undefined when it is another one. */
function rpcKey(text: string, at: number): string | undefined {
  switch (text.charCodeAt(at + 1)) {
    case 0x65:
      return text.startsWith('error"', at + 1) ? "error" : undefined;
    case 0x69:
      return text.startsWith('id"', at + 1) ? "id" : undefined;
    case 0x6a:
      return text.startsWith('jsonrpc"', at + 1) ? "jsonrpc" : undefined;
    case 0x6d:
      return text.startsWith('method"', at + 1) ? "method" : undefined;
    case 0x70:
      return text.startsWith('params"', at + 1) ? "params" : undefined;
    case 0x72:
      return text.startsWith('result"', at + 1) ? "result" : undefined;
    default:
      return undefined;
  }
}

/** The key whose token is from `at` to `end`; undefined when it is no string of JSON. */
function keyText(text: string, at: number, end: number): string | undefined {
  const inner = text.slice(at + 1, end - 1);
  if (PLAIN_KEY.test(inner)) return inner;
  try {
    return JSON.parse(`"${Buffer.from(inner, "latin1").toString("utf8")}"`) as string;
  } catch {
    return undefined;
  }
}

/** Elements of the array that starts at `start`, and where it ends; undefined when it is no whole array. */
export function jsonElementSpans(
  source: JsonSource,
  start: number,
): { readonly elements: readonly JsonSpan[]; readonly end: number } | undefined {
  const text = textOf(source);
  if (text.charCodeAt(start) !== OPEN_ARRAY) return undefined;
  const elements: JsonSpan[] = [];
  let at = spaceEnd(text, start + 1);
  if (text.charCodeAt(at) === CLOSE_ARRAY) return { elements, end: at + 1 };
  for (;;) {
    const end = valueEnd(text, at);
    if (end === -1) return undefined;
    elements.push({ start: at, end });
    at = spaceEnd(text, end);
    if (text.charCodeAt(at) === CLOSE_ARRAY) return { elements, end: at + 1 };
    if (text.charCodeAt(at) !== COMMA) return undefined;
    at = spaceEnd(text, at + 1);
  }
}
