import { crc32 } from "node:zlib";

/** What a record of a relay log holds. The numbers are those of the file. */
export const RECORD = {
  /** Which session the log is of, as JSON. */
  head: 1,
  /** A mined relay. */
  relay: 2,
  /** Relays that were served and are not mined: below the difficulty, and repeated; 4 bytes each. */
  counts: 3,
  /** Names of requests whose relays are not mined, of {@link REQUEST_NAME_BYTES} each: they are not served again. */
  names: 4,
} as const;

/** One of {@link RECORD}. */
export type RecordKind = (typeof RECORD)[keyof typeof RECORD];

/** Bytes with which a log begins: a name, and the salt of its checksums. */
export const PREAMBLE_BYTES = 16;
const NAME = Buffer.from("TPRELAY1");
const SALT_AT = NAME.length;
const SALT_CHECKSUM_AT = SALT_AT + 4;

/**
 * The beginning of a log. The salt (unsigned 32 bits) is random: what a client wrote into its request is never read as a
 * record, also where a torn record ends in the middle of it.
 */
export function preamble(salt: number): Uint8Array {
  const bytes = Buffer.alloc(PREAMBLE_BYTES);
  bytes.set(NAME);
  bytes.writeUInt32LE(salt, SALT_AT);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, SALT_CHECKSUM_AT)), SALT_CHECKSUM_AT);
  return bytes;
}

/** The salt of a log that begins so; undefined when it is none. */
export function readPreamble(bytes: Buffer): number | undefined {
  if (bytes.length < PREAMBLE_BYTES || bytes.compare(NAME, 0, NAME.length, 0, NAME.length) !== 0) return undefined;
  if (bytes.readUInt32LE(SALT_CHECKSUM_AT) !== crc32(bytes.subarray(0, SALT_CHECKSUM_AT))) return undefined;
  return bytes.readUInt32LE(SALT_AT);
}

/** Bytes before a record's payload: mark, kind, length, checksum. */
export const HEADER_BYTES = 16;
/** Longest payload; a relay's request is bounded by the server. */
const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;

/** Begins every record, so that those behind a damaged one are found. */
const MARK = Buffer.from([0xf5, 0x54, 0x50, 0x52]);
const KIND_AT = 4;
const LENGTH_AT = 8;
const CHECKSUM_AT = 12;

function checksum(header: Uint8Array, payload: Uint8Array, salt: number): number {
  return crc32(payload, crc32(header.subarray(KIND_AT, CHECKSUM_AT), salt));
}

/** The header of a record; its payload follows it. */
export function recordHeader(kind: RecordKind, payload: Uint8Array, salt: number): Uint8Array {
  const header = Buffer.alloc(HEADER_BYTES);
  header.set(MARK);
  header.writeUInt32LE(kind, KIND_AT);
  header.writeUInt32LE(payload.length, LENGTH_AT);
  header.writeUInt32LE(checksum(header, payload, salt), CHECKSUM_AT);
  return header;
}

/** Bytes of a request's name, which is unique in its session. */
export const REQUEST_NAME_BYTES = 16;

/** Payload of a {@link RECORD.names} record. */
export function namesPayload(names: readonly string[]): Uint8Array {
  return Buffer.from(names.join(""), "latin1");
}

/** Reads a {@link namesPayload}. */
export function readNames(payload: Uint8Array): readonly string[] {
  const text = Buffer.from(payload.buffer, payload.byteOffset, payload.length).toString("latin1");
  return Array.from({ length: Math.floor(text.length / REQUEST_NAME_BYTES) }, (_, at) =>
    text.slice(at * REQUEST_NAME_BYTES, (at + 1) * REQUEST_NAME_BYTES),
  );
}

/** Payload of a {@link RECORD.counts} record. */
export function countsPayload(belowDifficulty: number, repeated: number): Uint8Array {
  const payload = Buffer.alloc(8);
  payload.writeUInt32LE(belowDifficulty, 0);
  payload.writeUInt32LE(repeated, 4);
  return payload;
}

/** Reads a {@link countsPayload}; undefined when it is none. */
export function readCounts(
  payload: Uint8Array,
): { readonly belowDifficulty: number; readonly repeated: number } | undefined {
  if (payload.length !== 8) return undefined;
  const view = new DataView(payload.buffer, payload.byteOffset, 8);
  return { belowDifficulty: view.getUint32(0, true), repeated: view.getUint32(4, true) };
}

/** A record as it was found in a file. */
export interface FoundRecord {
  readonly kind: number;
  readonly payload: Uint8Array;
  /** Where the record begins. */
  readonly at: number;
}

/** What {@link readRecord} found at a place. */
export type RecordAt =
  | { readonly kind: "record"; readonly record: FoundRecord; readonly end: number }
  /** The bytes end inside the record, or there are none. */
  | { readonly kind: "short"; readonly needed: number }
  | { readonly kind: "bad" };

/** Reads the record that begins at `at` of a part of the file; `base` is where the part begins. */
export function readRecord(part: Buffer, at: number, base: number, salt: number): RecordAt {
  if (part.length - at < HEADER_BYTES) return { kind: "short", needed: HEADER_BYTES };
  if (part.compare(MARK, 0, MARK.length, at, at + MARK.length) !== 0) return { kind: "bad" };
  const length = part.readUInt32LE(at + LENGTH_AT);
  if (length > MAX_PAYLOAD_BYTES) return { kind: "bad" };
  const end = at + HEADER_BYTES + length;
  if (end > part.length) return { kind: "short", needed: HEADER_BYTES + length };
  const payload = part.subarray(at + HEADER_BYTES, end);
  const header = part.subarray(at, at + HEADER_BYTES);
  if (header.readUInt32LE(CHECKSUM_AT) !== checksum(header, payload, salt)) return { kind: "bad" };
  return { kind: "record", record: { kind: header.readUInt32LE(KIND_AT), payload, at: base + at }, end };
}

/** Where the next record may begin, at `from` or behind it; -1 when nowhere. */
export function nextMark(part: Buffer, from: number): number {
  return part.indexOf(MARK, from);
}
