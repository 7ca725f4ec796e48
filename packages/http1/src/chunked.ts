import { ChunkExtension, EXTENSION_ENDS, EXTENSION_GOES_ON } from "./chunk-extension.ts";
import { isTokenByte } from "./field-table.ts";
import { INCOMPLETE, isValueByte, REFUSED } from "./head.ts";

/** Takes bytes of a body, which are there during the call only; false: it wants no more. */
export type TakeBytes = (bytes: Buffer, start: number, end: number) => boolean;

const CR = 0x0d;
const LF = 0x0a;
const COLON = 0x3a;
const SEMICOLON = 0x3b;
/** Most digits of a chunk's size, with zeros before it. */
const MAX_DIGITS = 16;
const MAX_CHUNK_BYTES = 2 ** 48;
/** Longest trailer section. */
const MAX_TRAILER_BYTES = 4_096;

/** What the next byte is part of. */
const SIZE = 0;
const EXTENSION = 1;
const SIZE_LF = 2;
const DATA = 3;
const DATA_CR = 4;
const DATA_LF = 5;
const LINE_START = 6;
const TRAILER_NAME = 7;
const TRAILER_VALUE = 8;
const TRAILER_LF = 9;
const LAST_LF = 10;

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/**
 * Reads one chunked body (RFC 9112 §7.1), strictly: lines end in CRLF, sizes are digits alone. Extensions and trailer
 * fields are bounded, and dropped.
 */
export class ChunkedReader {
  #state = SIZE;
  /** Of the chunk's size so far. */
  #digits = 0;
  /** Size of the chunk, then what is left of it. */
  #left = 0;
  #trailerBytes = 0;
  readonly #extension = new ChunkExtension();

  /** Begins with another body. */
  reset(): void {
    this.#state = SIZE;
    this.#digits = 0;
    this.#left = 0;
    this.#trailerBytes = 0;
  }

  /**
   * Reads what has come.
   * @returns the place after the body, {@link INCOMPLETE} when all was read, or {@link REFUSED}
   */
  read(bytes: Buffer, from: number, end: number, take: TakeBytes): number {
    let at = from;
    while (at < end) {
      if (this.#state === DATA) {
        const stop = Math.min(end, at + this.#left);
        this.#left -= stop - at;
        if (!take(bytes, at, stop)) return REFUSED;
        at = stop;
        if (this.#left === 0) this.#state = DATA_CR;
        continue;
      }
      const isLast = this.#state === LAST_LF;
      if (!this.#step(bytes[at++] ?? 0)) return REFUSED;
      if (isLast) return at;
    }
    return INCOMPLETE;
  }

  /** One byte that is no data; false when it must not be there. */
  #step(byte: number): boolean {
    switch (this.#state) {
      case SIZE:
        return this.#size(byte);
      case EXTENSION:
        return this.#extensionByte(byte);
      case SIZE_LF:
        return byte === LF && this.#go(this.#left === 0 ? LINE_START : DATA);
      case DATA_CR:
        return byte === CR && this.#go(DATA_LF);
      case DATA_LF:
        this.#digits = 0;
        return byte === LF && this.#go(SIZE);
      case LAST_LF:
        return byte === LF;
      default:
        return this.#trailer(byte);
    }
  }

  #size(byte: number): boolean {
    const digit = hexDigit(byte);
    if (digit !== -1) {
      this.#left = this.#left * 16 + digit;
      return ++this.#digits <= MAX_DIGITS && this.#left <= MAX_CHUNK_BYTES;
    }
    if (this.#digits === 0) return false;
    if (byte === CR) return this.#go(SIZE_LF);
    if (byte !== SEMICOLON) return false;
    this.#extension.reset();
    return this.#go(EXTENSION);
  }

  #extensionByte(byte: number): boolean {
    const step = this.#extension.step(byte);
    return step === EXTENSION_ENDS ? this.#go(SIZE_LF) : step === EXTENSION_GOES_ON;
  }

  #trailer(byte: number): boolean {
    if (++this.#trailerBytes > MAX_TRAILER_BYTES) return false;
    switch (this.#state) {
      case LINE_START:
        return byte === CR ? this.#go(LAST_LF) : isTokenByte(byte) && this.#go(TRAILER_NAME);
      case TRAILER_NAME:
        return byte === COLON ? this.#go(TRAILER_VALUE) : isTokenByte(byte);
      case TRAILER_VALUE:
        return byte === CR ? this.#go(TRAILER_LF) : isValueByte(byte);
      default:
        return byte === LF && this.#go(LINE_START);
    }
  }

  #go(state: number): true {
    this.#state = state;
    return true;
  }
}
