import { bytesToUtf8 } from "./bytes.ts";

/** Bounds of {@link parseJson}. */
export interface JsonLimits {
  /** Deepest nesting of arrays and objects; 64 by default. */
  readonly maxDepth?: number;
  /** Most members and elements in the whole document; 100,000 by default. */
  readonly maxNodes?: number;
}

/** Where one member of the top-level object stands in the text. */
export interface JsonMember {
  readonly key: string;
  /** The value's text, exactly as sent. */
  readonly raw: string;
}

/** Why a text was refused. `duplicate` names the repeated key. */
export type JsonFault =
  | { readonly reason: "utf8" | "syntax" | "depth" | "nodes" }
  | { readonly reason: "duplicate"; readonly key: string };

/** Result of {@link parseJson}. */
export type JsonResult =
  | { readonly ok: true; readonly value: unknown; readonly members: readonly JsonMember[]; readonly text: string }
  | ({ readonly ok: false } & JsonFault);

const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 8259 §7 bans exactly these from strings
const STRING = /"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"/y;
const SCALAR = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

/**
 * Parses one JSON document (RFC 8259) of bounded depth and size, refusing a key that an object repeats at any level:
 * two readers of such a text may see two different requests. An object's top-level members are returned with their
 * raw text, so that an id can be given back byte for byte. `__proto__` becomes an own property, never a prototype.
 */
export function parseJson(input: Uint8Array | string, limits: JsonLimits = {}): JsonResult {
  const text = typeof input === "string" ? input : bytesToUtf8(input);
  if (text === undefined) return { ok: false, reason: "utf8" };
  const maxDepth = limits.maxDepth ?? 64;
  const maxNodes = limits.maxNodes ?? 100_000;
  const members: JsonMember[] = [];
  let at = 0;
  let nodes = 0;
  let fault: JsonFault | undefined;

  const skip = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return undefined;
    at = pattern.lastIndex;
    return found[0];
  };
  const fail = (found: JsonFault): false => {
    fault ??= found;
    return false;
  };
  const value = (depth: number): boolean => {
    if (++nodes > maxNodes) return fail({ reason: "nodes" });
    const first = text.charCodeAt(at);
    if (first === 0x7b || first === 0x5b) {
      if (depth >= maxDepth) return fail({ reason: "depth" });
      return first === 0x7b ? object(depth + 1) : array(depth + 1);
    }
    return (first === 0x22 ? skip(STRING) : skip(SCALAR)) === undefined ? fail({ reason: "syntax" }) : true;
  };
  const object = (depth: number): boolean => {
    at++;
    skip(SPACE);
    if (text[at] === "}") {
      at++;
      return true;
    }
    const seen = new Set<string>();
    for (;;) {
      const token = skip(STRING);
      if (token === undefined) return fail({ reason: "syntax" });
      const key = token.includes("\\") ? (JSON.parse(token) as string) : token.slice(1, -1);
      if (seen.has(key)) return fail({ reason: "duplicate", key });
      seen.add(key);
      skip(SPACE);
      if (text[at++] !== ":") return fail({ reason: "syntax" });
      skip(SPACE);
      const start = at;
      if (!value(depth)) return false;
      if (depth === 1) members.push({ key, raw: text.slice(start, at) });
      skip(SPACE);
      const next = text[at++];
      if (next === "}") return true;
      if (next !== ",") return fail({ reason: "syntax" });
      skip(SPACE);
    }
  };
  const array = (depth: number): boolean => {
    at++;
    skip(SPACE);
    if (text[at] === "]") {
      at++;
      return true;
    }
    for (;;) {
      if (!value(depth)) return false;
      skip(SPACE);
      const next = text[at++];
      if (next === "]") return true;
      if (next !== ",") return fail({ reason: "syntax" });
      skip(SPACE);
    }
  };

  skip(SPACE);
  const isObject = text[at] === "{";
  if (!value(0)) return { ok: false, ...(fault ?? { reason: "syntax" }) };
  skip(SPACE);
  if (at !== text.length) return { ok: false, reason: "syntax" };
  return { ok: true, value: JSON.parse(text) as unknown, members: isObject ? members : [], text };
}

/** True for a JSON object (not an array, not null). */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
