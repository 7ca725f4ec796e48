import { AppError, bytesToUtf8 } from "@turnpike/base";

/** A text or bytes field: both are the same on the wire, and texts that were read as bytes are written as they were. */
export type WireBytes = Uint8Array | string;

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;

/** No bytes. */
export const NO_BYTES: Uint8Array = new Uint8Array(0);

/** The text that bytes are; undefined when they are not UTF-8. */
export function wireText(bytes: Uint8Array): string | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
  // A replacement character is what the fast conversion makes of bad bytes, and may have been there.
  return text.includes("\ufffd") ? bytesToUtf8(bytes) : text;
}

/**
 * Reads protobuf in one pass, as the chain's generated code (gogo) does: what is read last holds, and what is not known
 * is skipped. It never throws: after bytes that are no message `ok` is false and there are no more fields.
 */
export class WireReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #end: number;
  #wireType = 0;
  // The last varint: its lower and upper 32 bits, unsigned.
  #low = 0;
  #high = 0;
  ok = true;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#end = bytes.length;
  }

  /** The number of the next field of the message; 0 when there is none. */
  next(): number {
    if (!this.ok || this.#at >= this.#end || !this.#varint()) return 0;
    this.#wireType = this.#low & 7;
    const number = (this.#low >>> 3) | (this.#high << 29);
    if (number <= 0) this.#fail();
    return this.ok ? number : 0;
  }

  /** A field of text or bytes, as a view. */
  bytes(): Uint8Array {
    const length = this.#length();
    const start = this.#at;
    this.#at += length;
    return this.ok ? this.#bytes.subarray(start, this.#at) : NO_BYTES;
  }

  /** A signed field of 64 bits. */
  int64(): bigint {
    if (this.#wireType !== VARINT) this.#fail();
    else if (this.#varint()) return (BigInt(this.#high | 0) << 32n) | BigInt(this.#low);
    return 0n;
  }

  /** An unsigned field of 32 bits: of a larger number the lower bits. */
  uint32(): number {
    if (this.#wireType !== VARINT) this.#fail();
    else if (this.#varint()) return this.#low;
    return 0;
  }

  /** Begins a message within this one; what it returns is for {@link leave}. */
  enter(): number {
    const outer = this.#end;
    const length = this.#length();
    this.#end = this.#at + length;
    return outer;
  }

  /** Ends the message that {@link enter} began. */
  leave(outer: number): void {
    this.#at = this.#end;
    this.#end = outer;
  }

  /** Skips a field that is not known. */
  skip(): void {
    let groups = 0;
    let wireType = this.#wireType;
    for (;;) {
      if (wireType === VARINT) this.#varint();
      else if (wireType === FIXED64) this.#advance(8);
      else if (wireType === FIXED32) this.#advance(4);
      else if (wireType === LENGTH_DELIMITED) this.#advance(this.#varint() ? this.#size() : 0);
      else if (wireType === START_GROUP) groups++;
      else if (wireType === END_GROUP && groups > 0) groups--;
      else this.#fail();
      if (!this.ok || groups === 0 || !this.#varint()) return;
      wireType = this.#low & 7;
    }
  }

  #fail(): void {
    this.ok = false;
  }

  #advance(count: number): void {
    if (count > this.#end - this.#at) this.#fail();
    else this.#at += count;
  }

  /** The last varint as a length: more than any message has where it does not fit. */
  #size(): number {
    return this.#high === 0 ? this.#low : Number.POSITIVE_INFINITY;
  }

  /** A length that the message has room for. */
  #length(): number {
    if (this.#wireType !== LENGTH_DELIMITED) this.#fail();
    else if (this.#varint()) {
      if (this.#size() <= this.#end - this.#at) return this.#low;
      this.#fail();
    }
    return 0;
  }

  #varint(): boolean {
    let at = this.#at;
    let low = 0;
    let high = 0;
    // Ten bytes at most; of the tenth all but its lowest bit is beyond 64 bits and dropped.
    for (let shift = 0; shift < 70 && at < this.#end; shift += 7) {
      const byte = this.#bytes[at++] ?? 0;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte >= 0x80) continue;
      this.#at = at;
      this.#low = low >>> 0;
      this.#high = high >>> 0;
      return true;
    }
    this.#fail();
    return false;
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++;
  return size;
}

const lengthOf = (value: WireBytes): number =>
  typeof value === "string" ? Buffer.byteLength(value, "utf8") : value.length;

/** Bytes that a length-delimited field of a number below 16 takes, its tag and length included. */
export function fieldSize(length: number): number {
  return 1 + varintSize(length) + length;
}

/** Bytes that a text or bytes field takes: none when it is empty. */
export function bytesSize(value: WireBytes): number {
  const length = lengthOf(value);
  return length === 0 ? 0 : fieldSize(length);
}

/** Bytes that an unsigned field of 32 bits takes: none when it is zero. */
export function uint32Size(value: number): number {
  return value === 0 ? 0 : 1 + varintSize(value);
}

/** Bytes that a signed field of 64 bits takes: none when it is zero, ten and the tag when it is negative. */
export function int64Size(value: bigint): number {
  if (value === 0n) return 0;
  let size = 1;
  let rest = BigInt.asUintN(64, value);
  for (; rest > 0xffff_ffffn; rest >>= 7n) size++;
  return size + varintSize(Number(rest));
}

/** Writes protobuf into one allocation of a size that was computed before. Fields of zero or no bytes are left out. */
export class WireWriter {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(size: number) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  /** The tag and length of a length-delimited field, which the caller writes next. */
  open(number: number, length: number): void {
    this.#byte((number << 3) | LENGTH_DELIMITED);
    this.#varint(length);
  }

  /** A text or bytes field. */
  bytes(number: number, value: WireBytes): void {
    const length = lengthOf(value);
    if (length === 0) return;
    this.always(number, value, length);
  }

  /** A text or bytes field that is written even when it is empty: in maps and repeated fields. */
  always(number: number, value: WireBytes, length: number = lengthOf(value)): void {
    this.open(number, length);
    if (typeof value === "string") this.#bytes.write(value, this.#at, length, "utf8");
    else this.#bytes.set(value, this.#at);
    this.#at += length;
  }

  /** Bytes that are fields already. */
  raw(fields: Uint8Array): void {
    this.#bytes.set(fields, this.#at);
    this.#at += fields.length;
  }

  /** An unsigned field of 32 bits. */
  uint32(number: number, value: number): void {
    if (value === 0) return;
    this.#byte(number << 3);
    this.#varint(value);
  }

  /** A signed field of 64 bits. */
  int64(number: number, value: bigint): void {
    if (value === 0n) return;
    this.#byte(number << 3);
    let rest = BigInt.asUintN(64, value);
    for (; rest > 0xffff_ffffn; rest >>= 7n) this.#byte(Number(rest & 0x7fn) | 0x80);
    this.#varint(Number(rest));
  }

  /** What was written. @throws AppError INTERNAL when it is not of the size that was computed */
  finish(): Uint8Array {
    if (this.#at !== this.#bytes.length) {
      throw new AppError("INTERNAL", { detail: { written: this.#at, computed: this.#bytes.length } });
    }
    return this.#bytes;
  }

  #byte(value: number): void {
    this.#bytes[this.#at++] = value;
  }

  #varint(value: number): void {
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#byte((rest % 0x80) | 0x80);
    this.#byte(rest);
  }
}
