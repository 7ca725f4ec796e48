import {
  type DescField,
  type DescMessage,
  fromJson,
  isMessage,
  type JsonObject,
  type JsonValue,
  type Message,
  type MessageShape,
  type Registry,
  ScalarType,
} from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { bytesToBase64, isRecord, utf8ToBytes } from "@turnpike/base";
import { typeUrlOf, unpackAny } from "./any.ts";
import { decimalFromJson, numberMark } from "./api-json-scalars.ts";
import { encodeMessage, fieldValue } from "./binary.ts";
import { registry, schemaOfTypeUrl } from "./registry.ts";
import { maxPartsOf } from "./wire-bounds.ts";

/** A message read from JSON, or why the JSON is not one. */
export type ReadJson<T> = { readonly ok: true; readonly message: T } | { readonly ok: false; readonly fault: string };

const MAX_DEPTH = 100;
const [COMMA, COLON] = [0x2c, 0x3a];

/** Stored form of a number that JSON has as a text. What is no number is left to the reader to refuse. */
function storedNumber(field: DescField, value: unknown): unknown {
  if (typeof value !== "string") return value;
  const stored = numberMark(field) === "Dec" ? (decimalFromJson(value) ?? value) : value;
  const isBytes = "scalar" in field && field.scalar === ScalarType.BYTES;
  return isBytes ? bytesToBase64(utf8ToBytes(stored)) : stored;
}

function storedField(field: DescField, value: unknown, types: Registry, depth: number): unknown {
  if (numberMark(field) !== undefined) {
    return Array.isArray(value) ? value.map((item) => storedNumber(field, item)) : storedNumber(field, value);
  }
  const child = "message" in field ? field.message : undefined;
  if (child === undefined) return value;
  if (field.fieldKind === "list" && Array.isArray(value)) {
    return value.map((item) => storedMessage(child, item, types, depth));
  }
  if (field.fieldKind === "map" && isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, storedMessage(child, item, types, depth)]),
    );
  }
  return storedMessage(child, value, types, depth);
}

/** JSON of the SDK as protobuf's own JSON: numbers of 18 places become the integers that the wire has. */
function storedMessage(schema: DescMessage, value: unknown, types: Registry, depth: number): unknown {
  if (!isRecord(value) || depth >= MAX_DEPTH) return value;
  if (schema.typeName === "google.protobuf.Any") {
    const type = value["@type"];
    const inner = typeof type === "string" ? schemaOfTypeUrl(type, types) : undefined;
    return inner === undefined ? value : storedMessage(inner, value, types, depth + 1);
  }
  const entries = Object.entries(value).map(([name, item]) => {
    const field = schema.fields.find((each) => each.name === name || each.jsonName === name);
    return [name, field === undefined ? item : storedField(field, item, types, depth + 1)];
  });
  return Object.fromEntries(entries);
}

/** Gives every `Any`, those inside of others too, the chain's type URL: protobuf's own reader writes a host into it. */
function nameTypes(schema: DescMessage, message: Message, types: Registry): void {
  if (schema.typeName === "google.protobuf.Any") {
    const any = message as Any;
    const inner = unpackAny(any, types);
    if (!inner.ok) return;
    nameTypes(inner.message.schema, inner.message.message, types);
    any.typeUrl = typeUrlOf(inner.message.schema);
    any.value = encodeMessage(inner.message.schema, inner.message.message);
    return;
  }
  for (const field of schema.fields) {
    const child = "message" in field ? field.message : undefined;
    const value = child === undefined ? undefined : fieldValue(message, field);
    if (child === undefined || value === undefined) continue;
    for (const item of isMessage(value) ? [value] : Object.values(value as object)) {
      if (isMessage(item)) nameTypes(child, item, types);
    }
  }
}

/**
 * Reads what {@link toApiJson} writes, and what the SDK takes: members by original or JSON name, 64-bit integers as
 * text or number, `null` for what is absent. A member that the schema does not have is a fault.
 */
export function fromApiJson<Desc extends DescMessage>(
  schema: Desc,
  json: unknown,
  types: Registry = registry,
): ReadJson<MessageShape<Desc>> {
  const stored = storedMessage(schema, json, types, 0) as JsonObject | JsonValue;
  try {
    const message = fromJson(schema, stored, { registry: types });
    nameTypes(schema, message, types);
    return { ok: true, message };
  } catch (cause) {
    return { ok: false, fault: cause instanceof Error ? cause.message : String(cause) };
  }
}

/** True when the text has more members and items than one of its size may: each is an object or more in memory. */
function hasTooManyParts(text: Uint8Array): boolean {
  const maxParts = maxPartsOf(text.length);
  let parts = 0;
  for (const byte of text) if (byte === COMMA || byte === COLON) parts++;
  return parts > maxParts;
}

/** Reads a message from the text of its JSON, as {@link fromApiJson}. An empty text is an empty object, as for the SDK. */
export function fromApiJsonText<Desc extends DescMessage>(
  schema: Desc,
  text: Uint8Array,
): ReadJson<MessageShape<Desc>> {
  if (hasTooManyParts(text)) return { ok: false, fault: `the JSON has more than ${maxPartsOf(text.length)} parts` };
  let json: unknown;
  try {
    // Bytes that are no UTF-8 become replacement characters, as in Go.
    json = text.length === 0 ? {} : JSON.parse(Buffer.from(text).toString("utf8"));
  } catch (error) {
    return { ok: false, fault: error instanceof SyntaxError ? error.message : "invalid JSON" };
  }
  return fromApiJson(schema, json);
}
