import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { type GoValue, parseGoBase64, parseGoBool, parseGoInteger } from "../services/go-values.ts";

/** Nothing, or the sentence that says what is wrong. */
export type RequestFault = string | undefined;

type Fields = Record<string, unknown>;

const INTEGERS: Readonly<Record<number, { readonly bits: 32 | 64; readonly signed: boolean }>> = {
  [ScalarType.INT32]: { bits: 32, signed: true },
  [ScalarType.SINT32]: { bits: 32, signed: true },
  [ScalarType.SFIXED32]: { bits: 32, signed: true },
  [ScalarType.UINT32]: { bits: 32, signed: false },
  [ScalarType.FIXED32]: { bits: 32, signed: false },
  [ScalarType.INT64]: { bits: 64, signed: true },
  [ScalarType.SINT64]: { bits: 64, signed: true },
  [ScalarType.SFIXED64]: { bits: 64, signed: true },
  [ScalarType.UINT64]: { bits: 64, signed: false },
  [ScalarType.FIXED64]: { bits: 64, signed: false },
};

function scalarValue(type: ScalarType, text: string): GoValue<unknown> {
  const integer = INTEGERS[type];
  if (integer !== undefined) {
    const read = parseGoInteger(text, { ...integer, base: 0 });
    return read.ok && integer.bits === 32 ? { ok: true, value: Number(read.value) } : read;
  }
  if (type === ScalarType.BOOL) return parseGoBool(text);
  if (type === ScalarType.BYTES) return parseGoBase64(text);
  if (type === ScalarType.STRING) return { ok: true, value: text };
  const value = Number(text);
  const isNumber = text.trim() === text && text !== "" && !Number.isNaN(value);
  if (isNumber) return { ok: true, value };
  return { ok: false, text: `strconv.ParseFloat: parsing ${JSON.stringify(text)}: invalid syntax` };
}

function fieldValue(field: DescField, text: string): GoValue<unknown> {
  if (field.enum !== undefined) {
    const named = field.enum.values.find(({ name }) => name === text);
    const numbered = /^[+-]?\d+$/.test(text)
      ? field.enum.values.find(({ number }) => number === Number(text))
      : undefined;
    const value = (named ?? numbered)?.number;
    if (value !== undefined) return { ok: true, value };
    return { ok: false, text: `${text} is not a valid ${field.enum.typeName}` };
  }
  if (field.scalar === undefined) {
    return { ok: false, text: `field type *${field.message?.name ?? field.name} is not supported in query parameters` };
  }
  return scalarValue(field.scalar, text);
}

function findField(schema: DescMessage, name: string): DescField | undefined {
  return schema.fields.find((field) => field.name === name) ?? schema.fields.find((field) => field.jsonName === name);
}

/** The message inside of another, made when it is not there. */
function inner(message: Message, field: DescField, schema: DescMessage): Message {
  const fields = message as unknown as Fields;
  const found = fields[field.localName] as Message | undefined;
  if (found !== undefined) return found;
  const made = create(schema);
  fields[field.localName] = made;
  return made;
}

function setField(message: Message, field: DescField, texts: readonly string[]): RequestFault {
  const fields = message as unknown as Fields;
  if (field.fieldKind === "map") return `more than one value provided for key in map ${field.name}`;
  if (field.fieldKind === "list") {
    const values: unknown[] = [];
    for (const text of texts) {
      const value = fieldValue(field, text);
      if (!value.ok) return value.text;
      values.push(value.value);
    }
    fields[field.localName] = values;
    return undefined;
  }
  if (field.oneof !== undefined) {
    const group = fields[field.oneof.localName] as { readonly case?: string } | undefined;
    if (group?.case !== undefined) return `field already set for ${field.oneof.name} oneof`;
  }
  const value = fieldValue(field, texts[0] ?? "");
  if (!value.ok) return value.text;
  if (field.oneof === undefined) fields[field.localName] = value.value;
  else fields[field.oneof.localName] = { case: field.localName, value: value.value };
  return undefined;
}

