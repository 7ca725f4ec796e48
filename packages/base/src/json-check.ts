/** States, by the bytes that may come next. Numbers and words end with the byte after them. */
const VALUE = 0;
const VALUE_OR_END = 1;
const KEY = 2;
const KEY_OR_END = 3;
const COLON = 4;
const AFTER_VALUE = 5;
const IN_STRING = 6;
const IN_ESCAPE = 7;
const IN_HEX = 8;
const IN_WORD = 9;
const MINUS = 10;
const ZERO = 11;
const INTEGER = 12;
const POINT = 13;
const FRACTION = 14;
const EXPONENT = 15;
const EXPONENT_SIGN = 16;
const EXPONENT_DIGITS = 17;
const BROKEN = 18;

/** The trace of calls as deep as the EVM lets them be (1,024) has two levels for each. */
export const MAX_CHECKED_DEPTH = 2_500;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Bytes that a string has as they are: not quotes, backslashes and control characters. */
const PLAIN = new Uint8Array(256);
for (let byte = 0x20; byte < 256; byte++) PLAIN[byte] = byte === QUOTE || byte === BACKSLASH ? 0 : 1;

const ESCAPED = new Set(Buffer.from('"\\/bfnrt'));
const WORDS: Readonly<Record<number, Buffer>> = {
  116: Buffer.from("true"),
  102: Buffer.from("false"),
  110: Buffer.from("null"),
};

/** Shorter parts are read byte by byte. */
const LEAST_HOP_BYTES = 128;
/** Strings that are longer than this end where the next quote is searched. */
const NEAR_BYTES = 256;

/** True when bytes have neither control characters nor backslashes: a string in them ends with the next quote. Reads four at once. */
function isWithoutEscapes(bytes: Uint8Array, from: number, to: number): boolean {
  const first = Math.min(to, from + ((4 - ((bytes.byteOffset + from) % 4)) % 4));
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset + first, (to - first) >> 2);
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? 0;
    // The high bit of each byte that is below 0x20.
    if (((word - 0x20202020) & ~word & 0x80808080) !== 0) return false;
  }
  for (let i = from; i < first; i++) if ((bytes[i] ?? 0) < 0x20) return false;
  for (let i = first + words.length * 4; i < to; i++) if ((bytes[i] ?? 0) < 0x20) return false;
  // No further than these bytes: an answer of many parts is checked part by part.
  return !bytes.subarray(from, to).includes(BACKSLASH);
}

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
const isHex = (byte: number): boolean => isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
const isExponent = (byte: number): boolean => (byte | 0x20) === 0x65;
const isSign = (byte: number): boolean => byte === 0x2b || byte === 0x2d;

/** Bounds of a {@link JsonCheck}. */
export interface JsonCheckBounds {
  /** Maximum nesting of arrays and objects; {@link MAX_CHECKED_DEPTH} by default. */
  readonly maxDepth?: number;
  /** Maximum number of values: members of objects, elements of arrays and the document; unbounded by default. */
  readonly maxValues?: number;
}

/** Reason that bytes were refused. */
export type JsonCheckFault = "syntax" | "depth" | "values";

/**
 * Holds bytes against the grammar of JSON (RFC 8259) while they arrive, without making values of them: what it takes,
 * `JSON.parse` takes, and the other way round but for what is beyond its bounds. Whether they are UTF-8 is not looked at.
 */
export class JsonCheck {
  readonly #closers: Uint8Array;
  readonly #maxDepth: number;
  readonly #maxValues: number;
  #values = 0;
  #fault: JsonCheckFault | undefined;
  #depth = 0;
  #state = VALUE;
  /** A key is read: no value. */
  #isKey = false;
  #word: Buffer | undefined;
  /** Bytes of a word, or of a `\u`, that were read. */
  #at = 0;

  constructor({ maxDepth = MAX_CHECKED_DEPTH, maxValues = Number.POSITIVE_INFINITY }: JsonCheckBounds = {}) {
    this.#maxDepth = maxDepth;
    this.#maxValues = maxValues;
    this.#closers = new Uint8Array(maxDepth);
  }

  /** Reason that bytes were refused; undefined while they may be JSON. */
  get fault(): JsonCheckFault | undefined {
    return this.#state === BROKEN ? (this.#fault ?? "syntax") : undefined;
  }

  /** Number of values that were read. */
  get values(): number {
    return this.#values;
  }

