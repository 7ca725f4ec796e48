import type { CompareOperator, Condition, IsValue, Operation, TextOperator } from "./ast.ts";
import { MAX_CONDITIONS, MAX_LIST_VALUES, MAX_LOGIC_DEPTH, MAX_PATTERN_LENGTH } from "./bounds.ts";
import { Cursor } from "./cursor.ts";
import { field, identifier, quoted } from "./fields.ts";
import { tooMuch } from "./refusal.ts";

const EXPECTED_OPERATOR = '"not" or operator (eq, gt, ...)';

/** Whether an operator takes `(any)` and `(all)`. */
const COMPARE: ReadonlyMap<string, { readonly operator: CompareOperator; readonly takesQuantifier: boolean }> = new Map(
  [
    ...(["eq", "gte", "gt", "lte", "lt", "like", "ilike", "match", "imatch"] as const).map((operator) => ({
      operator,
      takesQuantifier: true,
    })),
    ...(["neq", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj"] as const).map((operator) => ({
      operator,
      takesQuantifier: false,
    })),
  ].map((row) => [row.operator, row]),
);
const TEXT: ReadonlyMap<string, TextOperator> = new Map(
  (["fts", "plfts", "phfts", "wfts"] as const).map((operator) => [operator, operator]),
);
const IS: ReadonlyMap<string, IsValue> = new Map(
  (["null", "not_null", "true", "false", "unknown"] as const).map((value) => [value, value]),
);

/** How a single value ends: at the end of the parameter, or at a comma or bracket of a logic tree. */
type ValueReader = (cursor: Cursor) => string;

/** Counts conditions of a whole query string. */
export interface ConditionCount {
  conditions: number;
}

/** Reads the value of a filter: `not.eq.1`. @throws Refusal PGRST100. */
export function parseOperation(text: string): { readonly isNegated: boolean; readonly operation: Operation } {
  const cursor = new Cursor(text, "filter");
  const result = operation(cursor, (reader) => reader.rest());
  cursor.end();
  return result;
}

/** Reads the value of `and=` or `or=`: `(a.eq.1,or(b.is.null,c.gt.2))`. @throws Refusal PGRST100. */
export function parseLogic(text: string, join: "and" | "or", isNegated: boolean, count: ConditionCount): Condition {
  const cursor = new Cursor(text, "logic tree");
  const terms = logicTerms(cursor, 1, count);
  cursor.end();
  return { kind: "logic", isNegated, join, terms };
}

function logicTerms(cursor: Cursor, depth: number, count: ConditionCount): readonly Condition[] {
  if (depth > MAX_LOGIC_DEPTH) throw tooMuch("levels of and/or", MAX_LOGIC_DEPTH);
  cursor.skipBlanks();
  cursor.expects("(");
  const terms: Condition[] = [];
  do {
    cursor.skipBlanks();
    terms.push(logicTerm(cursor, depth, count));
    cursor.skipBlanks();
  } while (cursor.takes(","));
  cursor.expects(")");
  cursor.skipBlanks();
  return terms;
}

function logicTerm(cursor: Cursor, depth: number, count: ConditionCount): Condition {
  count.conditions += 1;
  if (count.conditions > MAX_CONDITIONS) throw tooMuch("conditions", MAX_CONDITIONS);
  const start = cursor.at;
  const isNegated = cursor.takes("not.");
  const join = cursor.takes("and") ? "and" : cursor.takes("or") ? "or" : undefined;
  cursor.skipBlanks();
  if (join !== undefined && cursor.sees("(")) {
    return { kind: "logic", isNegated, join, terms: logicTerms(cursor, depth + 1, count) };
  }
  // a column may be called `and` or `order`
  cursor.at = start;
  const path = field(cursor);
  cursor.expects(".");
  return { kind: "filter", field: path, ...operation(cursor, logicValue) };
}

