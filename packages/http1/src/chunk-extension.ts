import { isTokenByte } from "./field-table.ts";
import { isValueByte } from "./head.ts";

const CR = 0x0d;
const EQUALS = 0x3d;
const QUOTE = 0x22;
const SEMICOLON = 0x3b;
const BACKSLASH = 0x5c;
/** Longest extensions of one chunk. */
const MAX_BYTES = 256;

const NAME_START = 0;
const NAME = 1;
const VALUE_START = 2;
const VALUE = 3;
const QUOTED = 4;
const ESCAPED = 5;
const QUOTE_END = 6;

/** What one byte of chunk extensions means. */
export const EXTENSION_GOES_ON = 0;
/** It is the CR of the line's end. */
export const EXTENSION_ENDS = 1;
/** It is not allowed here. */
const EXTENSION_REFUSED = -1;
/** Result of {@link ChunkExtension.step}. */
export type ExtensionStep = typeof EXTENSION_GOES_ON | typeof EXTENSION_ENDS | typeof EXTENSION_REFUSED;

/** Skips the extensions of a chunk (RFC 9112 §7.1.1), after their first semicolon: none is in use. */
export class ChunkExtension {
  #state = NAME_START;
  #bytes = 0;

  /** Begins with those of another chunk. */
  reset(): void {
    this.#state = NAME_START;
    this.#bytes = 0;
  }

  step(byte: number): ExtensionStep {
    const mayEnd = this.#state === NAME || this.#state === VALUE || this.#state === QUOTE_END;
    if (byte === CR && mayEnd) return EXTENSION_ENDS;
    const next = byte === SEMICOLON && mayEnd ? NAME_START : this.#next(byte);
    if (next === undefined || ++this.#bytes > MAX_BYTES) return EXTENSION_REFUSED;
    this.#state = next;
    return EXTENSION_GOES_ON;
  }

  #next(byte: number): number | undefined {
    switch (this.#state) {
      case NAME_START:
        return isTokenByte(byte) ? NAME : undefined;
      case NAME:
        if (byte === EQUALS) return VALUE_START;
        return isTokenByte(byte) ? NAME : undefined;
      case VALUE_START:
        if (byte === QUOTE) return QUOTED;
        return isTokenByte(byte) ? VALUE : undefined;
      case VALUE:
        return isTokenByte(byte) ? VALUE : undefined;
      case QUOTED:
        if (byte === QUOTE) return QUOTE_END;
        if (byte === BACKSLASH) return ESCAPED;
        return isValueByte(byte) ? QUOTED : undefined;
      case ESCAPED:
        return isValueByte(byte) ? QUOTED : undefined;
      default:
        return undefined;
    }
  }
}
