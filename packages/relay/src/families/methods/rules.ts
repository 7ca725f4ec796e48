import { isRecord } from "@turnpike/base";
import type { BlockRef, CacheRule, MethodTraits } from "../method-traits.ts";

/** Depends on the supplier or the moment. */
export const NEVER: CacheRule = { by: "never" };
/** Depends on the call and the chain alone. */
export const FOREVER: CacheRule = { by: "forever" };
/** True until the next block. */
export const HEAD: CacheRule = { by: "head" };

/** The newest block. */
export const LATEST: BlockRef = { tag: "latest" };
/** What no block holds yet: never kept. */
export const PENDING: BlockRef = { tag: "pending" };
/** The newest block that cannot be undone. */
export const FINALIZED: BlockRef = { tag: "finalized" };

/** Reads the blocks that a call is about from its parameters; undefined when they cannot be read. */
export type ReadBlocks = (params: unknown) => readonly BlockRef[] | undefined;

/** An answer about the blocks that the parameters name. */
export const byBlock = (blocks: ReadBlocks): CacheRule => ({ by: "block", blocks });
/** An answer about a thing that the chain holds at a height that the result states. */
export const found = (heightOf: (result: unknown) => number | undefined): CacheRule => ({ by: "found", heightOf });

/** A read that right suppliers answer alike. */
export const read = (cache: CacheRule): MethodTraits => ({ kind: "read", cache, isComparable: true });
/** A read whose answer depends on the supplier, its software or the moment. */
export const own = (cache: CacheRule = NEVER): MethodTraits => ({ kind: "read", cache, isComparable: false });
/** A read whose answer states the newest block. */
export const tip = (cache: CacheRule, tipOf: (result: unknown) => number | undefined): MethodTraits => ({
  ...own(cache),
  tipOf,
});
/** Sent once at most. */
export const WRITE: MethodTraits = { kind: "write", cache: NEVER, isComparable: false };
/** Goes to the supplier that holds the filter. */
export const FILTER: MethodTraits = { kind: "filter", cache: NEVER, isComparable: false };
/** Needs a WebSocket. */
export const SUBSCRIPTION: MethodTraits = { kind: "subscription", cache: NEVER, isComparable: false };

/** What a method is, or how that depends on its parameters. Undefined parameters: what it is in general. */
export type MethodChoice = MethodTraits | ((params: unknown) => MethodTraits);

/** The methods of a family by name; `isRead` knows reads that are not listed by their names. */
export interface MethodTable {
  readonly methods: ReadonlyMap<string, MethodChoice>;
  readonly isRead: RegExp | undefined;
}

/** Makes a {@link MethodTable} of names, several of them in one text, and what they are. */
export function methodTable(
  rows: readonly (readonly [names: string, choice: MethodChoice])[],
  isRead?: RegExp,
): MethodTable {
  const methods = new Map<string, MethodChoice>();
  for (const [names, choice] of rows) for (const name of names.trim().split(/\s+/)) methods.set(name, choice);
  return { methods, isRead };
}

const UNLISTED = own();

/** What a table knows of a method; undefined when it knows nothing. */
export function traitsOf(table: MethodTable, method: string, params: unknown): MethodTraits | undefined {
  const choice = table.methods.get(method);
  if (typeof choice === "function") return choice(params);
  return choice ?? (table.isRead?.test(method) === true ? UNLISTED : undefined);
}

/** One parameter, by position; undefined for one that is absent. */
export function paramAt(params: unknown, index: number): unknown {
  return Array.isArray(params) ? (params as readonly unknown[])[index] : undefined;
}

/** Parameters by name; undefined when they are not an object. Absent ones are an empty object. */
export function namedParams(params: unknown): Readonly<Record<string, unknown>> | undefined {
  if (params === undefined || params === null) return {};
  if (Array.isArray(params)) return params.length === 0 ? {} : undefined;
  return isRecord(params) ? params : undefined;
}

/** A height that is written in decimal digits or as an integer; undefined for anything else. */
export function decimalHeight(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  return typeof value === "string" && /^[0-9]{1,15}$/.test(value) ? Number(value) : undefined;
}

/** The blocks as a list; undefined when one of them is. */
export function all(...refs: readonly (BlockRef | undefined)[]): readonly BlockRef[] | undefined {
  const known = refs.filter((ref) => ref !== undefined);
  return known.length === refs.length ? known : undefined;
}

/** The block of a height; undefined for none. */
export function atHeight(height: number | undefined): BlockRef | undefined {
  return height === undefined ? undefined : { height };
}
