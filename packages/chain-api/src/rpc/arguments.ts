import { type JsonKind, kindOf, quoteGo, type RawJson, rawToValue, scanWhole } from "./go-json.ts";

/** Kinds of arguments: Go's types, by which JSON and addresses are read. */
export type ArgumentKind = "int64" | "int" | "uint" | "bool" | "string" | "bytes" | "hexBytes" | "evidence";

/** An argument's value; undefined: it was not given, or null. */
export type ArgumentValue = bigint | boolean | string | Uint8Array | undefined;

/** A value, or why it cannot be read, in Go's words. */
export type ReadArgument =
  | { readonly ok: true; readonly value: ArgumentValue }
  | { readonly ok: false; readonly fault: string };

const HEX = /^(?:[0-9a-fA-F]{2})*$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const INTEGER = /^-?[0-9]+$/;
const RANGES = {
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  int: [-(2n ** 63n), 2n ** 63n - 1n],
  uint: [0n, 2n ** 64n - 1n],
} as const;
const GO_KINDS: Readonly<Record<ArgumentKind, string>> = {
  int64: "int64",
  int: "int",
  uint: "uint",
  bool: "bool",
  string: "string",
  bytes: "slice",
  hexBytes: "slice",
  evidence: "interface",
};

const given = (value: ArgumentValue): ReadArgument => ({ ok: true, value });
const refused = (fault: string): ReadArgument => ({ ok: false, fault });
const wrongKind = (kind: JsonKind, type: string): ReadArgument =>
  refused(`json: cannot unmarshal ${kind} into Go value of type ${type}`);

/** Reads a hex text as Go does. */
function readHex(text: string): ReadArgument {
  if (HEX.test(text)) return given(Uint8Array.from(Buffer.from(text, "hex")));
  for (const char of text.length % 2 === 0 ? text : `${text}0`) {
    if (/^[0-9a-fA-F]$/.test(char)) continue;
    const code = (Buffer.from(char, "utf8")[0] ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return refused(`encoding/hex: invalid byte: U+${code}${/^[ -~]$/.test(char) ? ` '${char}'` : ""}`);
  }
  return refused("encoding/hex: odd length hex string");
}

/** Reads standard base64 as Go does: line breaks are skipped, padding is needed. */
export function readBase64(text: string): ReadArgument {
  if (text.length % 4 === 0 && BASE64.test(text)) return given(Uint8Array.from(Buffer.from(text, "base64")));
  const at = base64FaultAt(text);
  if (at !== undefined) return refused(`illegal base64 data at input byte ${at}`);
  return given(Uint8Array.from(Buffer.from(text, "base64")));
}

// Where Go says that the text is wrong.
function base64FaultAt(text: string): number | undefined {
  let next = 0;
  const skipBreaks = (): void => {
    while (text[next] === "\r" || text[next] === "\n") next++;
  };
  for (;;) {
    for (let place = 0; place < 4; place++) {
      skipBreaks();
      const char = text[next];
      if (char === undefined) return place === 0 ? undefined : next - place;
      next++;
      if (/^[A-Za-z0-9+/]$/.test(char)) continue;
      if (char !== "=" || place < 2) return next - 1;
      skipBreaks();
      if (place === 2) {
        if (text[next] === undefined) return text.length;
        if (text[next] !== "=") return next - 1;
        next++;
      }
      skipBreaks();
      return text[next] === undefined ? undefined : next;
    }
  }
}

function readInteger(kind: "int64" | "int" | "uint", raw: RawJson): ReadArgument {
  const quoted = raw.length >= 2 && raw.startsWith('"') && raw.endsWith('"');
  if (!quoted) return refused(`invalid 64-bit integer encoding ${quoteGo(raw)}, expected string`);
  const inner = scanWhole(raw.slice(1, -1), 1000);
  if (!inner.ok) return refused(inner.fault);
  const type = kindOf(inner.raw);
  // The pointer is set before the number is read, so that a quoted null is 0.
  if (type === "null") return given(0n);
  if (type !== "number") return wrongKind(type, kind);
  const value = INTEGER.test(inner.raw) && inner.raw.length <= 21 ? BigInt(inner.raw) : undefined;
  const [least, most] = RANGES[kind];
  if (value !== undefined && value >= least && value <= most) return given(value);
  return refused(`json: cannot unmarshal number ${inner.raw} into Go value of type ${kind}`);
}

/** Reads an argument from the JSON of a request. */
export function argumentFromJson(kind: ArgumentKind, raw: RawJson): ReadArgument {
  if (raw === "null") return given(undefined);
  const type = kindOf(raw);
  switch (kind) {
    case "int64":
    case "int":
    case "uint":
      return readInteger(kind, raw);
    case "bool":
      return type === "bool" ? given(raw === "true") : wrongKind(type, kind);
    case "string":
      return type === "string" ? given(String(rawToValue(raw))) : wrongKind(type, kind);
    case "bytes":
      return type === "string" ? readBase64(String(rawToValue(raw))) : wrongKind(type, "[]uint8");
    case "hexBytes":
      return type === "string" ? readHex(raw.slice(1, -1)) : refused(`invalid hex string: ${raw}`);
    case "evidence":
      return type === "object" ? refused('unknown type ""') : wrongKind(type, "json.interfaceWrapper");
  }
}

/**
 * Reads an argument from the text of an address: integers bare or quoted, texts in double quotes, bytes as `0x` and hex or
 * as a quoted text, which stands for its own bytes.
 */
export function argumentFromText(kind: ArgumentKind, text: string): ReadArgument {
  const isInteger = kind === "int64" || kind === "int" || kind === "uint";
  if (isInteger && INTEGER.test(text)) return readInteger(kind, `"${text}"`);
  const takesBytes = kind === "bytes" || kind === "hexBytes";
  if (/^0x/i.test(text)) {
    if (!takesBytes && kind !== "string") return refused(`got a hex string arg, but expected '${GO_KINDS[kind]}'`);
    const bytes = readHex(text.slice(2));
    if (!bytes.ok || kind !== "string" || !(bytes.value instanceof Uint8Array)) return bytes;
    return given(Buffer.from(bytes.value).toString("utf8"));
  }
  const raw = Buffer.from(text, "utf8").toString("latin1");
  if (isInteger && !(raw.length > 1 && raw.startsWith('"') && raw.endsWith('"'))) return readInteger(kind, raw);
  const scanned = scanWhole(raw, 1000);
  if (!scanned.ok) return refused(scanned.fault);
  if (takesBytes && raw.startsWith('"')) return given(Buffer.from(String(rawToValue(scanned.raw)), "utf8"));
  return argumentFromJson(kind, scanned.raw);
}

/**
 * Reads an argument from a JSON body that was sent to a method's own address: as in a request, and bytes also as `0x` and
 * hex.
 */
export function argumentFromBody(kind: ArgumentKind, raw: RawJson): ReadArgument {
  const isHex = (kind === "bytes" || kind === "hexBytes") && /^"0x/i.test(raw);
  return isHex ? readHex(raw.slice(3, -1)) : argumentFromJson(kind, raw);
}
