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
// A value in an error is foreign, and may be a megabyte: neither the text nor the time to write it may grow with its size.
const MAX_SHOWN_CHARACTERS = 4_096;
const CUT = "...";

/** Characters that a text may still grow by. */
interface Room {
  left: number;
}

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

function quotedBytes(bytes: Uint8Array, room: Room): string {
  let text = "";
  const shown = bytes.subarray(0, Math.max(0, room.left));
  for (const byte of shown) {
    const one = String.fromCharCode(byte);
    const seen = byte >= 0x20 && byte < 0x7f;
    text += SHORT[one] ?? (seen ? one : `\\${byte.toString(8).padStart(3, "0")}`);
  }
  return bytes.length > shown.length ? `"${text}${CUT}"` : `"${text}"`;
}

interface ValueKind {
  readonly scalar?: ScalarType;
  readonly enum?: DescEnum;
  readonly message?: DescMessage;
}

function valueText(value: unknown, kind: ValueKind, room: Room): string {
  if (kind.message !== undefined) return `<${membersText(kind.message, value as Message, room)}>`;
  if (kind.enum !== undefined) {
    return kind.enum.values.find(({ number }) => number === value)?.name ?? String(value);
  }
  if (value instanceof Uint8Array) return quotedBytes(value, room);
  return typeof value === "string"
    ? quotedBytes(Buffer.from(value.slice(0, MAX_SHOWN_CHARACTERS)), room)
    : String(value);
}

const isDefault = (value: unknown): boolean =>
  value === undefined ||
  value === "" ||
  value === 0 ||
  value === 0n ||
  value === false ||
  (value instanceof Uint8Array && value.length === 0);

/** Texts of a field's values, each made when it is asked for. */
function* fieldTexts(field: DescField, message: Readonly<Record<string, unknown>>, room: Room): Generator<string> {
  if (field.oneof !== undefined) {
    const chosen = message[field.oneof.localName] as { case?: string; value?: unknown } | undefined;
    if (chosen?.case === field.localName) yield valueText(chosen.value, field as object, room);
    return;
  }
  const value = message[field.localName];
  if (field.fieldKind === "list") {
    for (const item of value as readonly unknown[]) yield valueText(item, field as object, room);
  } else if (field.fieldKind === "map") {
    const entries = Object.entries(value as Record<string, unknown>).sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [key, item] of entries) yield `<key:${key} value:${valueText(item, field as object, room)} >`;
  } else if (!isDefault(value)) yield valueText(value, field as object, room);
}

function membersText(schema: DescMessage, message: Message, room: Room): string {
  const members = message as unknown as Readonly<Record<string, unknown>>;
  let text = "";
  for (const field of schema.fields) {
    for (const value of fieldTexts(field, members, room)) {
      const member = `${field.name}:${value} `;
      text += member;
      room.left -= member.length;
      if (room.left <= 0) return text + CUT;
    }
  }
  return text;
}

/**
 * A message in protobuf's text form on one line, as Go prints it inside errors: `name:"x" number:1 `. After some 4,000
 * characters the rest is left out.
 */
export function compactText(schema: DescMessage, message: Message): string {
  return membersText(schema, message, { left: MAX_SHOWN_CHARACTERS });
}
