import type { AtPath, Condition, EmbedPath, Field, OrderTerm, ParsedQuery } from "./ast.ts";
import { MAX_CONDITIONS, MAX_EMBED_DEPTH } from "./bounds.ts";
import { Cursor } from "./cursor.ts";
import { decodeQuery } from "./decode.ts";
import { fieldName, jsonPath } from "./fields.ts";
import { type ConditionCount, parseLogic, parseOperation } from "./filters.ts";
import { parseColumns, parseOrder } from "./order.ts";
import { refusal, tooMuch } from "./refusal.ts";
import { parseSelect } from "./select.ts";

/** Names that are read for the root and for every embedded resource: `accounts.order=…`. */
const EVERYWHERE = new Set(["order", "limit", "offset", "and", "or"]);
const INTEGER = /^-?\d+$/;

/**
 * Reads the query string of a request on a table.
 * @throws Refusal PGRST100 for what the language does not have, PGRST103 for a negative limit or offset. Nothing else.
 */
export function parseQuery(raw: string): ParsedQuery {
  const pairs = decodeQuery(raw);
  const seen = new Set<string>();
  const once = (key: string): void => {
    if (seen.has(key)) throw refusal(400, "PGRST100", `The parameter '${key}' is given more than once`);
    seen.add(key);
  };
  let select: ParsedQuery["select"];
  let columns: ParsedQuery["columns"];
  let onConflict: ParsedQuery["onConflict"];
  const conditions: AtPath<Condition>[] = [];
  const orders: AtPath<readonly OrderTerm[]>[] = [];
  const limits: AtPath<number>[] = [];
  const offsets: AtPath<number>[] = [];
  const count: ConditionCount = { conditions: 0 };
  for (const [key, value] of pairs) {
    const last = key.slice(key.lastIndexOf(".") + 1);
    const isEverywhere = EVERYWHERE.has(last);
    if (key === "select" || key === "columns" || key === "on_conflict" || (isEverywhere && !isLogic(last))) once(key);
    if (key === "select") select = parseSelect(value);
    else if (key === "columns") columns = parseColumns(value, "columns parameter");
    else if (key === "on_conflict") onConflict = parseColumns(value, "on_conflict parameter");
    else if (isLogic(last)) conditions.push(logicAt(key, last, value, count));
    else if (last === "order") orders.push({ path: pathOf(key), value: parseOrder(value) });
    else if (last === "limit") limits.push(...limitAt(key, value));
    else if (last === "offset") offsets.push(...offsetAt(key, value));
    else conditions.push(filterAt(key, value, count));
  }
  return { select, conditions, orders, limits, offsets, columns, onConflict };
}

function isLogic(word: string): word is "and" | "or" {
  return word === "and" || word === "or";
}

function names(cursor: Cursor): string[] {
  const parts: string[] = [];
  do {
    // the last name is no level, and neither is `not`
    if (parts.length > MAX_EMBED_DEPTH + 1) throw tooMuch("levels of embedding", MAX_EMBED_DEPTH);
    parts.push(fieldName(cursor));
  } while (cursor.takes("."));
  return parts;
}

function pathOf(key: string): EmbedPath {
  const cursor = new Cursor(key, "tree path");
  const parts = names(cursor);
  cursor.end();
  return parts.slice(0, -1);
}

function logicAt(key: string, join: "and" | "or", value: string, count: ConditionCount): AtPath<Condition> {
  const path = pathOf(key);
  const isNegated = path.at(-1) === "not";
  return { path: isNegated ? path.slice(0, -1) : path, value: parseLogic(value, join, isNegated, count) };
}

function filterAt(key: string, value: string, count: ConditionCount): AtPath<Condition> {
  count.conditions += 1;
  if (count.conditions > MAX_CONDITIONS) throw tooMuch("conditions", MAX_CONDITIONS);
  const cursor = new Cursor(key, "tree path");
  const parts = names(cursor);
  const json = jsonPath(cursor);
  cursor.end();
  const field: Field = { name: parts.at(-1) ?? "", json };
  return { path: parts.slice(0, -1), value: { kind: "filter", field, ...parseOperation(value) } };
}

function limitAt(key: string, value: string): readonly AtPath<number>[] {
  const limit = integer(key, value);
  if (limit === undefined) return [];
  if (limit < 0) throw rangeRefusal("Limit should be greater than or equal to zero.");
  return [{ path: pathOf(key), value: limit }];
}

function offsetAt(key: string, value: string): readonly AtPath<number>[] {
  const offset = integer(key, value);
  if (offset === undefined) return [];
  if (offset < 0) throw rangeRefusal("Offset should be greater than or equal to zero.");
  return [{ path: pathOf(key), value: offset }];
}

function integer(key: string, value: string): number | undefined {
  if (value === "") return undefined;
  if (!INTEGER.test(value)) throw new Cursor(value, key.slice(key.lastIndexOf(".") + 1)).fault("an integer");
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}

/** 416 PGRST103. */
export function rangeRefusal(details: string): ReturnType<typeof refusal> {
  return refusal(416, "PGRST103", "Requested range not satisfiable", { details });
}
