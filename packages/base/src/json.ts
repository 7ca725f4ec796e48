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

const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORD = /true|false|null/y;

/** Where white space that starts at `at` ends. Loops, not patterns: a pattern's stack overflows on megabytes. */
function spaceEnd(text: string, at: number): number {
  for (let end = at; ; end++) {
    const code = text.charCodeAt(end);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return end;
  }
}

/** Where digits that start at `at` end. */
function digitsEnd(text: string, at: number): number {
  for (let end = at; ; end++) {
    const code = text.charCodeAt(end);
    if (!(code >= 0x30 && code <= 0x39)) return end;
  }
}

/** Where the string (RFC 8259 §7) that starts at `at` ends; -1 when there is none. */
function stringEnd(text: string, at: number): number {
  if (text.charCodeAt(at) !== 0x22) return -1;
  for (let end = at + 1; ; end++) {
    const code = text.charCodeAt(end);
    if (code === 0x22) return end + 1;
    if (code === 0x5c) {
      ESCAPE.lastIndex = end;
      if (!ESCAPE.test(text)) return -1;
      end = ESCAPE.lastIndex - 1;
    } else if (!(code >= 0x20)) return -1;
  }
}

/** Where the number (RFC 8259 §6) or word that starts at `at` ends; -1 when there is none. */
function scalarEnd(text: string, at: number): number {
  WORD.lastIndex = at;
  if (WORD.test(text)) return WORD.lastIndex;
  const whole = text[at] === "-" ? at + 1 : at;
  let end = text[whole] === "0" ? whole + 1 : digitsEnd(text, whole);
  if (end === whole) return -1;
  if (text[end] === ".") {
    const places = digitsEnd(text, end + 1);
    if (places === end + 1) return -1;
    end = places;
  }
  if (text[end] === "e" || text[end] === "E") {
    const sign = text[end + 1] === "+" || text[end + 1] === "-" ? end + 2 : end + 1;
    const power = digitsEnd(text, sign);
    if (power === sign) return -1;
    end = power;
  }
  return end;
}

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

  const skipSpace = (): void => {
    at = spaceEnd(text, at);
  };
  const skipTo = (end: number): boolean => {
    if (end >= 0) at = end;
    return end >= 0;
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
    return skipTo(first === 0x22 ? stringEnd(text, at) : scalarEnd(text, at)) || fail({ reason: "syntax" });
  };
  const object = (depth: number): boolean => {
    at++;
    skipSpace();
    if (text[at] === "}") {
      at++;
      return true;
    }
    const seen = new Set<string>();
    for (;;) {
      const from = at;
      if (!skipTo(stringEnd(text, at))) return fail({ reason: "syntax" });
      const token = text.slice(from, at);
      const key = token.includes("\\") ? (JSON.parse(token) as string) : token.slice(1, -1);
      if (seen.has(key)) return fail({ reason: "duplicate", key });
      seen.add(key);
      skipSpace();
      if (text[at++] !== ":") return fail({ reason: "syntax" });
      skipSpace();
      const start = at;
      if (!value(depth)) return false;
      if (depth === 1) members.push({ key, raw: text.slice(start, at) });
      skipSpace();
      const next = text[at++];
      if (next === "}") return true;
      if (next !== ",") return fail({ reason: "syntax" });
      skipSpace();
    }
  };
  const array = (depth: number): boolean => {
    at++;
    skipSpace();
    if (text[at] === "]") {
      at++;
      return true;
    }
    for (;;) {
      if (!value(depth)) return false;
      skipSpace();
      const next = text[at++];
      if (next === "]") return true;
      if (next !== ",") return fail({ reason: "syntax" });
      skipSpace();
    }
  };

  skipSpace();
  const isObject = text[at] === "{";
  if (!value(0)) return { ok: false, ...(fault ?? { reason: "syntax" }) };
  skipSpace();
  if (at !== text.length) return { ok: false, reason: "syntax" };
  return { ok: true, value: JSON.parse(text) as unknown, members: isObject ? members : [], text };
}

const LOW_SURROGATE = /^\\u[dD][c-fC-F]/;

/** Place of the first escape of half a surrogate pair at or after `from`; -1 when there is none. */
function loneSurrogateAt(json: string, from: number): number {
  for (let at = json.indexOf("\\", from); at !== -1; at = json.indexOf("\\", at)) {
    if (json[at + 1] !== "u") {
      at += 2;
      continue;
    }
    const first = json[at + 2];
    if (first !== "d" && first !== "D") {
      at += 6;
      continue;
    }
    const unit = Number.parseInt(json.slice(at + 2, at + 6), 16);
    at += 6;
    if (unit < 0xd800 || unit > 0xdfff) continue;
    if (unit >= 0xdc00 || !LOW_SURROGATE.test(json.slice(at, at + 4))) return at - 6;
    at += 6;
  }
  return -1;
}

/**
 * True when a string of the JSON text holds an escape of half a surrogate pair. Readers differ about these (RFC 8259
 * §8.2): some refuse the whole text, others read another string.
 */
export function hasLoneSurrogate(json: string): boolean {
  return loneSurrogateAt(json, 0) !== -1;
}

/** The same JSON text with U+FFFD for each escape of half a surrogate pair. */
export function withoutLoneSurrogates(json: string): string {
  let text = "";
  let from = 0;
  for (let at = loneSurrogateAt(json, 0); at !== -1; at = loneSurrogateAt(json, from)) {
    text += `${json.slice(from, at)}\\ufffd`;
    from = at + 6;
  }
  return from === 0 ? json : text + json.slice(from);
}

/** True for a JSON object (not an array, not null). */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
