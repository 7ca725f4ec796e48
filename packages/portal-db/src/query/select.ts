import type { EmbedItem, SelectItem } from "./ast.ts";
import { MAX_EMBED_DEPTH, MAX_EMBEDS, MAX_SELECT_ITEMS } from "./bounds.ts";
import { Cursor } from "./cursor.ts";
import { field, fieldName, identifier } from "./fields.ts";
import { tooMuch } from "./refusal.ts";

const AGGREGATES = [".sum()", ".avg()", ".count()", ".max()", ".min()"];

interface Counts {
  items: number;
  embeds: number;
}

/** Reads `select=`. @throws Refusal PGRST100. */
export function parseSelect(text: string): readonly SelectItem[] {
  const cursor = new Cursor(text, "select parameter");
  const items = list(cursor, 0, { items: 0, embeds: 0 });
  cursor.end('"," or end of input');
  return items;
}

function list(cursor: Cursor, depth: number, counts: Counts): readonly SelectItem[] {
  const items: SelectItem[] = [];
  cursor.skipBlanks();
  if (cursor.isAtEnd() || cursor.sees(")")) return items;
  do {
    counts.items += 1;
    if (counts.items > MAX_SELECT_ITEMS) throw tooMuch("items of select", MAX_SELECT_ITEMS);
    items.push(item(cursor, depth, counts));
    cursor.skipBlanks();
  } while (cursor.takes(","));
  return items;
}

function item(cursor: Cursor, depth: number, counts: Counts): SelectItem {
  cursor.skipBlanks();
  if (cursor.takes("...")) return embed(cursor, undefined, fieldName(cursor), true, depth, counts);
  if (cursor.takes("*")) return { kind: "star" };
  if (cursor.takes("count()")) return aggregate(cursor);
  const start = cursor.at;
  const first = fieldName(cursor);
  const hasAlias = cursor.sees(":") && !cursor.sees("::");
  if (hasAlias) cursor.at += 1;
  if (hasAlias && cursor.takes("count()")) return aggregate(cursor);
  const alias = hasAlias ? first : undefined;
  const nameAt = hasAlias ? cursor.at : start;
  cursor.skipBlanks();
  const name = hasAlias ? fieldName(cursor) : first;
  if (cursor.sees("!") || cursor.sees("(")) return embed(cursor, alias, name, false, depth, counts);
  cursor.at = nameAt;
  const path = field(cursor);
  const cast = cursor.takes("::") ? identifier(cursor, "a type") : undefined;
  if (AGGREGATES.some((call) => cursor.takes(call))) return aggregate(cursor);
  return { kind: "field", alias, field: path, cast };
}

function aggregate(cursor: Cursor): SelectItem {
  if (cursor.takes("::")) identifier(cursor, "a type");
  return { kind: "aggregate" };
}

function embed(
  cursor: Cursor,
  alias: string | undefined,
  target: string,
  isSpread: boolean,
  depth: number,
  counts: Counts,
): EmbedItem {
  counts.embeds += 1;
  if (counts.embeds > MAX_EMBEDS) throw tooMuch("embedded resources", MAX_EMBEDS);
  if (depth >= MAX_EMBED_DEPTH) throw tooMuch("levels of embedding", MAX_EMBED_DEPTH);
  let hint: string | undefined;
  let join: "left" | "inner" | undefined;
  for (let count = 0; count < 2 && cursor.takes("!"); count++) {
    const word = fieldName(cursor);
    if (word === "left" || word === "inner") join ??= word;
    else hint ??= word;
  }
  cursor.expects("(");
  const items = list(cursor, depth + 1, counts);
  cursor.expects(")");
  return { kind: "embed", alias, target, hint, join, isSpread, items };
}
