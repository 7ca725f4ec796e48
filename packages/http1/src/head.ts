import { type FieldTable, isTokenByte } from "./field-table.ts";

/** The head is not whole yet. */
export const INCOMPLETE = 0;
/** It is no head that this parser takes. */
export const REFUSED = -1;

/** Bytes of a field value that are taken: visible ones, spaces, tabs and those beyond ASCII (RFC 9110 §5.5). */
const IS_VALUE = new Uint8Array(256);
/** Bytes of a request's target. */
const IS_TARGET = new Uint8Array(256);
for (let byte = 0x21; byte <= 0x7e; byte++) {
  IS_VALUE[byte] = 1;
  IS_TARGET[byte] = 1;
}
for (let byte = 0x80; byte <= 0xff; byte++) IS_VALUE[byte] = 1;
IS_VALUE[0x20] = 1;
IS_VALUE[0x09] = 1;
// A fragment is never sent (RFC 9112 §3.2.1).
IS_TARGET[0x23] = 0;

/** True for a byte of a field value (RFC 9110 §5.5). */
export function isValueByte(byte: number): boolean {
  return IS_VALUE[byte] === 1;
}

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;
const DIGIT_0 = 0x30;
const LONGEST_METHOD = 16;
/** `/1.1` CR LF, and what stands before the version's digits. */
const HTTP_1 = [0x48, 0x54, 0x54, 0x50, 0x2f, 0x31, 0x2e];
const VERSION_BYTES = 8;
const STATUS_LINE_BYTES = 15;

/**
 * What was read of one head: where its parts are in the buffer that it was read from. One object serves for many heads,
 * and its places are good for as long as those bytes are.
 */
export class Head {
  /** Of a request: its method is `[methodStart, methodEnd)`. */
  methodStart = 0;
  methodEnd = 0;
  /** Of a request: its target is `[targetStart, targetEnd)`. */
  targetStart = 0;
  targetEnd = 0;
  /** Of a response. */
  status = 0;
  /** 0 or 1, of HTTP/1.0 or HTTP/1.1. */
  minorVersion = 1;
  /** Field lines, known or not. */
  lines = 0;
  /** Bit `1 << index` for each known field that is there. */
  seen = 0;
  /** Bits of the known fields that are there more than once. */
  repeated = 0;
  /** The value of the known field of index i is `[spans[2 * i], spans[2 * i + 1])`, of the last one when it is repeated. */
  readonly spans = new Int32Array(64);

  /** True when the known field of this index is there. */
  has(index: number): boolean {
    return (this.seen & (1 << index)) !== 0;
  }
}

/** Bounds of heads. */
export interface HeadLimits {
  /** Most field lines. */
  readonly maxLines: number;
}

/**
 * Reads heads of HTTP/1.1 requests and responses (RFC 9112), strictly: what is not plainly right is {@link REFUSED},
 * and so is every form that senders must not use any more, such as a folded line or a line that ends in a bare LF.
 * It says where known fields are and judges none of them: what a body's length is follows from them.
 */
export class HeadParser {
  readonly #table: FieldTable;
  readonly #maxLines: number;
  readonly #seed: number;

  constructor(table: FieldTable, { maxLines }: HeadLimits) {
    this.#table = table;
    this.#maxLines = maxLines;
    this.#seed = table.seed;
  }

  /**
   * Reads the head of a request that begins at `from`.
   * @returns the place after its empty line, {@link INCOMPLETE}, or {@link REFUSED}: also for HTTP/1.0
   */
  request(bytes: Uint8Array, from: number, end: number, head: Head): number {
    let at = from;
    while (at < end && isTokenByte(bytes[at] ?? 0)) at++;
    if (at === end) return at - from > LONGEST_METHOD ? REFUSED : INCOMPLETE;
    if (bytes[at] !== SPACE || at === from) return REFUSED;
    head.methodStart = from;
    head.methodEnd = at++;
    head.targetStart = at;
    while (at < end && IS_TARGET[bytes[at] ?? 0] === 1) at++;
    if (at === end) return INCOMPLETE;
    if (bytes[at] !== SPACE || at === head.targetStart) return REFUSED;
    head.targetEnd = at++;
    const digitAt = at + VERSION_BYTES - 1;
    for (let i = 0; i < VERSION_BYTES - 1 && at + i < end; i++) if (bytes[at + i] !== HTTP_1[i]) return REFUSED;
    if (digitAt < end && bytes[digitAt] !== DIGIT_0 + 1) return REFUSED;
    if (digitAt + 2 >= end) return INCOMPLETE;
    if (bytes[digitAt + 1] !== CR || bytes[digitAt + 2] !== LF) return REFUSED;
    head.minorVersion = 1;
    return this.#fields(bytes, digitAt + 3, end, head);
  }

