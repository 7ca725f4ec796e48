import {
  create,
  type DescField,
  type DescMessage,
  fromBinary,
  isMessage,
  type Message,
  type MessageShape,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { isEngineLimit, utf8ToBytes } from "@turnpike/base";

/** A decoded message, or why the bytes are not one. */
export type Decoded<T> =
  | { readonly ok: true; readonly message: T }
  | {
      readonly ok: false;
      /** What is wrong with the bytes, for logs; other implementations word it differently. */
      readonly fault: string;
    };

/** A field that a schema does not have. */
export interface UnknownField {
  /** Full name of the message that held it. */
  readonly typeName: string;
  readonly number: number;
}

/** Field of a message by its local name: how generated messages hold their values. */
type Fields = Record<string, unknown>;

const MAP_HOLDERS = new WeakMap<DescMessage, boolean>();

function messageOf(field: DescField): DescMessage | undefined {
  return "message" in field ? field.message : undefined;
}

/** True when a message of this schema can hold a map, at any depth. */
function holdsMaps(schema: DescMessage): boolean {
  const known = MAP_HOLDERS.get(schema);
  if (known !== undefined) return known;
  const seen = new Set<DescMessage>();
  const walk = (at: DescMessage): boolean => {
    if (seen.has(at)) return false;
    seen.add(at);
    return at.fields.some((field) => {
      if (field.fieldKind === "map") return true;
      const child = messageOf(field);
      return child !== undefined && walk(child);
    });
  };
  const found = walk(schema);
  MAP_HOLDERS.set(schema, found);
  return found;
}

/** Keys as Go's deterministic marshalling has them: numbers by value, texts by their UTF-8 bytes, false before true. */
export function sortedMapKeys(field: DescField & { readonly fieldKind: "map" }, map: Fields): string[] {
  const keys = Object.keys(map);
  if (field.mapKey === ScalarType.STRING) {
    return keys.sort((a, b) => Buffer.compare(utf8ToBytes(a), utf8ToBytes(b)));
  }
  if (field.mapKey === ScalarType.BOOL) return keys.sort();
  return keys.sort((a, b) => {
    const difference = BigInt(a) - BigInt(b);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  });
}

/** Value of a field in a message; undefined when a oneof has another case. */
export function fieldValue(message: Message, field: DescField): unknown {
  const fields = message as unknown as Fields;
  if (field.oneof === undefined) return fields[field.localName];
  const group = fields[field.oneof.localName] as { readonly case?: string; readonly value?: unknown } | undefined;
  return group?.case === field.localName ? group.value : undefined;
}

/** Bytes of a message that has this field alone. */
function fieldAlone(schema: DescMessage, field: DescField, value: unknown): Uint8Array {
  const alone = create(schema) as unknown as Fields;
  if (field.oneof === undefined) alone[field.localName] = value;
  else alone[field.oneof.localName] = { case: field.localName, value };
  return toBinary(schema, alone as unknown as Message);
}

function writeField(writer: BinaryWriter, schema: DescMessage, field: DescField, value: unknown): void {
  const child = messageOf(field);
  if (field.fieldKind === "map") {
    const map = value as Fields;
    for (const key of sortedMapKeys(field, map)) writer.raw(fieldAlone(schema, field, { [key]: map[key] }));
    return;
  }
  if (child === undefined || !holdsMaps(child)) {
    writer.raw(fieldAlone(schema, field, value));
    return;
  }
  for (const item of field.fieldKind === "list" ? (value as readonly unknown[]) : [value]) {
    if (isMessage(item)) writer.tag(field.number, WireType.LengthDelimited).bytes(encodeMessage(child, item));
  }
}

/**
 * Bytes of a message: fields by number, map entries by key, which is what Go's deterministic marshalling makes. A
 * sub-message that is set is written even when it is empty, one that is not set is left out.
 */
export function encodeMessage<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Uint8Array {
  if (!holdsMaps(schema)) return toBinary(schema, message);
  const writer = new BinaryWriter();
  for (const field of schema.fields.toSorted((a, b) => a.number - b.number)) {
    const value = fieldValue(message, field);
    if (value !== undefined) writeField(writer, schema, field, value);
  }
  for (const { no, wireType, data } of message.$unknown ?? []) writer.tag(no, wireType).raw(data);
  return writer.finish();
}

/** Reads a message. Fields that the schema does not have are kept, and written again by {@link encodeMessage}. */
export function decodeMessage<Desc extends DescMessage>(schema: Desc, bytes: Uint8Array): Decoded<MessageShape<Desc>> {
  try {
    return { ok: true, message: fromBinary(schema, bytes) };
  } catch (cause) {
    // Bytes that one machine reads and another does not are no fault of the bytes.
    if (isEngineLimit(cause)) throw cause;
    return { ok: false, fault: cause instanceof Error ? cause.message : String(cause) };
  }
}

/** First field, depth first, that the schema does not have. What is inside an `Any` or other bytes is not looked at. */
export function findUnknownField(schema: DescMessage, message: Message): UnknownField | undefined {
  const unknown = message.$unknown?.[0];
  if (unknown !== undefined) return { typeName: schema.typeName, number: unknown.no };
  for (const field of schema.fields) {
    const child = messageOf(field);
    const value = child === undefined ? undefined : fieldValue(message, field);
    if (child === undefined || value === undefined) continue;
    const items = isMessage(value) ? [value] : Object.values(value as object);
    for (const item of items) {
      const found = isMessage(item) ? findUnknownField(child, item) : undefined;
      if (found !== undefined) return found;
    }
  }
  return undefined;
}
