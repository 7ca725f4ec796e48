import { asBuffer } from "@turnpike/base";

/** Where the value of one member of a top-level JSON object stands. */
export interface MemberSpan {
  readonly start: number;
  /** First byte after the value. */
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** First byte after the string that starts at `at`; -1 when it does not end. */
function afterString(bytes: Buffer, at: number): number {
  let from = at + 1;
  for (;;) {
    const quote = bytes.indexOf(QUOTE, from);
    if (quote === -1) return -1;
    let slashes = 0;
    while (bytes[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}

/** First byte after the value that starts at `at`; -1 when it does not end. */
function afterValue(bytes: Buffer, at: number): number {
  let depth = 0;
  let i = at;
  while (i < bytes.length) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      i = afterString(bytes, i);
      if (i === -1 || depth === 0) return i;
      continue;
    }
    if (byte === 0x7b || byte === 0x5b) depth++;
    else if (byte === 0x7d || byte === 0x5d) {
      if (depth === 0) return i;
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && (byte === 0x2c || isSpace(byte))) return i;
    i++;
  }
  return -1;
}

/**
 * Finds the members of a top-level JSON object without reading their values, so that one can be replaced and the rest
 * of the bytes kept. The text must be known to be JSON. Undefined when it is no object or repeats a key.
 */
export function findMembers(body: Uint8Array): ReadonlyMap<string, MemberSpan> | undefined {
  const bytes = asBuffer(body);
  const members = new Map<string, MemberSpan>();
  let at = 0;
  const skip = (): void => {
    while (isSpace(bytes[at])) at++;
  };
  skip();
  if (bytes[at++] !== 0x7b) return undefined;
  for (;;) {
    skip();
    if (bytes[at] !== QUOTE) return bytes[at] === 0x7d && members.size === 0 ? members : undefined;
    const keyEnd = afterString(bytes, at);
    if (keyEnd === -1) return undefined;
    const key = JSON.parse(bytes.toString("utf8", at, keyEnd)) as string;
    at = keyEnd;
    skip();
    if (bytes[at++] !== 0x3a) return undefined;
    skip();
    const start = at;
    const end = afterValue(bytes, start);
    if (end === -1 || members.has(key)) return undefined;
    members.set(key, { start, end });
    at = end;
    skip();
    const next = bytes[at++];
    if (next === 0x7d) return members;
    if (next !== 0x2c) return undefined;
  }
}

/** The same bytes with the span's value replaced by a raw JSON text. */
export function replaceSpan(body: Uint8Array, span: MemberSpan, raw: string): Uint8Array {
  return Buffer.concat([body.subarray(0, span.start), Buffer.from(raw, "utf8"), body.subarray(span.end)]);
}
