import type { OrderTerm } from "./ast.ts";
import { MAX_COLUMNS, MAX_ORDER_TERMS } from "./bounds.ts";
import { Cursor } from "./cursor.ts";
import { field, fieldName } from "./fields.ts";
import { tooMuch } from "./refusal.ts";

/** Reads `order=`: `a.desc.nullslast,data->>b,table(column)`. @throws Refusal PGRST100. */
export function parseOrder(text: string): readonly OrderTerm[] {
  const cursor = new Cursor(text, "order");
  const terms: OrderTerm[] = [];
  do {
    if (terms.length >= MAX_ORDER_TERMS) throw tooMuch("terms of order", MAX_ORDER_TERMS);
    terms.push(term(cursor));
    cursor.skipBlanks();
  } while (cursor.takes(","));
  cursor.end('"," or end of input');
  return terms;
}

function term(cursor: Cursor): OrderTerm {
  const first = field(cursor);
  let relation: string | undefined;
  let path = first;
  if (first.json.length === 0 && cursor.takes("(")) {
    relation = first.name;
    path = field(cursor);
    cursor.expects(")");
  }
  const direction = suffix(cursor, ["asc", "desc"]);
  const nulls = suffix(cursor, ["nullsfirst", "nullslast"]);
  if (cursor.sees(".")) throw cursor.fault('"asc", "desc", "nullsfirst" or "nullslast"');
  return { relation, field: path, direction, nulls };
}

function suffix<const Word extends string>(cursor: Cursor, words: readonly Word[]): Word | undefined {
  const word = words.find((candidate) => cursor.sees(`.${candidate}`));
  if (word !== undefined) cursor.at += word.length + 1;
  return word;
}

/** Reads `columns=` or `on_conflict=`: names, quoted or not. @throws Refusal PGRST100. */
export function parseColumns(text: string, subject: string): readonly string[] {
  const cursor = new Cursor(text, subject);
  const names = new Set<string>();
  do {
    if (names.size >= MAX_COLUMNS) throw tooMuch("columns", MAX_COLUMNS);
    cursor.skipBlanks();
    names.add(fieldName(cursor));
    cursor.skipBlanks();
  } while (cursor.takes(","));
  cursor.end('"," or end of input');
  return [...names];
}
