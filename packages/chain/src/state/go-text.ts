import type { DescEnum, DescField, DescMessage, Message, ScalarType } from "@bufbuild/protobuf";

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\" };

/** A text in quotes as Go's `%q` prints it, for texts of ASCII; other characters stay as they are when they can be seen. */
export function goQuoted(text: string): string {
  const inner = text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that need an escape
    /["\\\u0000-\u001f\u007f]/g,
    (one) => SHORT[one] ?? `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${inner}"`;
}

function quotedBytes(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    const one = String.fromCharCode(byte);
    const seen = byte >= 0x20 && byte < 0x7f;
    text += SHORT[one] ?? (seen ? one : `\\${byte.toString(8).padStart(3, "0")}`);
  }
  return `"${text}"`;
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

/** A message in protobuf's text form on one line, as Go prints it inside errors: `name:"x" number:1 `. */
export function compactText(schema: DescMessage, message: Message): string {
  const members = message as unknown as Readonly<Record<string, unknown>>;
  return schema.fields.flatMap((field) => fieldTexts(field, members).map((text) => `${field.name}:${text} `)).join("");
}
