import { hexToBytes } from "@turnpike/base";

/** A value read from a text, or the sentence that Go's standard library has for a text that is none. */
export type GoValue<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly text: string };

const INTEGER = /^([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[bB]((?:_?[01])+)|0[oO]?((?:_?[0-7])+)|([1-9](?:_?[0-9])*|0))$/;
const DECIMAL_INTEGER = /^([+-]?)([0-9]+)$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const LONGEST_NUMBER = 100;

const TRUE = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const FALSE = new Set(["0", "f", "F", "FALSE", "false", "False"]);

const goFault = (name: string, text: string, why: string): { readonly ok: false; readonly text: string } => ({
  ok: false,
  text: `strconv.${name}: parsing ${JSON.stringify(text)}: ${why}`,
});

/** How an integer is written and how wide it may be. */
export interface IntegerForm {
  readonly bits: 32 | 64;
  readonly signed: boolean;
  /** 10: digits alone; 0: a prefix such as `0x` names the base, and `_` may stand between digits. */
  readonly base: 0 | 10;
}

function digitsOf(text: string, base: 0 | 10): readonly [sign: string, digits: string] | undefined {
  if (base === 10) {
    const [, sign, digits] = DECIMAL_INTEGER.exec(text) ?? [];
    return sign === undefined || digits === undefined ? undefined : [sign, digits];
  }
  const [, sign, hex, binary, octal, decimal] = INTEGER.exec(text) ?? [];
  if (sign === undefined) return undefined;
  const [prefix, digits] =
    hex !== undefined
      ? ["0x", hex]
      : binary !== undefined
        ? ["0b", binary]
        : octal !== undefined
          ? ["0o", octal]
          : ["", decimal ?? "0"];
  return [sign, prefix + digits.replaceAll("_", "")];
}

/** Reads an integer as Go's `strconv.ParseInt` and `ParseUint` do, with their texts. */
export function parseGoInteger(text: string, { bits, signed, base }: IntegerForm): GoValue<bigint> {
  const name = signed ? "ParseInt" : "ParseUint";
  const parts = digitsOf(text, base);
  if (parts === undefined || (!signed && parts[0] !== "")) return goFault(name, text, "invalid syntax");
  const [sign, digits] = parts;
  const most = 1n << BigInt(signed ? bits - 1 : bits);
  const size = digits.length > LONGEST_NUMBER ? most + 1n : BigInt(digits);
  const value = sign === "-" ? -size : size;
  if (value >= most || value < (signed ? -most : 0n)) return goFault(name, text, "value out of range");
  return { ok: true, value };
}

/** Reads a boolean as Go's `strconv.ParseBool` does. */
export function parseGoBool(text: string): GoValue<boolean> {
  if (TRUE.has(text)) return { ok: true, value: true };
  return FALSE.has(text) ? { ok: true, value: false } : goFault("ParseBool", text, "invalid syntax");
}

/** Reads base64 of either alphabet, padded, as the REST gateway does. */
export function parseGoBase64(text: string): GoValue<Uint8Array> {
  const standard = text
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replaceAll(/[\r\n]/g, "");
  const mixed = /[+/]/.test(text) && /[-_]/.test(text);
  if (!mixed && BASE64.test(standard)) return { ok: true, value: Uint8Array.from(Buffer.from(standard, "base64")) };
  const at = /[^A-Za-z0-9+/_-]/.exec(text)?.index ?? text.length - (text.length % 4);
  return { ok: false, text: `illegal base64 data at input byte ${at}` };
}

/** Reads hex as Go's `encoding/hex` does. */
export function parseGoHex(text: string): GoValue<Uint8Array> {
  const foreign = /[^0-9a-fA-F]/u.exec(text)?.[0];
  if (foreign !== undefined) {
    const byte = Buffer.from(foreign)[0] ?? 0;
    const code = byte.toString(16).toUpperCase().padStart(4, "0");
    return { ok: false, text: `encoding/hex: invalid byte: U+${code} '${String.fromCharCode(byte)}'` };
  }
  const bytes = hexToBytes(text);
  return bytes === undefined ? { ok: false, text: "encoding/hex: odd length hex string" } : { ok: true, value: bytes };
}

const HTML_UNSAFE: Readonly<Record<string, string>> = {
  "<": "\\u003c",
  ">": "\\u003e",
  "&": "\\u0026",
  "\u2028": "\\u2028",
  "\u2029": "\\u2029",
};

/** A text as Go's `encoding/json` quotes it. */
export function goJsonText(text: string): string {
  return JSON.stringify(text).replaceAll(/[<>&\u2028\u2029]/g, (character) => HTML_UNSAFE[character] ?? character);
}
