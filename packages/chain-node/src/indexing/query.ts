import { compareDecimals, type Decimal, decimalOf, leadingDecimal } from "./decimal.ts";
import { QueryScanner, readDate, readTime, type Token, type TokenKind } from "./query-scanner.ts";

/** Longest query that CometBFT's RPC takes, in bytes. */
const MAX_QUERY_BYTES = 512;

/** Operators that compare. */
export type CompareOp = "=" | "<" | "<=" | ">" | ">=";

/** What a condition compares with. */
export type EventOperand =
  | { readonly kind: "string"; readonly text: string }
  | { readonly kind: "number"; readonly text: string; readonly value: Decimal }
  /** Nanoseconds since 1970. */
  | { readonly kind: "time" | "date"; readonly text: string; readonly timeNs: bigint };

/** One condition; its key is `type.attribute`. */
export type EventCondition =
  | { readonly key: string; readonly op: CompareOp; readonly operand: EventOperand }
  | { readonly key: string; readonly op: "CONTAINS"; readonly operand: EventOperand & { readonly kind: "string" } }
  | { readonly key: string; readonly op: "EXISTS" };

/** A query over events: all of its conditions, at least one, hold. */
export interface EventQuery {
  readonly conditions: readonly EventCondition[];
}

/** A query that was read, or what is wrong with the text, in CometBFT's words. */
export type ParsedQuery =
  | { readonly ok: true; readonly query: EventQuery }
  | { readonly ok: false; readonly fault: string };

const OPERATORS: readonly TokenKind[] = [
  "<= operator",
  ">= operator",
  "< operator",
  "> operator",
  "= operator",
  "CONTAINS operator",
  "EXISTS operator",
];
const RANGE_OPERANDS: readonly TokenKind[] = ["number", "timestamp", "datestamp"];
const EQUAL_OPERANDS: readonly TokenKind[] = ["number", "timestamp", "datestamp", "string"];

type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

/** Reads a query of CometBFT 0.38: conditions `key op value`, joined by AND. */
export function parseEventQuery(text: string): ParsedQuery {
  if (Buffer.byteLength(text) > MAX_QUERY_BYTES) return { ok: false, fault: "maximum query length exceeded" };
  const scanner = new QueryScanner(text);
  const conditions: EventCondition[] = [];
  for (;;) {
    const condition = readCondition(scanner);
    if (!condition.ok) return condition;
    conditions.push(condition.value);
    const { fault, kind, offset } = scanner.next();
    if (fault === "EOF") return { ok: true, query: { conditions } };
    if (kind !== "AND operator") return { ok: false, fault: `offset ${offset}: got ${kind}, want AND operator` };
  }
}

function readCondition(scanner: QueryScanner): Read<EventCondition> {
  const tag = required(scanner, ["tag"]);
  if (!tag.ok) return tag;
  const operator = required(scanner, OPERATORS);
  if (!operator.ok) return operator;
  const key = tag.value.text;
  const { kind, text } = operator.value;
  if (kind === "EXISTS operator") return { ok: true, value: { key, op: "EXISTS" } };
  const contains = kind === "CONTAINS operator";
  const operand = required(scanner, contains ? ["string"] : kind === "= operator" ? EQUAL_OPERANDS : RANGE_OPERANDS);
  if (!operand.ok) return operand;
  if (contains) {
    return { ok: true, value: { key, op: "CONTAINS", operand: { kind: "string", text: operand.value.text } } };
  }
  return { ok: true, value: { key, op: text as CompareOp, operand: operandOf(operand.value) } };
}

function required(scanner: QueryScanner, kinds: readonly TokenKind[]): Read<Token> {
  const token = scanner.next();
  const { fault, kind, offset } = token;
  if (fault !== undefined) return { ok: false, fault: `offset ${offset}: ${fault}` };
  if (kinds.includes(kind)) return { ok: true, value: token };
  const wanted = kinds.length === 1 ? kinds.join("") : `${kinds.slice(0, -1).join(", ")} or ${kinds.at(-1) ?? ""}`;
  return { ok: false, fault: `offset ${offset}: got ${kind}, wanted ${wanted}` };
}

// What the scanner took for a number or a time is one.
function operandOf({ kind, text }: Token): EventOperand {
  if (kind === "number") return { kind, text, value: decimalOf(text) ?? { digits: 0n, scale: 0 } };
  if (kind === "timestamp") return { kind: "time", text, timeNs: readTime(text) ?? 0n };
  if (kind === "datestamp") return { kind: "date", text, timeNs: readDate(text) ?? 0n };
  return { kind: "string", text };
}

/** Whether a value fits a comparison: `order` is the sign of value minus operand. */
export function fitsOrder(op: CompareOp, order: number): boolean {
  if (op === "=") return order === 0;
  if (op === "<") return order < 0;
  if (op === "<=") return order <= 0;
  return op === ">" ? order > 0 : order >= 0;
}

/**
 * Whether one value fits a condition. A number is compared with the number that the value begins with, so that `8upokt`
 * is 8; times are compared with values that are times.
 */
export function valueFits(condition: EventCondition, value: string): boolean {
  if (condition.op === "EXISTS") return true;
  if (condition.op === "CONTAINS") return value.includes(condition.operand.text);
  const { op, operand } = condition;
  if (operand.kind === "string") return value === operand.text;
  if (operand.kind === "number") {
    const number = leadingDecimal(value);
    return number !== undefined && fitsOrder(op, compareDecimals(number, operand.value));
  }
  const timeNs = operand.kind === "time" ? readTime(value) : readDate(value);
  if (timeNs === undefined) return false;
  return fitsOrder(op, timeNs < operand.timeNs ? -1 : timeNs > operand.timeNs ? 1 : 0);
}

/**
 * Whether events, as values by `type.attribute`, fit a query, as CometBFT's subscriptions decide it: every condition is
 * met by some value. A key that is only an event's type meets what the empty text meets.
 */
export function matchesEvents({ conditions }: EventQuery, events: ReadonlyMap<string, readonly string[]>): boolean {
  return conditions.every((condition) => {
    const values = events.get(condition.key);
    if (values?.some((value) => valueFits(condition, value)) === true) return true;
    return valueFits(condition, "") && hasType(events, condition.key);
  });
}

function hasType(events: ReadonlyMap<string, readonly string[]>, type: string): boolean {
  for (const key of events.keys()) if (key.slice(0, Math.max(0, key.lastIndexOf("."))) === type) return true;
  return false;
}
