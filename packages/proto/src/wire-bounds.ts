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

/** Form of a field's value in the bytes. */
interface FieldForm {
  readonly wireType: number;
  /** Wire type of a single number, for a list of numbers that may be packed into one field. */
  readonly packedType?: number;
}

interface FieldPlan extends FieldForm {
  readonly name: string;
  readonly plan: (() => MessagePlan) | undefined;
  readonly maxItems: number;
  readonly maxBytes: number;
}

interface MessagePlan {
  readonly isAny: boolean;
  readonly fields: ReadonlyMap<number, FieldPlan>;
}

/** Parts that a message of any size may have, and the bytes that each further one must bring. */
const FREE_PARTS = 1_000;
const BYTES_PER_PART = 8;

/** Maximum number of parts in a message of so many bytes: what a part costs to read is bounded by what was sent for it. */
export function maxPartsOf(sizeBytes: number): number {
  return FREE_PARTS + Math.floor(sizeBytes / BYTES_PER_PART);
}

const ANY = "google.protobuf.Any";
const TYPE_URL_FIELD = 1;
const VALUE_FIELD = 2;
const KEY_FIELD = 1;
const VARINT = 0;
const FIXED_64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED_32 = 5;
const MAX_VARINT_BYTES = 10;
const MAX_TAG = 2 ** 32 - 1;
const NO_BOUND = Number.POSITIVE_INFINITY;
const NOT_PROTOBUF = "the bytes are not protobuf";

function scalarWireType(scalar: ScalarType): number {
  switch (scalar) {
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return FIXED_64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return FIXED_32;
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return LENGTH_DELIMITED;
    default:
      return VARINT;
  }
}

function formOf(field: DescField): FieldForm {
  if (field.fieldKind === "map" || field.message !== undefined) return { wireType: LENGTH_DELIMITED };
  const wireType = field.scalar === undefined ? VARINT : scalarWireType(field.scalar);
  const isPacked = field.fieldKind === "list" && wireType !== LENGTH_DELIMITED;
  return isPacked ? { wireType, packedType: wireType } : { wireType };
}

/** Position of a reader. */
interface Cursor {
  at: number;
  readonly end: number;
}

/**
 * Compares the bytes of messages with bounds before they are decoded: without allocating what they hold, in time linear in
 * their length. A decoder that is more lenient would read other fields than were compared, so bytes that leave room for two
 * readings exceed the bounds, too: values of another wire type or beyond their message's end, groups, and parts of a message
 * that are to be joined.
 */
export class WireScanner {
  readonly #bounds: WireBounds;
  readonly #plans = new WeakMap<DescMessage, MessagePlan>();

  constructor(bounds: WireBounds) {
    this.#bounds = bounds;
  }

  /** The bound that the bytes exceed, in words; undefined when they exceed none. */
  excess(schema: DescMessage, bytes: Uint8Array): string | undefined {
    const { maxParts, maxDepth } = this.#bounds;
    return new Scan(this, bytes, maxParts(bytes.length), maxDepth).run(schema);
  }

  planOf(schema: DescMessage): MessagePlan {
    const existing = this.#plans.get(schema);
    if (existing !== undefined) return existing;
    const fields = new Map<number, FieldPlan>();
    const plan: MessagePlan = { isAny: schema.typeName === ANY, fields };
    for (const field of schema.fields) fields.set(field.number, this.#fieldPlan(field, schema));
    this.#plans.set(schema, plan);
    return plan;
  }

  #fieldPlan(field: DescField, schema: DescMessage): FieldPlan {
    const { maxItems, maxTextBytes } = this.#bounds;
    const isRepeated = field.fieldKind === "list" || field.fieldKind === "map";
    const isText = field.fieldKind !== "map" && field.scalar === ScalarType.STRING;
    return {
      ...formOf(field),
      name: `${schema.typeName}.${field.name}`,
      plan: this.#innerPlan(field, schema),
      // A message that comes again is joined with what came before it.
      maxItems: isRepeated ? maxItems(field, schema) : field.message === undefined ? NO_BOUND : 1,
      maxBytes: isText ? maxTextBytes(field, schema) : NO_BOUND,
    };
  }

  #innerPlan(field: DescField, schema: DescMessage): FieldPlan["plan"] {
    const { message } = field;
    if (field.fieldKind !== "map") return message === undefined ? undefined : () => this.planOf(message);
    const part = (name: string, wireType: number) => ({
      name: `${schema.typeName}.${field.name}.${name}`,
      wireType,
      maxBytes: NO_BOUND,
    });
    const valueType = field.scalar === undefined ? VARINT : scalarWireType(field.scalar);
    const key = { ...part("key", scalarWireType(field.mapKey)), plan: undefined, maxItems: NO_BOUND };
    const value =
      message === undefined
        ? { ...part("value", valueType), plan: undefined, maxItems: NO_BOUND }
        : { ...part("value", LENGTH_DELIMITED), plan: () => this.planOf(message), maxItems: 1 };
    const entry: MessagePlan = {
      isAny: false,
      fields: new Map([
        [KEY_FIELD, key],
        [VALUE_FIELD, value],
      ]),
    };
    return () => entry;
  }
}