function operation(cursor: Cursor, value: ValueReader): { readonly isNegated: boolean; readonly operation: Operation } {
  const isNegated = cursor.takes("not.");
  const start = cursor.at;
  const word = cursor.takeWhile((character) => character >= "a" && character <= "z");
  const read = operationOf(word, cursor, value);
  if (read === undefined) {
    cursor.at = start;
    throw cursor.fault(EXPECTED_OPERATOR);
  }
  return { isNegated, operation: read };
}

function operationOf(word: string, cursor: Cursor, value: ValueReader): Operation | undefined {
  const compare = COMPARE.get(word);
  if (compare !== undefined) {
    const quantifier = compare.takesQuantifier ? quantifierOf(cursor) : undefined;
    if (!cursor.takes(".")) return undefined;
    const read = value(cursor);
    const isPattern = compare.operator === "match" || compare.operator === "imatch";
    if (isPattern && read.length > MAX_PATTERN_LENGTH) throw tooMuch("characters of a pattern", MAX_PATTERN_LENGTH);
    return { kind: "compare", operator: compare.operator, quantifier, value: read };
  }
  const text = TEXT.get(word);
  if (text !== undefined) {
    let language: string | undefined;
    if (cursor.takes("(")) {
      language = identifier(cursor, "a language");
      cursor.expects(")");
    }
    return cursor.takes(".") ? { kind: "text", operator: text, language, value: value(cursor) } : undefined;
  }
  if (word === "in") return cursor.takes(".") ? { kind: "in", values: listValues(cursor) } : undefined;
  if (word === "is") return cursor.takes(".") ? { kind: "is", value: isValue(cursor) } : undefined;
  if (word !== "isdistinct") return undefined;
  return cursor.takes(".") ? { kind: "isdistinct", value: value(cursor) } : undefined;
}

function quantifierOf(cursor: Cursor): "any" | "all" | undefined {
  if (cursor.takes("(any)")) return "any";
  return cursor.takes("(all)") ? "all" : undefined;
}

function isValue(cursor: Cursor): IsValue {
  const start = cursor.at;
  const word = cursor.takeWhile((character) => /^[a-z_]$/i.test(character));
  const value = IS.get(word.toLowerCase());
  if (value !== undefined) return value;
  cursor.at = start;
  throw cursor.fault("isVal: (null, not_null, true, false, unknown)");
}

function listValues(cursor: Cursor): readonly string[] {
  cursor.skipBlanks();
  cursor.expects("(");
  const values: string[] = [];
  do {
    if (values.length >= MAX_LIST_VALUES) throw tooMuch("values of a list", MAX_LIST_VALUES);
    values.push(quotedValue(cursor) ?? cursor.takeWhile((character) => character !== "," && character !== ")"));
  } while (cursor.takes(","));
  cursor.expects(")");
  cursor.skipBlanks();
  return values;
}

/** A quoted value that is the whole value: `"a"b` is not one, and its quotes are part of it. */
function quotedValue(cursor: Cursor): string | undefined {
  const start = cursor.at;
  if (!hasClosingQuote(cursor)) return undefined;
  const value = quoted(cursor);
  if (value !== undefined && (cursor.isAtEnd() || cursor.sees(",") || cursor.sees(")"))) return value;
  cursor.at = start;
  return undefined;
}

function hasClosingQuote(cursor: Cursor): boolean {
  if (!cursor.sees('"')) return false;
  for (let at = cursor.at + 1; at < cursor.text.length; at++) {
    const character = cursor.text[at];
    if (character === '"') return true;
    if (character === "\\") at += 1;
  }
  return false;
}

function logicValue(cursor: Cursor): string {
  const whole = quotedValue(cursor);
  if (whole !== undefined) return whole;
  const start = cursor.at;
  if (cursor.takes("{")) {
    cursor.takeWhile((character) => character !== "{" && character !== "}");
    if (cursor.takes("}")) return cursor.text.slice(start, cursor.at);
    cursor.at = start;
  }
  return cursor.takeWhile((character) => character !== "," && character !== ")");
}