  /** Reads further bytes. False when no text that begins with all that was read is JSON. */
  write(bytes: Uint8Array, from = 0, to = bytes.length): boolean {
    const mayHop = to - from >= LEAST_HOP_BYTES && isWithoutEscapes(bytes, from, to);
    let state = this.#state;
    let i = from;
    while (i < to) {
      if (state === IN_STRING) {
        const near = mayHop ? Math.min(to, i + NEAR_BYTES) : to;
        while (i < near && PLAIN[bytes[i] ?? 0] === 1) i++;
        if (i === near && near < to && PLAIN[bytes[i] ?? 0] === 1) {
          const quote = bytes.subarray(i, to).indexOf(QUOTE);
          i = quote === -1 ? to : i + quote;
        }
        if (i === to) break;
        const byte = bytes[i++];
        if (byte === QUOTE) {
          // A string that follows at once, as in compact objects of strings.
          const isNext = i + 1 < to && bytes[i + 1] === QUOTE;
          if (isNext && bytes[i] === (this.#isKey ? 0x3a : 0x2c) && this.#depth > 0) {
            this.#isKey = !this.#isKey && this.#closers[this.#depth - 1] === 0x7d;
            i += 2;
            if (!this.#isKey && !this.#counts()) state = BROKEN;
          } else state = this.#isKey ? COLON : AFTER_VALUE;
        } else if (byte === BACKSLASH) state = IN_ESCAPE;
        else state = BROKEN;
      } else state = this.#next(state, bytes[i++] ?? 0);
      if (state === BROKEN) break;
    }
    this.#state = state;
    return state !== BROKEN;
  }

  /** Begins anew. */
  reset(): void {
    this.#depth = 0;
    this.#state = VALUE;
    this.#isKey = false;
    this.#values = 0;
    this.#fault = undefined;
  }

  /** True when all that was read is one JSON value, with white space around it. */
  end(): boolean {
    return this.#depth === 0 && isEndOfValue(this.#state);
  }

  #next(state: number, byte: number): number {
    switch (state) {
      case AFTER_VALUE:
        return this.#afterValue(byte);
      case VALUE:
        return isSpace(byte) ? VALUE : this.#value(byte);
      case VALUE_OR_END:
        if (isSpace(byte)) return VALUE_OR_END;
        return byte === 0x5d ? this.#close(byte) : this.#value(byte);
      case KEY:
      case KEY_OR_END:
        return this.#key(state, byte);
      case COLON:
        return isSpace(byte) ? COLON : byte === 0x3a ? VALUE : BROKEN;
      case IN_ESCAPE:
        this.#at = 0;
        return byte === 0x75 ? IN_HEX : ESCAPED.has(byte) ? IN_STRING : BROKEN;
      case IN_HEX:
        return isHex(byte) ? (++this.#at === 4 ? IN_STRING : IN_HEX) : BROKEN;
      case IN_WORD:
        if (this.#word?.[this.#at] !== byte) return BROKEN;
        return ++this.#at === this.#word.length ? AFTER_VALUE : IN_WORD;
      default:
        return this.#number(state, byte);
    }
  }

  /** Counts a value; false when it is one too many. */
  #counts(): boolean {
    if (++this.#values <= this.#maxValues) return true;
    this.#fault = "values";
    return false;
  }

  #value(byte: number): number {
    if (!this.#counts()) return BROKEN;
    if (byte === QUOTE) {
      this.#isKey = false;
      return IN_STRING;
    }
    if (byte === 0x7b || byte === 0x5b) {
      if (this.#depth === this.#maxDepth) {
        this.#fault = "depth";
        return BROKEN;
      }
      // A closing bracket is two after its opening one.
      this.#closers[this.#depth++] = byte + 2;
      return byte === 0x7b ? KEY_OR_END : VALUE_OR_END;
    }
    if (byte === 0x2d) return MINUS;
    if (byte === 0x30) return ZERO;
    if (isDigit(byte)) return INTEGER;
    this.#word = WORDS[byte];
    this.#at = 1;
    return this.#word === undefined ? BROKEN : IN_WORD;
  }

  #key(state: number, byte: number): number {
    if (isSpace(byte)) return state;
    if (byte === 0x7d && state === KEY_OR_END) return this.#close(byte);
    this.#isKey = true;
    return byte === QUOTE ? IN_STRING : BROKEN;
  }

  #close(byte: number): number {
    return this.#closers[--this.#depth] === byte ? AFTER_VALUE : BROKEN;
  }

  #afterValue(byte: number): number {
    if (isSpace(byte)) return AFTER_VALUE;
    if (this.#depth === 0) return BROKEN;
    if (byte !== 0x2c) return this.#close(byte);
    return this.#closers[this.#depth - 1] === 0x7d ? KEY : VALUE;
  }

  #number(state: number, byte: number): number {
    const next = afterNumberByte(state, byte);
    return next === AFTER_VALUE ? this.#afterValue(byte) : next;
  }
}

/** The state after a byte within a number; `AFTER_VALUE` when the number ended before it. */
function afterNumberByte(state: number, byte: number): number {
  if (isDigit(byte)) {
    if (state === MINUS) return byte === 0x30 ? ZERO : INTEGER;
    if (state === POINT) return FRACTION;
    if (state === EXPONENT || state === EXPONENT_SIGN) return EXPONENT_DIGITS;
    return state === ZERO ? BROKEN : state;
  }
  if (state === EXPONENT && isSign(byte)) return EXPONENT_SIGN;
  if (!isEndOfValue(state)) return BROKEN;
  if (byte === 0x2e) return state === ZERO || state === INTEGER ? POINT : BROKEN;
  if (isExponent(byte)) return state === EXPONENT_DIGITS ? BROKEN : EXPONENT;
  return AFTER_VALUE;
}

function isEndOfValue(state: number): boolean {
  return (
    state === AFTER_VALUE || state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT_DIGITS
  );
}

/** For bytes that are there as a whole: nothing is read within another. */
const WHOLE = new JsonCheck();

/** True when bytes, from one place up to another, are one JSON value: see {@link JsonCheck}. */
export function isJson(bytes: Uint8Array, from = 0, to = bytes.length): boolean {
  WHOLE.reset();
  return WHOLE.write(bytes, from, to) && WHOLE.end();
}