class Scan {
  readonly #scanner: WireScanner;
  readonly #bytes: Uint8Array;
  /** The same memory. */
  readonly #text: Buffer;
  readonly #maxParts: number;
  readonly #maxDepth: number;
  #parts = 0;

  constructor(scanner: WireScanner, bytes: Uint8Array, maxParts: number, maxDepth: number) {
    this.#scanner = scanner;
    this.#bytes = bytes;
    this.#text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#maxParts = maxParts;
    this.#maxDepth = maxDepth;
  }

  run(schema: DescMessage): string | undefined {
    return this.#message(this.#scanner.planOf(schema), { at: 0, end: this.#bytes.length }, 0);
  }

  #message({ isAny, fields }: MessagePlan, cursor: Cursor, depth: number): string | undefined {
    if (depth > this.#maxDepth) return "messages are nested too deeply";
    // Made when a field counts: most messages of a long list have none that does.
    let items: Map<number, number> | undefined;
    let typeUrl: string | undefined;
    let value: Cursor | undefined;
    while (cursor.at < cursor.end) {
      const tag = this.#varint(cursor);
      if (tag === undefined || tag > MAX_TAG) return NOT_PROTOBUF;
      const number = Math.floor(tag / 8);
      const wireType = tag % 8;
      const field = fields.get(number);
      const isPacked = field?.packedType !== undefined && wireType === LENGTH_DELIMITED;
      if (field !== undefined && wireType !== field.wireType && !isPacked) {
        return `${field.name} has the wire type ${wireType}`;
      }
      const part = this.#skip(cursor, wireType);
      if (part === undefined) return NOT_PROTOBUF;
      const isDelimited = wireType === LENGTH_DELIMITED;
      if (isDelimited || field === undefined) this.#parts++;
      if (this.#parts > this.#maxParts) return `the message has more than ${this.#maxParts} parts`;
      if (field === undefined) continue;
      if (field.maxItems !== NO_BOUND) items ??= new Map();
      const fault = this.#fieldFault(field, part, items, number);
      if (fault !== undefined) return fault;
      if (isAny) {
        if (number === TYPE_URL_FIELD) typeUrl = this.#text.toString("utf8", part.at, part.end);
        if (number === VALUE_FIELD) value = part;
      } else if (field.plan !== undefined) {
        const inside = this.#message(field.plan(), part, depth + 1);
        if (inside !== undefined) return inside;
      }
    }
    const inner = typeUrl === undefined || value === undefined ? undefined : schemaOfTypeUrl(typeUrl);
    if (inner === undefined || value === undefined) return undefined;
    return this.#message(this.#scanner.planOf(inner), value, depth + 1);
  }

  #fieldFault(
    { name, maxItems, maxBytes, packedType }: FieldPlan,
    part: Cursor,
    items: Map<number, number> | undefined,
    number: number,
  ): string | undefined {
    if (maxItems !== NO_BOUND) {
      const numItems = packedType === undefined ? 1 : this.#numbersIn(part, packedType);
      if (numItems === undefined) return NOT_PROTOBUF;
      const count = (items?.get(number) ?? 0) + numItems;
      if (count > maxItems) return `${name} has more than ${maxItems} items`;
      items?.set(number, count);
    }
    const sizeBytes = part.end - part.at;
    return sizeBytes > maxBytes ? `${name} has ${sizeBytes} bytes; the maximum is ${maxBytes}` : undefined;
  }

  /** Returns the count of numbers in these bytes; undefined when the last number is truncated. */
  #numbersIn({ at, end }: Cursor, wireType: number): number | undefined {
    if (wireType !== VARINT) {
      const numbers = (end - at) / (wireType === FIXED_64 ? 8 : 4);
      return Number.isInteger(numbers) ? numbers : undefined;
    }
    if (end > at && (this.#bytes[end - 1] ?? 0) >= 0x80) return undefined;
    let numbers = 0;
    for (let i = at; i < end; i++) if ((this.#bytes[i] ?? 0) < 0x80) numbers++;
    return numbers;
  }

  /** Moves past a field's value; its place, or undefined when there is none in this message. */
  #skip(cursor: Cursor, wireType: number): Cursor | undefined {
    const start = cursor.at;
    let size: number | undefined;
    if (wireType === LENGTH_DELIMITED) {
      size = this.#varint(cursor);
    } else if (wireType === VARINT) {
      if (this.#varint(cursor) === undefined) return undefined;
      return { at: start, end: cursor.at };
    } else if (wireType === FIXED_64) {
      size = 8;
    } else if (wireType === FIXED_32) {
      size = 4;
    }
    if (size === undefined || size > cursor.end - cursor.at) return undefined;
    const at = cursor.at;
    cursor.at += size;
    return { at, end: cursor.at };
  }

  /** A number of at most ten bytes, exact up to 2^53, which is more than any length; undefined when it has no end here. */
  #varint(cursor: Cursor): number | undefined {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < MAX_VARINT_BYTES && cursor.at < cursor.end; i++) {
      const byte = this.#bytes[cursor.at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    return undefined;
  }
}
