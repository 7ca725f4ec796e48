import { isRecord, parseJson } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import type { BlockRef, CacheRule, MethodTraits } from "../method-traits.ts";

/** What a call by path says, beside which path it is. */
export interface PathArguments {
  /** The texts in the places of the template's values, in order. */
  readonly values: readonly string[];
  /** Of the query of a GET, or of the body of a POST. */
  readonly named: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** A {@link CacheRule} of a path: what decides stands in the call itself. */
export type PathRule =
  | Extract<CacheRule, { by: "never" | "forever" | "head" }>
  | { readonly by: "block"; blocks(args: PathArguments): readonly BlockRef[] | undefined }
  | { readonly by: "found"; heightOf(result: unknown, args: PathArguments): number | undefined };

/** {@link MethodTraits} of a path. */
export interface PathTraits extends Omit<MethodTraits, "cache"> {
  readonly cache: PathRule;
}

/** One path: `GET /blocks/{height}`; `*` as the last segment stands for any rest. Of two that fit the first counts. */
export type PathRow = readonly [name: string, traits: PathTraits];

interface Compiled {
  readonly segments: readonly string[];
  readonly isOpen: boolean;
  readonly traits: PathTraits;
}

/** The paths of a family. */
export interface PathTable {
  readonly rows: readonly PathRow[];
  readonly GET: readonly Compiled[];
  readonly POST: readonly Compiled[];
}

const isValue = (segment: string): boolean => segment.startsWith("{");

/** Makes a {@link PathTable}. A name without a verb is both. */
export function pathTable(rows: readonly PathRow[]): PathTable {
  const compiled = (verb: string): readonly Compiled[] =>
    rows
      .filter(([name]) => name.startsWith("/") || name.startsWith(`${verb} `))
      .map(([name, traits]) => {
        const segments = name.slice(name.indexOf("/") + 1).split("/");
        const isOpen = segments.at(-1) === "*";
        return { segments: isOpen ? segments.slice(0, -1) : segments, isOpen, traits };
      });
  return { rows, GET: compiled("GET"), POST: compiled("POST") };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A GET's query as named texts; undefined when a name is repeated: nodes differ about which one counts. */
export function readQuery(query: string): Readonly<Record<string, string>> | undefined {
  const named: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of new URLSearchParams(query)) {
    if (name in named) return undefined;
    named[name] = value;
  }
  return named;
}

function readNamed(call: BackendCall, query: string): Readonly<Record<string, unknown>> | undefined {
  if (call.verb === "GET") return readQuery(query);
  if (query !== "") return undefined;
  if (call.body === undefined || call.body.length === 0) return {};
  const parsed = parseJson(call.body);
  return parsed.ok && isRecord(parsed.value) ? parsed.value : undefined;
}

function bind(traits: PathTraits, read: () => PathArguments | undefined): MethodTraits {
  const { cache } = traits;
  if (cache.by === "block") {
    const blocks = (): readonly BlockRef[] | undefined => {
      const args = read();
      return args === undefined ? undefined : cache.blocks(args);
    };
    return { ...traits, cache: { by: "block", blocks } };
  }
  if (cache.by === "found") {
    const heightOf = (result: unknown): number | undefined => {
      const args = read();
      return args === undefined ? undefined : cache.heightOf(result, args);
    };
    return { ...traits, cache: { by: "found", heightOf } };
  }
  return { ...traits, cache };
}

/** What a table knows of a call by path; undefined when it knows nothing. */
export function pathTraitsOf(table: PathTable, call: BackendCall): MethodTraits | undefined {
  const at = call.path.indexOf("?");
  const path = at === -1 ? call.path : call.path.slice(0, at);
  const segments = path.slice(1).split("/").map(decode);
  const row = table[call.verb].find(
    (one) =>
      (one.isOpen ? segments.length > one.segments.length : segments.length === one.segments.length) &&
      one.segments.every((segment, index) => isValue(segment) || segment === segments[index]),
  );
  if (row === undefined) return undefined;
  return bind(row.traits, () => {
    const named = readNamed(call, at === -1 ? "" : call.path.slice(at + 1));
    if (named === undefined) return undefined;
    const values = row.segments.flatMap((segment, index) => (isValue(segment) ? [segments[index] ?? ""] : []));
    return { values, named, headers: call.headers ?? {} };
  });
}

/** A read by path. */
export const pathRead = (cache: PathRule, isComparable = true): PathTraits => ({ kind: "read", cache, isComparable });
/** A read by path whose answer states the newest block. */
export const pathTip = (cache: PathRule, tipOf: (result: unknown) => number | undefined): PathTraits => ({
  kind: "read",
  cache,
  isComparable: false,
  tipOf,
});
