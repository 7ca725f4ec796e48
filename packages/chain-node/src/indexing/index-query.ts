import { AppError } from "@turnpike/base";
import { compareDecimals, decimalOf } from "./decimal.ts";
import {
  type CompareOp,
  type EventCondition,
  type EventOperand,
  fitsOrder,
  parseEventQuery,
  valueFits,
} from "./query.ts";

/** A query as the index answers it. */
export interface IndexQuery {
  /** Heights that can fit, both included. */
  readonly fromHeightBlocks: bigint;
  readonly toHeightBlocks: bigint;
  /** Conditions on the height beside those bounds, all of them to be met: those that compare texts. */
  readonly heights: readonly EventCondition[];
  /** Values that an event has: looked up. */
  readonly equal: readonly { readonly key: string; readonly value: string }[];
  /** Attributes that an event has: looked up. */
  readonly exists: readonly string[];
  /** What one value of an event's attribute meets: tested. */
  readonly tested: readonly { readonly key: string; readonly conditions: readonly EventCondition[] }[];
  /** What transactions' hashes are compared with. */
  readonly hashes: readonly EventCondition[];
}

const MAX_HEIGHT = 2n ** 63n - 1n;

/**
 * Reads a query for the index.
 * @throws AppError INVALID_PARAMS, with CometBFT's words, when it cannot be read
 */
export function readIndexQuery(text: string, heightKey: string, hashKey: string | undefined): IndexQuery {
  const parsed = parseEventQuery(text);
  if (!parsed.ok) throw new AppError("INVALID_PARAMS", { message: parsed.fault });
  const { conditions } = parsed.query;
  const heights = conditions.filter(({ key }) => key === heightKey).map(withNumber);
  const hashes = conditions.filter(({ key }) => key === hashKey);
  const others = conditions.filter(({ key }) => key !== heightKey && key !== hashKey);
  const tested = new Map<string, EventCondition[]>();
  for (const condition of others) {
    if (condition.op === "EXISTS" || condition.op === "=") continue;
    tested.set(condition.key, [...(tested.get(condition.key) ?? []), condition]);
  }
  return {
    ...boundsOf(heights),
    heights: heights.filter((condition) => condition.op !== "EXISTS" && !isNumeric(condition)),
    hashes,
    equal: others.flatMap((all) => (all.op === "=" ? [{ key: all.key, value: all.operand.text }] : [])),
    exists: others.flatMap(({ key, op }) => (op === "EXISTS" ? [key] : [])),
    tested: [...tested].map(([key, all]) => ({ key, conditions: all })),
  };
}

// A height in quotes is a height.
function withNumber(condition: EventCondition): EventCondition {
  if (condition.op !== "=" || condition.operand.kind !== "string") return condition;
  const { text } = condition.operand;
  const value = decimalOf(text);
  return value === undefined ? condition : { ...condition, operand: { kind: "number", text, value } };
}

type NumericCondition = EventCondition & {
  readonly op: CompareOp;
  readonly operand: EventOperand & { readonly kind: "number" };
};

function isNumeric(condition: EventCondition): condition is NumericCondition {
  return condition.op !== "EXISTS" && condition.op !== "CONTAINS" && condition.operand.kind === "number";
}

function boundsOf(heights: readonly EventCondition[]): { fromHeightBlocks: bigint; toHeightBlocks: bigint } {
  let fromHeightBlocks = 0n;
  let toHeightBlocks = MAX_HEIGHT;
  for (const { op, operand } of heights.filter(isNumeric)) {
    const { digits, scale } = operand.value;
    const unit = 10n ** BigInt(scale);
    const floor = digits / unit;
    const ceiling = digits % unit === 0n ? floor : floor + 1n;
    if (op === "=" || op === ">=") fromHeightBlocks = larger(fromHeightBlocks, ceiling);
    if (op === ">") fromHeightBlocks = larger(fromHeightBlocks, floor + 1n);
    if (op === "=" || op === "<=") toHeightBlocks = smaller(toHeightBlocks, floor);
    if (op === "<") toHeightBlocks = smaller(toHeightBlocks, ceiling - 1n);
  }
  return { fromHeightBlocks, toHeightBlocks };
}

/** The larger of two. */
export const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
/** The smaller of two. */
export const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** Whether a height meets the query's conditions on it. */
export function heightFits(query: IndexQuery, heightBlocks: bigint): boolean {
  if (heightBlocks < query.fromHeightBlocks || heightBlocks > query.toHeightBlocks) return false;
  return query.heights.length === 0 || query.heights.every((all) => valueFits(all, heightBlocks.toString()));
}

/**
 * Whether an indexed value meets all conditions of its key. As in CometBFT's index, and other than in its subscriptions,
 * the whole value must be the number.
 */
export function indexedFits(conditions: readonly EventCondition[], value: string): boolean {
  return conditions.every((condition) => {
    if (condition.op === "EXISTS" || condition.op === "CONTAINS" || condition.operand.kind !== "number") {
      return valueFits(condition, value);
    }
    const number = decimalOf(value);
    return number !== undefined && fitsOrder(condition.op, compareDecimals(number, condition.operand.value));
  });
}
