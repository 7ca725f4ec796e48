import type { DescEnum, DescField, DescMessage, DescOneof, Message, MessageShape, Registry } from "@bufbuild/protobuf";
import type { Any, Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { AppError, bytesToBase64, bytesToUtf8 } from "@turnpike/base";
import { unpackAny } from "./any.ts";
import { decimalToJson, durationToJson, numberMark, timestampToJson } from "./api-json-scalars.ts";
import { fieldValue, sortedMapKeys } from "./binary.ts";
import { registry } from "./registry.ts";

/** A JSON value. */
export type ApiJson = string | number | boolean | null | readonly ApiJson[] | { readonly [name: string]: ApiJson };

/** One member of an object, its value as JSON text. */
export interface JsonMemberText {
  readonly name: string;
  readonly json: string;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "<": "\\u003c",
  ">": "\\u003e",
  "&": "\\u0026",
  "\u2028": "\\u2028",
  "\u2029": "\\u2029",
};

// Printable ASCII that needs no escape: nearly all texts.
const PLAIN = /^[ !#-%'-;=?-[\]-~]*$/;

/** A text as Go's encoding/json quotes it: fit for HTML. */
export function quoteText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text).replaceAll(/[<>&\u2028\u2029]/g, (character) => ESCAPES[character] ?? character);
}

function number(value: number): string {
  if (Object.is(value, -0)) return "-0";
  return Number.isFinite(value) ? String(value) : quoteText(String(value));
}

function enumText(desc: DescEnum, value: number): string {
  const name = desc.value[value]?.name;
  return name === undefined ? String(value) : quoteText(name);
}

function scalarText(value: unknown): string {
  if (typeof value === "bigint") return `"${value}"`;
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return String(value);
  if (value instanceof Uint8Array) return `"${bytesToBase64(value)}"`;
  if (typeof value === "string") return quoteText(value);
  throw new AppError("INTERNAL", { message: `${typeof value} is no scalar of proto` });
}

/** Numbers that the chain holds as texts, or as bytes of a text. */
function markedText(mark: "Dec" | "Int", value: unknown): string {
  const text = value instanceof Uint8Array ? (bytesToUtf8(value) ?? "") : String(value);
  return quoteText(mark === "Dec" ? decimalToJson(text) : text === "" ? "0" : text);
}

function anyText(any: Any, types: Registry): string {
  const unpacked = unpackAny(any, types);
  if (!unpacked.ok) throw new AppError("INTERNAL", { message: unpacked.fault });
  const { schema, message } = unpacked.message;
  const type = `"@type":${quoteText(any.typeUrl)}`;
  if (isWellKnown(schema)) return `{${type},"value":${messageText(schema, message, types)}}`;
  const members = memberTexts(schema, message, types).map(({ name, json }) => `,${quoteText(name)}:${json}`);
  return `{${type}${members.join("")}}`;
}

function isWellKnown(schema: DescMessage): boolean {
  return ["google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.Any"].includes(schema.typeName);
}

function messageText(schema: DescMessage, message: Message, types: Registry): string {
  if (schema.typeName === "google.protobuf.Timestamp") return `"${timestampToJson(message as Timestamp)}"`;
  if (schema.typeName === "google.protobuf.Duration") return `"${durationToJson(message as Duration)}"`;
  if (schema.typeName === "google.protobuf.Any") return anyText(message as Any, types);
  const members = memberTexts(schema, message, types).map(({ name, json }) => `${quoteText(name)}:${json}`);
  return `{${members.join(",")}}`;
}

/** What one element of a list, one value of a map, or a field by itself is. */
function itemKind(field: DescField): "message" | "enum" | "scalar" {
  if (field.fieldKind === "list") return field.listKind;
  return field.fieldKind === "map" ? field.mapKind : field.fieldKind;
}

function itemText(field: DescField, value: unknown, types: Registry): string {
  const mark = numberMark(field);
  if (mark !== undefined) return markedText(mark, value);
  const kind = itemKind(field);
  if (kind === "message" && field.message !== undefined) return messageText(field.message, value as Message, types);
  if (kind === "enum" && field.enum !== undefined) return enumText(field.enum, Number(value));
  return scalarText(value);
}

function fieldText(field: DescField, value: unknown, types: Registry): string {
  if (value === undefined) return "null";
  if (field.fieldKind === "list") {
    return `[${(value as readonly unknown[]).map((item) => itemText(field, item, types)).join(",")}]`;
  }
  if (field.fieldKind === "map") {
    const map = value as Record<string, unknown>;
    const entries = sortedMapKeys(field, map).map((key) => `${quoteText(key)}:${itemText(field, map[key], types)}`);
    return `{${entries.join(",")}}`;
  }
  // Go leaves a slice nil when the wire had nothing, and a nil slice is null; inside a oneof it is never nil
  const absent = value instanceof Uint8Array && value.length === 0 && field.oneof === undefined;
  return absent && numberMark(field) === undefined ? "null" : itemText(field, value, types);
}

/** Field of a oneof that is set; a oneof that is not set has no member. */
function setField(member: DescField | DescOneof, message: Message): DescField | undefined {
  if (member.kind === "field") return member;
  return member.fields.find((field) => fieldValue(message, field) !== undefined);
}

function memberTexts(schema: DescMessage, message: Message, types: Registry): JsonMemberText[] {
  return schema.members.flatMap((member) => {
    const field = setField(member, message);
    if (field === undefined) return [];
    return [{ name: field.name, json: fieldText(field, fieldValue(message, field), types) }];
  });
}

/**
 * JSON text of a message, byte for byte as the SDK's REST server prints it: members in the order of their
 * declaration under their original names, defaults included, 64-bit integers as texts, bytes in base64 (absent ones
 * `null`), enums by name, `Any` with `@type`, decimals with 18 places. Throws `INTERNAL` for an `Any` whose type the
 * registry does not know, and for times out of range.
 */
export function toApiJsonText<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
  types: Registry = registry,
): string {
  return messageText(schema, message, types);
}

/** The same as a value. Maps whose keys look like numbers lose their order: send {@link toApiJsonText}. */
export function toApiJson<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
  types: Registry = registry,
): ApiJson {
  return JSON.parse(toApiJsonText(schema, message, types)) as ApiJson;
}

/** The members of a message's JSON, sorted by name: the attributes of a typed event. */
export function jsonMemberTexts<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
  types: Registry = registry,
): JsonMemberText[] {
  return memberTexts(schema, message, types).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