  /**
   * Reads the head of a response that begins at `from`.
   * @returns the place after its empty line, {@link INCOMPLETE}, or {@link REFUSED}
   */
  response(bytes: Uint8Array, from: number, end: number, head: Head): number {
    for (let i = 0; i < VERSION_BYTES - 1 && from + i < end; i++) if (bytes[from + i] !== HTTP_1[i]) return REFUSED;
    if (end - from < STATUS_LINE_BYTES) return INCOMPLETE;
    const minor = (bytes[from + VERSION_BYTES - 1] ?? 0) - DIGIT_0;
    if (minor !== 0 && minor !== 1) return REFUSED;
    head.minorVersion = minor;
    const codeAt = from + VERSION_BYTES + 1;
    const status = threeDigits(bytes, codeAt);
    if (bytes[codeAt - 1] !== SPACE || status < 100) return REFUSED;
    head.status = status;
    let at = codeAt + 3;
    if (bytes[at] !== SPACE && bytes[at] !== CR) return REFUSED;
    while (at < end && IS_VALUE[bytes[at] ?? 0] === 1) at++;
    if (at + 1 >= end) return at < end && bytes[at] !== CR ? REFUSED : INCOMPLETE;
    if (bytes[at] !== CR || bytes[at + 1] !== LF) return REFUSED;
    return this.#fields(bytes, at + 2, end, head);
  }

  /** Reads field lines and the empty line after them. */
  #fields(bytes: Uint8Array, from: number, end: number, head: Head): number {
    const seed = this.#seed;
    let at = from;
    let lines = 0;
    head.seen = 0;
    head.repeated = 0;
    for (;;) {
      if (at >= end) return INCOMPLETE;
      let byte = bytes[at] ?? 0;
      if (byte === CR) {
        if (at + 1 >= end) return INCOMPLETE;
        head.lines = lines;
        return bytes[at + 1] === LF ? at + 2 : REFUSED;
      }
      const nameStart = at;
      let hash = 0;
      while (isTokenByte(byte)) {
        hash = (Math.imul(hash, seed) + (byte | 0x20)) | 0;
        if (++at === end) return INCOMPLETE;
        byte = bytes[at] ?? 0;
      }
      if (byte !== COLON || at === nameStart) return REFUSED;
      const nameEnd = at++;
      while (at < end && (bytes[at] === SPACE || bytes[at] === TAB)) at++;
      const valueStart = at;
      while (at < end && IS_VALUE[bytes[at] ?? 0] === 1) at++;
      if (at === end) return INCOMPLETE;
      if (bytes[at] !== CR) return REFUSED;
      if (at + 1 === end) return INCOMPLETE;
      if (bytes[at + 1] !== LF) return REFUSED;
      let valueEnd = at;
      while (valueEnd > valueStart && (bytes[valueEnd - 1] === SPACE || bytes[valueEnd - 1] === TAB)) valueEnd--;
      at += 2;
      if (++lines > this.#maxLines) return REFUSED;
      const index = this.#table.find(bytes, nameStart, nameEnd, hash);
      if (index === -1) continue;
      const bit = 1 << index;
      head.repeated |= head.seen & bit;
      head.seen |= bit;
      head.spans[index * 2] = valueStart;
      head.spans[index * 2 + 1] = valueEnd;
    }
  }
}

function threeDigits(bytes: Uint8Array, at: number): number {
  let number = 0;
  for (let i = 0; i < 3; i++) {
    const digit = (bytes[at + i] ?? 0) - DIGIT_0;
    if (digit < 0 || digit > 9) return -1;
    number = number * 10 + digit;
  }
  return number;
}

/** Longest `Content-Length` that is read: its number is exact. */
const LONGEST_LENGTH = 15;

/** The number of a `Content-Length` value in `bytes[start, end)`: digits alone (RFC 9110 §8.6); -1 for anything else. */
export function contentLength(bytes: Uint8Array, start: number, end: number): number {
  if (end === start || end - start > LONGEST_LENGTH) return -1;
  let length = 0;
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] ?? 0) - DIGIT_0;
    if (digit < 0 || digit > 9) return -1;
    length = length * 10 + digit;
  }
  return length;
}

/** True when `bytes[start, end)` is this lower-case ASCII word, in letters of any case. */
export function isWord(bytes: Uint8Array, start: number, end: number, word: string): boolean {
  if (end - start !== word.length) return false;
  for (let i = 0; i < word.length; i++) {
    const byte = bytes[start + i] ?? 0;
    const lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
    if (lower !== word.charCodeAt(i)) return false;
  }
  return true;
}
