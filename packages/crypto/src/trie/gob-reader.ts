import { AppError } from "@turnpike/base";

/** A cursor over one gob message. Everything that it reads is inside the message, or it throws. */
export class GobCursor {
  readonly #bytes: Uint8Array;
  #at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.#at = at;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /** Reads an unsigned integer: below 128 as it is, else its negated length and big-endian bytes. Above 2^53 is a fault. */
  uint(): number {
    const first = this.#byte();
    if (first < 128) return first;
    const length = 256 - first;
    if (length > 8) throw gobFault("integer");
    let value = 0;
    for (let i = 0; i < length; i++) value = value * 256 + this.#byte();
    if (!Number.isSafeInteger(value)) throw gobFault("integer");
    return value;
  }

  /** Passes over an unsigned integer of any size. */
  skipUint(): void {
    const first = this.#byte();
    if (first >= 128) this.take(first < 248 ? -1 : 256 - first);
  }

  /** Reads a signed integer: the lowest bit says that the others are inverted. */
  int(): number {
    const raw = this.uint();
    return raw % 2 === 0 ? raw / 2 : -(raw + 1) / 2;
  }

  /** Takes so many bytes; a view. */
  take(length: number): Uint8Array {
    if (length < 0 || length > this.left) throw gobFault("length");
    const taken = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return taken;
  }

  /** Takes a counted byte string; a view. */
  bytes(): Uint8Array {
    return this.take(this.uint());
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw gobFault("end");
    this.#at += 1;
    return byte;
  }
}

/** What makes a stream unreadable. Never leaves the decoder. */
export function gobFault(what: string): AppError {
  return new AppError("MALFORMED_REQUEST", { detail: { gob: what } });
}

/**
 * Reads a struct: for each field that is sent, its index is given to `onField`, which must read its value. A struct ends
 * with a zero, or with the message.
 */
export function readStruct(cursor: GobCursor, fields: number, onField: (index: number) => void): void {
  let index = -1;
  while (cursor.left > 0) {
    const delta = cursor.uint();
    if (delta === 0) return;
    index += delta;
    if (index >= fields) throw gobFault("field");
    onField(index);
  }
}

/** Reads the items of a slice, array or map, of which at most `most` are taken. */
export function readItems(cursor: GobCursor, count: number, most: number, onItem: () => void): void {
  if (count > most) throw gobFault("items");
  for (let i = 0; i < count; i++) {
    if (cursor.left === 0) throw gobFault("items");
    onItem();
  }
}
