import {
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  isMessage,
  type Message,
  type MessageShape,
  type Registry,
  ScalarType,
} from "@bufbuild/protobuf";
import type { Any, Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { bytesToBase64, trimEndOf } from "@turnpike/base";
import { unpackAny } from "./any.ts";
import { decimalToJson, isoSeconds, numberMark } from "./api-json-scalars.ts";
import { quoteText } from "./api-json-write.ts";
import { fieldValue } from "./binary.ts";
import {
  name as aminoName,
  dont_omitempty,
  encoding,
  field_name,
  message_encoding,
} from "./generated/amino/amino_pb.ts";
import { registry } from "./registry.ts";

/** Amino JSON, or why a message has none: it can then not be signed in that form. */
export type AminoJson = { readonly ok: true; readonly json: string } | { readonly ok: false; readonly fault: string };

interface AminoField {
  readonly desc: DescField;
  readonly name: string;
  readonly omitsEmpty: boolean;
  /** A list of coins that is `[]`, not `null`, when it is empty. */
  readonly isCoins: boolean;
}

const PLAIN_INTEGER = /^(?:0|-?[1-9]\d*)$/;
const MOST_DURATION_SECONDS = (1n << 63n) / 1_000_000_000n - 1n;

const made = (json: string): AminoJson => ({ ok: true, json });
const failed = (fault: string): AminoJson => ({ ok: false, fault });
const layouts = new WeakMap<DescMessage, readonly AminoField[]>();

/** The fields of a message in the order of their amino names. */
function layoutOf(schema: DescMessage): readonly AminoField[] {
  const known = layouts.get(schema);
  if (known !== undefined) return known;
  const fields = schema.fields.map((desc) => ({
    desc,
    name: hasOption(desc, field_name) ? getOption(desc, field_name) : desc.name,
    omitsEmpty: !getOption(desc, dont_omitempty),
    isCoins: getOption(desc, encoding) === "legacy_coins",
  }));
  fields.sort((a, b) => (a.name < b.name ? -1 : 1));
  layouts.set(schema, fields);
  return fields;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === "" || value === 0 || value === 0n || value === false) return true;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length === 0;
  return false;
}

function timestampText({ seconds, nanos }: Timestamp): AminoJson {
  const text = isoSeconds(seconds);
  if (text === undefined || nanos < 0 || nanos > 999_999_999) return failed("time out of range");
  const fraction = nanos === 0 ? "" : `.${trimEndOf(String(nanos).padStart(9, "0"), "0")}`;
  return made(`"${text}${fraction}Z"`);
}

function durationText({ seconds, nanos }: Duration): AminoJson {
  if (seconds > MOST_DURATION_SECONDS || seconds < -MOST_DURATION_SECONDS) return failed("duration out of range");
  return made(`"${seconds * 1_000_000_000n + BigInt(nanos)}"`);
}

function joined(parts: Iterable<AminoJson>, open: string, close: string): AminoJson {
  const texts: string[] = [];
  for (const part of parts) {
    if (!part.ok) return part;
    texts.push(part.json);
  }
  return made(`${open}${texts.join(",")}${close}`);
}

function keyText(message: Message): AminoJson {
  const { key } = message as Message & { readonly key?: unknown };
  return made(key instanceof Uint8Array && key.length > 0 ? `"${bytesToBase64(key)}"` : "null");
}

function messageText(schema: DescMessage, message: Message, types: Registry): AminoJson {
  switch (schema.typeName) {
    case "google.protobuf.Timestamp":
      return timestampText(message as Timestamp);
    case "google.protobuf.Duration":
      return durationText(message as Duration);
    case "google.protobuf.Any":
      return anyText(message as Any, types);
    default:
  }
  const form = getOption(schema, message_encoding);
  if (form === "key_field") return keyText(message);
  if (form !== "") return failed(`${schema.typeName} is no part of a transaction`);
  const members = layoutOf(schema).flatMap((field) => {
    const text = memberText(field, message, types);
    return text === undefined ? [] : [text];
  });
  return joined(members, "{", "}");
}

function memberText(
  { desc, name, omitsEmpty, isCoins }: AminoField,
  message: Message,
  types: Registry,
): AminoJson | undefined {
  // The real chain's messages with a oneof have no amino names for its members: they cannot be signed in this form.
  if (desc.oneof !== undefined) {
    return failed(`field ${desc.name} within a oneof must have the amino.oneof_type_name option set`);
  }
  const value = fieldValue(message, desc);
  if (isEmpty(value) && omitsEmpty) return undefined;
  const text = fieldText(desc, value, isCoins, types);
  return text.ok ? made(`${quoteText(name)}:${text.json}`) : text;
}

function fieldText(desc: DescField, value: unknown, isCoins: boolean, types: Registry): AminoJson {
  if (desc.fieldKind === "map") return failed("maps are not supported");
  if (desc.fieldKind === "list") {
    const list = value as readonly unknown[];
    if (list.length === 0) return made(isCoins ? "[]" : "null");
    return joined(
      list.map((item) => itemText(desc, item, types)),
      "[",
      "]",
    );
  }
  if (value === undefined) {
    return failed(`not supported: dont_omit_empty=true on invalid (nil?) message field: ${desc.name}`);
  }
  const mark = numberMark(desc);
  return mark !== undefined && typeof value === "string" ? markedText(mark, value) : itemText(desc, value, types);
}

function markedText(mark: "Dec" | "Int", text: string): AminoJson {
  if (text === "") return made('"0"');
  if (mark === "Int") return made(quoteText(text));
  return PLAIN_INTEGER.test(text) ? made(`"${decimalToJson(text)}"`) : failed(`${quoteText(text)} is no decimal`);
}

function itemText(desc: DescField, value: unknown, types: Registry): AminoJson {
  if (isMessage(value)) {
    const schema = "message" in desc ? desc.message : undefined;
    return schema === undefined ? failed("unknown type") : messageText(schema, value, types);
  }
  if (typeof value === "bigint") return made(`"${value}"`);
  if (typeof value === "boolean") return made(String(value));
  if (typeof value === "string") return made(quoteText(value));
  if (value instanceof Uint8Array) return made(`"${bytesToBase64(value)}"`);
  // An enum's number, or an integer of 32 bits: amino has no form for the others.
  if (typeof value === "number" && !isFloat(desc)) return made(String(value));
  return failed(`unknown type of field ${desc.name}`);
}

function isFloat(desc: DescField): boolean {
  return "scalar" in desc && (desc.scalar === ScalarType.DOUBLE || desc.scalar === ScalarType.FLOAT);
}

function anyText(any: Any, types: Registry): AminoJson {
  const unpacked = unpackAny(any, types);
  if (!unpacked.ok) return failed(unpacked.fault);
  const { schema, message } = unpacked.message;
  const text = messageText(schema, message, types);
  const type = hasOption(schema, aminoName) ? getOption(schema, aminoName) : `/${schema.typeName}`;
  return text.ok ? made(`{"type":"${type}","value":${text.json}}`) : text;
}

/**
 * Amino JSON of a message, byte for byte as the SDK makes it for `SIGN_MODE_LEGACY_AMINO_JSON`: members sorted by name,
 * empty ones left out unless their option says otherwise, enums as numbers, an `Any` as its amino name (its type URL when it
 * has none) and its value.
 */
export function toAminoJson<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
  types: Registry = registry,
): AminoJson {
  return messageText(schema, message, types);
}