/** Sets a field that a path such as `pagination.limit` names; a field that is not there is passed over, as the gateway does. */
function setByPath(
  schema: DescMessage,
  message: Message,
  names: readonly string[],
  texts: readonly string[],
): RequestFault {
  const [name = "", ...rest] = names;
  const field = findField(schema, name);
  if (field === undefined) return undefined;
  if (rest.length === 0) return setField(message, field, texts);
  if (field.fieldKind === "list" || (field.fieldKind === "scalar" && field.scalar === ScalarType.BYTES)) {
    return `unexpected repeated field in ${names.join(".")}`;
  }
  if (field.message === undefined || field.fieldKind !== "message" || field.oneof !== undefined) {
    return `unexpected nested field ${rest[0]} in ${name}`;
  }
  return setByPath(field.message, inner(message, field, field.message), rest, texts);
}

/** Sets what a path's places say. The fault is the gateway's text. */
export function setPathFields(
  schema: DescMessage,
  message: Message,
  fields: readonly (readonly [name: string, text: string])[],
): RequestFault {
  for (const [name, text] of fields) {
    const field = findField(schema, name);
    const fault = field === undefined ? undefined : setField(message, field, [text]);
    if (fault !== undefined) return `type mismatch, parameter: ${name}, error: ${fault}`;
  }
  return undefined;
}

/** The field and the key of `field[key]`, as the gateway's `^(.*)\[(.*)\]$` splits it; undefined for another text. */
function mapEntryOf(text: string): { readonly field: string; readonly key: string } | undefined {
  const open = text.lastIndexOf("[");
  // In Go, `.` is any character but a line feed.
  if (open < 0 || !text.endsWith("]") || text.includes("\n")) return undefined;
  return { field: text.slice(0, open), key: text.slice(open + 1, -1) };
}

/** Sets what a query says; parameters that the path has set already are passed over. */
export function setQueryFields(
  schema: DescMessage,
  message: Message,
  query: ReadonlyMap<string, readonly string[]>,
  taken: readonly string[],
): RequestFault {
  for (const [key, texts] of query) {
    const entry = mapEntryOf(key);
    const names = (entry?.field ?? key).split(".");
    if (taken.includes(names[0] ?? "")) continue;
    const fault = setByPath(schema, message, names, entry === undefined ? texts : [entry.key, ...texts]);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Texts of a query by their names, or what Go says of a query that is none. */
export type ReadQuery =
  | { readonly ok: true; readonly query: ReadonlyMap<string, readonly string[]> }
  | { readonly ok: false; readonly text: string };

/** Undoes percent-encoding; undefined when it is broken. Bytes that are no UTF-8 become replacement characters. */
export function unescapePath(text: string): string | undefined {
  if (!text.includes("%")) return text;
  if (/%(?![0-9a-fA-F]{2})/.test(text)) return undefined;
  const bytes = Buffer.from(
    text.replaceAll(/[^\x20-\x7e]/g, (c) => encodeURIComponent(c.isWellFormed() ? c : "\ufffd")),
  );
  const out = Buffer.alloc(bytes.length);
  let at = 0;
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === 0x25) {
      out[at++] = Number.parseInt(bytes.subarray(i + 1, i + 3).toString("latin1"), 16);
      i += 2;
    } else out[at++] = bytes[i] ?? 0;
  }
  return out.subarray(0, at).toString("utf8");
}

/** Reads a query, what stands behind the `?`. */
export function readQuery(text: string): ReadQuery {
  const query = new Map<string, string[]>();
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    if (pair.includes(";")) return { ok: false, text: "invalid semicolon separator in query" };
    const split = pair.indexOf("=");
    const parts = split < 0 ? [pair, ""] : [pair.slice(0, split), pair.slice(split + 1)];
    const [key, value] = parts.map((part) => unescapePath(part.replaceAll("+", " ")));
    if (key === undefined || value === undefined) {
      const broken = /%[^&=]{0,2}/.exec(pair.replaceAll(/%[0-9a-fA-F]{2}/g, ""))?.[0] ?? "%";
      return { ok: false, text: `invalid URL escape ${JSON.stringify(broken)}` };
    }
    const texts = query.get(key);
    if (texts === undefined) query.set(key, [value]);
    else texts.push(value);
  }
  return { ok: true, query };
}
