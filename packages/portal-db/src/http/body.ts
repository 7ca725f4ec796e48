import { bytesToUtf8, isRecord, parseJson } from "@turnpike/base";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import type { RowsInput } from "../types.ts";
import { parseCsv } from "./csv.ts";

/** Rows of a body, or why there are none. */
export type BodyResult =
  | { readonly ok: true; readonly rows: RowsInput | undefined }
  | { readonly ok: false; readonly error: ErrorBody };

const MAX_DEPTH = 32;
/** Values of one body. */
const MAX_VALUES = 100_000;

const refuse = (message: string, details: string | null = null): BodyResult => ({
  ok: false,
  error: failure(400, "PGRST102", message, details),
});

/** Decimal digits that every double keeps. */
const EXACT_DIGITS = 15;

/** Numbers that a double cannot hold go on as text: the database reads them as they were written. */
function exactNumbers(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined) return value;
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) return source;
  const digits = (source.split(/[eE]/, 1)[0] ?? "").replaceAll(/\D/g, "");
  return source.includes(".") && digits.length > EXACT_DIGITS ? source : value;
}

/** Text that may hold a number beyond a double's reach. */
const MAY_BE_LONG = /[\d.]{16}|\d[eE]/;

function parseRows(bytes: Uint8Array): BodyResult {
  const parsed = parseJson(bytes, { maxDepth: MAX_DEPTH, maxNodes: MAX_VALUES });
  if (!parsed.ok) {
    if (parsed.reason === "duplicate") return refuse("Empty or invalid json", "An object has a key twice");
    const why = { utf8: "It is not UTF-8", depth: "It is nested too deep", nodes: "It has too many values" };
    return refuse("Empty or invalid json", parsed.reason === "syntax" ? null : why[parsed.reason]);
  }
  const value: unknown = MAY_BE_LONG.test(parsed.text) ? JSON.parse(parsed.text, exactNumbers) : parsed.value;
  if (isRecord(value)) return { ok: true, rows: { rows: [value], isList: false } };
  if (Array.isArray(value) && value.every(isRecord)) return { ok: true, rows: { rows: value, isList: true } };
  return refuse("Empty or invalid json", "Expected an object or a list of objects");
}

/** An object of own members only, whatever their names. */
function rowOf(names: readonly string[], values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name, at) => [name, values[at]]));
}

function csvRows(text: string): BodyResult {
  const records = parseCsv(text, MAX_VALUES);
  const [names, ...lines] = records ?? [];
  if (names === undefined) return refuse("Empty or invalid csv");
  if (new Set(names).size !== names.length) return refuse("Empty or invalid csv", "A column stands twice");
  if (lines.some((line) => line.length !== names.length)) return refuse("All lines must have same number of fields");
  const values = (line: readonly string[]): unknown[] => line.map((field) => (field === "NULL" ? null : field));
  return { ok: true, rows: { rows: lines.map((line) => rowOf(names, values(line))), isList: true } };
}

function formRows(text: string): BodyResult {
  const pairs = [...new URLSearchParams(text)];
  if (pairs.length > MAX_VALUES) return refuse("The form has too many fields");
  if (new Set(pairs.map(([name]) => name)).size !== pairs.length) return refuse("A field of the form stands twice");
  return { ok: true, rows: { rows: [Object.fromEntries(pairs)], isList: false } };
}

/** Reads the rows of a body by its `Content-Type`: JSON (also when there is none), CSV or a form. */
export function readBody(bytes: Uint8Array, contentType: string | undefined): BodyResult {
  const [type = "", ...parameters] = (contentType ?? "application/json")
    .split(";")
    .map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((part) => part.startsWith("charset="))
    ?.slice("charset=".length)
    .replaceAll('"', "");
  if (charset !== undefined && charset !== "utf-8" && charset !== "utf8") {
    return refuse(`Content-Type not acceptable: the charset must be utf-8`);
  }
  const asText = (read: (text: string) => BodyResult): BodyResult => {
    const text = bytesToUtf8(bytes);
    return text === undefined ? refuse("The body is not UTF-8") : read(text);
  };
  switch (type) {
    case "application/json":
    case "application/vnd.pgrst.object":
    case "application/vnd.pgrst.object+json":
    case "application/vnd.pgrst.array":
    case "application/vnd.pgrst.array+json":
      return parseRows(bytes);
    case "text/csv":
      return asText(csvRows);
    case "application/x-www-form-urlencoded":
      return asText(formRows);
    default:
      return refuse("Content-Type not acceptable", "JSON, text/csv and application/x-www-form-urlencoded are");
  }
}
