import type { DescEnum, DescField, DescMessage, Message, ScalarType } from "@bufbuild/protobuf";

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\" };
const NAMED: Readonly<Record<string, string>> = {
  ...SHORT,
  "\x07": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\v": "\\v",
};
const PRINTED = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
// A card or a nested message of a megabyte must not stand in every error that names it, four characters a byte.
const MOST_SHOWN_BYTES = 10_000;

function quoted(character: string): string {
  const named = NAMED[character];
  if (named !== undefined) return named;
  if (PRINTED.test(character)) return character;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** A text in double quotes as Go's `%q` prints it: how the chain's errors show names and addresses. */
export function goQuoted(text: string): string {
  return `"${Array.from(text, quoted).join("")}"`;
}

/** Name of a parameter's value in `MsgUpdateParam`, as Go's `%T` prints it: `asUint64` is `*types.MsgUpdateParam_AsUint64`. */
export function goTypeOfValue(kind: string | undefined): string {
  return kind === undefined ? "<nil>" : `*types.MsgUpdateParam_${kind.slice(0, 1).toUpperCase()}${kind.slice(1)}`;
}

function quotedBytes(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes.subarray(0, MOST_SHOWN_BYTES)) {
    const one = String.fromCharCode(byte);
    const seen = byte >= 0x20 && byte < 0x7f;
    text += SHORT[one] ?? (seen ? one : `\\${byte.toString(8).padStart(3, "0")}`);
  }
  return bytes.length > MOST_SHOWN_BYTES ? `"${text}..."` : `"${text}"`;
}

function valueText(value: unknown, kind: { scalar?: ScalarType; enum?: DescEnum; message?: DescMessage }): string {
  if (kind.message !== undefined) return `<${compactText(kind.message, value as Message)}>`;
  if (kind.enum !== undefined) {
    return kind.enum.values.find(({ number }) => number === value)?.name ?? String(value);
  }
  if (value instanceof Uint8Array) return quotedBytes(value);
  return typeof value === "string" ? quotedBytes(Buffer.from(value, "utf8")) : String(value);
}

const isDefault = (value: unknown): boolean =>
  value === undefined ||
  value === "" ||
  value === 0 ||
  value === 0n ||
  value === false ||
  (value instanceof Uint8Array && value.length === 0);

function fieldTexts(field: DescField, message: Readonly<Record<string, unknown>>): string[] {
  if (field.oneof !== undefined) {
    const chosen = message[field.oneof.localName] as { case?: string; value?: unknown } | undefined;
    return chosen?.case === field.localName ? [valueText(chosen.value, field as object)] : [];
  }
  const value = message[field.localName];
  if (field.fieldKind === "list") return (value as unknown[]).map((item) => valueText(item, field as object));
  if (field.fieldKind === "map") {
    return Object.entries(value as Record<string, unknown>)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => `<key:${key} value:${valueText(item, field as object)} >`);
  }
  return isDefault(value) ? [] : [valueText(value, field as object)];
}

/**
 * A message in protobuf's text form on one line, as Go prints it inside errors: `name:"x" number:1 `. Of a text or of bytes
 * only the first 10,000 bytes are shown.
 */
export function compactText(schema: DescMessage, message: Message): string {
  const members = message as unknown as Readonly<Record<string, unknown>>;
  return schema.fields.flatMap((field) => fieldTexts(field, members).map((text) => `${field.name}:${text} `)).join("");
}
