import type { Preferences, TableRequest } from "../types.ts";

const WORDS = {
  resolution: ["merge-duplicates", "ignore-duplicates"],
  missing: ["default", "null"],
  return: ["representation", "minimal", "headers-only"],
  count: ["exact", "planned", "estimated"],
  tx: ["commit", "rollback"],
  handling: ["strict", "lenient"],
} as const;

type Name = keyof typeof WORDS | "max-affected";

/** Order of `Preference-Applied`. */
const ORDER: readonly Name[] = ["resolution", "missing", "return", "count", "tx", "handling", "max-affected"];

/** Preferences that have an effect on a request of each kind, and are named in `Preference-Applied`. `tx` is read, and never followed. */
const APPLIED: Readonly<Record<TableRequest["verb"], readonly Name[]>> = {
  GET: ["count", "handling"],
  HEAD: ["count", "handling"],
  POST: ["resolution", "missing", "return", "count", "handling"],
  PATCH: ["missing", "return", "count", "handling", "max-affected"],
  PUT: ["return", "count", "handling"],
  DELETE: ["return", "count", "handling", "max-affected"],
};

/** The header `Prefer`, parsed. */
export interface PreferResult {
  readonly preferences: Preferences;
  /** As sent; a fault with `handling=strict`. */
  readonly unknown: readonly string[];
}

/** Most characters of the header that are read. */
const MAX_CHARS = 2_048;

function isKnown(name: string, value: string): name is Name {
  if (name === "max-affected") return /^\d{1,9}$/.test(value);
  return Object.hasOwn(WORDS, name) && (WORDS[name as keyof typeof WORDS] as readonly string[]).includes(value);
}

/**
 * Reads `Prefer` (RFC 7240), several of which Node joins with commas. The first of a name wins. `max-affected` counts
 * only with `handling=strict`.
 */
export function readPreferences(header: string | undefined, verb: TableRequest["verb"]): PreferResult {
  const found = new Map<Name, string>();
  const unknown: string[] = [];
  for (const part of (header ?? "").slice(0, MAX_CHARS).split(",")) {
    const text = part.trim();
    if (text === "") continue;
    const at = text.indexOf("=");
    const name = text.slice(0, at < 0 ? undefined : at).trim();
    const value = at < 0 ? "" : text.slice(at + 1).trim();
    if (!isKnown(name, value)) unknown.push(text);
    else if (!found.has(name)) found.set(name, value);
  }
  const isStrict = found.get("handling") === "strict";
  if (!isStrict) found.delete("max-affected");
  const max = found.get("max-affected");
  const word = <T extends keyof typeof WORDS>(name: T): (typeof WORDS)[T][number] | undefined =>
    found.get(name) as (typeof WORDS)[T][number] | undefined;
  return {
    preferences: {
      return: word("return"),
      count: word("count"),
      resolution: word("resolution"),
      missing: word("missing"),
      handling: word("handling"),
      maxAffected: max === undefined ? undefined : Number(max),
      applied: ORDER.filter((name) => found.has(name) && APPLIED[verb].includes(name)).map(
        (name) => `${name}=${found.get(name)}`,
      ),
    },
    unknown: isStrict ? unknown : [],
  };
}
