import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { schemaOfTypeUrl } from "./registry.ts";

/** Bounds of the bytes of a message. */
export interface WireBounds {
  /** Maximum number of texts, byte strings, messages and unknown fields in bytes of this length, at all depths together. */
  readonly maxParts: (sizeBytes: number) => number;
  /** Maximum number of messages that stand inside one another, `Any` included. */
  readonly maxDepth: number;
  /** Maximum number of items of a list. */
  readonly maxItems: (field: DescField, schema: DescMessage) => number;
  /** Maximum bytes of a text. */
  readonly maxTextBytes: (field: DescField, schema: DescMessage) => number;
}

interface FieldPlan {
  readonly name: string;
  readonly message: DescMessage | undefined;
  readonly maxItems: number;
  readonly maxBytes: number;
}

type MessagePlan = ReadonlyMap<number, FieldPlan>;

const ANY = "google.protobuf.Any";
const TYPE_URL_FIELD = 1;
const VALUE_FIELD = 2;
// Groups, which no schema here has, are left to the decoder, as other malformed bytes are.
const VARINT = 0;
const FIXED_64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED_32 = 5;
const MAX_VARINT_BYTES = 10;

/** Position of a reader that stops at the first byte that is not protobuf: the decoder says why. */
interface Cursor {
  at: number;
  readonly end: number;
}

/**
 * Compares the bytes of messages with bounds before they are decoded: without allocating what they hold, in time linear in
 * their length. Bytes that are not a message pass up to the point where they are not: decoding refuses them.
 */
export class WireScanner {
  readonly #bounds: WireBounds;
  readonly #plans = new WeakMap<DescMessage, MessagePlan>();

  constructor(bounds: WireBounds) {
    this.#bounds = bounds;
  }

  /** The bound that the bytes exceed, in words; undefined when they exceed none. */
  excess(schema: DescMessage, bytes: Uint8Array): string | undefined {
    const { maxParts } = this.#bounds;
    return new Scan(this, bytes, maxParts(bytes.length), this.#bounds.maxDepth).run(schema);
  }

  planOf(schema: DescMessage): MessagePlan {
    const existing = this.#plans.get(schema);
    if (existing !== undefined) return existing;
    const { maxItems, maxTextBytes } = this.#bounds;
    const plan = new Map<number, FieldPlan>();
    for (const field of schema.fields) {
      const scalar = "scalar" in field ? field.scalar : undefined;
      const isRepeated = field.fieldKind === "list" || field.fieldKind === "map";
      const items = isRepeated ? maxItems(field, schema) : Number.POSITIVE_INFINITY;
      // Numbers of a list may stand in one field, each in at most ten bytes.
      const isPacked = isRepeated && field.message === undefined && field.fieldKind === "list";
      plan.set(field.number, {
        name: `${schema.typeName}.${field.name}`,
        message: field.fieldKind === "map" ? undefined : field.message,
        maxItems: items,
        maxBytes:
          scalar === ScalarType.STRING
            ? maxTextBytes(field, schema)
            : isPacked && scalar !== ScalarType.BYTES
              ? items * MAX_VARINT_BYTES
              : Number.POSITIVE_INFINITY,
      });
    }
    this.#plans.set(schema, plan);
    return plan;
  }
}

class Scan {
  readonly #scanner: WireScanner;
  readonly #bytes: Uint8Array;
  readonly #maxParts: number;
  readonly #maxDepth: number;
  #parts = 0;

  constructor(scanner: WireScanner, bytes: Uint8Array, maxParts: number, maxDepth: number) {
    this.#scanner = scanner;
    this.#bytes = bytes;
    this.#maxParts = maxParts;
    this.#maxDepth = maxDepth;
  }

  run(schema: DescMessage): string | undefined {
    return this.#message(schema, { at: 0, end: this.#bytes.length }, 0);
  }

  #message(schema: DescMessage, cursor: Cursor, depth: number): string | undefined {
    if (depth > this.#maxDepth) return "messages are nested too deeply";
    const plan = this.#scanner.planOf(schema);
    const items = new Map<number, number>();
    let typeUrl: string | undefined;
    let value: Cursor | undefined;
    while (cursor.at < cursor.end) {
      const tag = this.#varint(cursor);
      const number = Math.floor(tag / 8);
      const field = plan.get(number);
      if (field !== undefined && field.maxItems !== Number.POSITIVE_INFINITY) {
        const count = (items.get(number) ?? 0) + 1;
        if (count > field.maxItems) return `${field.name} has more than ${field.maxItems} items`;
        items.set(number, count);
      }
      const part = this.#skip(cursor, tag % 8);
      if (part !== undefined || field === undefined) this.#parts++;
      if (this.#parts > this.#maxParts) return `the message has more than ${this.#maxParts} parts`;
      if (part === undefined) continue;
      const sizeBytes = part.end - part.at;
      if (field !== undefined && sizeBytes > field.maxBytes) {
        return `${field.name} has ${sizeBytes} bytes; the maximum is ${field.maxBytes}`;
      }
      if (schema.typeName === ANY) {
        if (number === TYPE_URL_FIELD) typeUrl = Buffer.from(this.#bytes.subarray(part.at, part.end)).toString("utf8");
        if (number === VALUE_FIELD) value = part;
      } else if (field?.message !== undefined) {
        const fault = this.#message(field.message, part, depth + 1);
        if (fault !== undefined) return fault;
      }
    }
    const inner = typeUrl === undefined || value === undefined ? undefined : schemaOfTypeUrl(typeUrl);
    return inner === undefined || value === undefined ? undefined : this.#message(inner, value, depth + 1);
  }

  /** Moves past a field's value; its place when it is length-delimited. */
  #skip(cursor: Cursor, wireType: number): Cursor | undefined {
    if (wireType === LENGTH_DELIMITED) {
      const length = this.#varint(cursor);
      const at = cursor.at;
      cursor.at = Math.min(at + length, cursor.end);
      return { at, end: cursor.at };
    }
    if (wireType === VARINT) this.#varint(cursor);
    else if (wireType === FIXED_64) cursor.at += 8;
    else if (wireType === FIXED_32) cursor.at += 4;
    else cursor.at = cursor.end;
    return undefined;
  }

  /** A number of at most ten bytes; exact up to 2^53, which is more than any length. */
  #varint(cursor: Cursor): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < MAX_VARINT_BYTES && cursor.at < cursor.end; i++) {
      const byte = this.#bytes[cursor.at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    cursor.at = cursor.end;
    return 0;
  }
}
