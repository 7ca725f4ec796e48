import { createHash } from "node:crypto";
import { type Bytes, encodeKey, heightToBytes } from "@turnpike/chain-store";

/** Tables of the index: postings by key and value, and by key alone. */
export interface IndexTables {
  readonly byValue: string;
  readonly byKey: string;
}

/** The index over transactions. */
export const TX_INDEX: IndexTables = { byValue: "tx-index", byKey: "tx-keys" };
/** The index over blocks. */
export const BLOCK_INDEX: IndexTables = { byValue: "block-index", byKey: "block-keys" };

/** Where something stands: the transaction in its block (0 in the index over blocks), and the event in that. */
export interface Posting {
  readonly tx: number;
  readonly event: number;
}

// With both at their longest, every byte a zero, a record's key has 2·96+3 + 2·144+3 + 8 = 494 bytes.
const MAX_KEY_BYTES = 96;
const MAX_VALUE_BYTES = 144;
/** Bytes of the height at the end of a record's key. */
export const HEIGHT_BYTES = 8;
const PLAIN = 1;
const HASHED = 2;
// A long value's text stands beside its postings; what is behind this is not searched by CONTAINS.
const MAX_TEXT_BYTES = 4096;
const NONE = Buffer.alloc(0);

function part(text: string, maxBytes: number): Buffer {
  const bytes = Buffer.from(text);
  const form = bytes.length > maxBytes ? HASHED : PLAIN;
  const inner = form === PLAIN ? bytes : createHash("sha256").update(bytes).digest();
  return Buffer.concat([Buffer.of(form), encodeKey(inner)]);
}

/** What all records of an event key begin with. */
export function keyPrefix(key: string): Buffer {
  return part(key, MAX_KEY_BYTES);
}

/** What all records of a key and a value begin with; the height is behind it. */
export function valuePrefix(ofKey: Bytes, value: string): Buffer {
  return Buffer.concat([ofKey, part(value, MAX_VALUE_BYTES)]);
}

/** A prefix with the height behind it: the key of a record. */
export function atHeight(prefix: Bytes, heightBlocks: bigint): Buffer {
  return Buffer.concat([prefix, heightToBytes(heightBlocks)]);
}

/** A value's text for a record, empty where the key holds it. */
export function longText(value: string): Buffer {
  const bytes = Buffer.from(value);
  return bytes.length > MAX_VALUE_BYTES ? bytes.subarray(0, MAX_TEXT_BYTES) : NONE;
}

/** The value that stands in a record's key behind the prefix of its event key; undefined when it is too long for that. */
export function valueOfKey(recordKey: Bytes, prefixLength: number): string | undefined {
  if (recordKey[prefixLength] !== PLAIN) return undefined;
  const bytes: number[] = [];
  for (let at = prefixLength + 1; at < recordKey.length; at++) {
    const byte = recordKey[at] ?? 0;
    if (byte === 0 && recordKey[++at] === 0) break;
    bytes.push(byte);
  }
  return Buffer.from(bytes).toString();
}

function pushVarint(bytes: number[], value: number): void {
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
}

/** What a record of the index holds. */
export interface IndexRecord {
  /** The text of a value that is too long for the key, or its beginning. */
  readonly text: string;
  /** Transactions in the block that have a posting. */
  readonly txs: number;
  /** In the order of the block. Decoded when they are asked for. */
  postings(): readonly Posting[];
}

/** Writes postings, in their order, with the text of a long value. */
export function encodePostings(postings: readonly Posting[], text: Bytes = NONE): Buffer {
  const head: number[] = [];
  const bytes: number[] = [];
  let txs = 0;
  let last = -1;
  for (const { tx, event } of postings) {
    if (tx !== last) txs++;
    pushVarint(bytes, tx - Math.max(last, 0));
    pushVarint(bytes, event);
    last = tx;
  }
  pushVarint(head, txs);
  pushVarint(head, text.length);
  return Buffer.concat([Buffer.from(head), text, Buffer.from(bytes)]);
}

/** Reads {@link encodePostings}. */
export function decodePostings(bytes: Bytes): IndexRecord {
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; at < bytes.length; scale *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte % 128) * scale;
      if (byte < 128) break;
    }
    return value;
  };
  const txs = next();
  const length = next();
  const start = at + length;
  const text = length === 0 ? "" : Buffer.from(bytes.subarray(at, start)).toString();
  const postings = (): Posting[] => {
    const read: Posting[] = [];
    at = start;
    for (let tx = 0; at < bytes.length; ) {
      tx += next();
      read.push({ tx, event: next() });
    }
    return read;
  };
  return { text, txs, postings };
}
