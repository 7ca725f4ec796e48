import { fc } from "@turnpike/testkit/property";
import type { Condition, Field, Operation, OrderTerm, SelectItem } from "../src/query/ast.ts";
import { MAX_EMBEDS } from "../src/query/bounds.ts";

/** Where names come from: what is there, what is hidden, what is hostile. */
export interface Names {
  readonly columns: readonly string[];
  readonly tables: readonly string[];
  readonly hints: readonly string[];
  /** Names that fit inside an embedded resource; the same ones by default. */
  readonly within?: (table: string) => Names;
}

/** So that what is read back can be compared. */
const PLAIN_OBJECTS = { noNullPrototype: true } as const;

const quotedName = (name: string): string => `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const COMPARE = ["eq", "gt", "gte", "lt", "lte", "like", "ilike", "match", "imatch"] as const;
const PLAIN = ["neq", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj"] as const;
const TEXT = ["fts", "plfts", "phfts", "wfts"] as const;
const IS = ["null", "not_null", "true", "false", "unknown"] as const;
const VALUES = [
  "1",
  "a",
  "",
  "{1,2}",
  "{a}",
  '{"a":1}',
  "null",
  "2024-01-01",
  "true",
  "-1",
  "(",
  "a b",
  "%",
  "*",
  "\\",
  "[1,3)",
];

/** Values: plain ones that types take, and anything else. */
export const value = (): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...VALUES) },
    { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 8 }).filter((text) => !text.includes("\0")) },
  );

const option = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

/** A column, often with a JSON path. */
export const field = (names: Names): fc.Arbitrary<Field> =>
  fc.record(
    {
      name: fc.constantFrom(...names.columns),
      json: fc.oneof(
        { weight: 4, arbitrary: fc.constant([]) },
        {
          weight: 1,
          arbitrary: fc.array(
            fc.record(
              {
                arrow: fc.constantFrom("->" as const, "->>" as const),
                operand: fc.oneof(
                  fc.constantFrom("a", "b", 'q"', "c d", "-x", "0", "", "k".repeat(64)),
                  fc.integer({ min: -3, max: 3 }),
                ),
              },
              PLAIN_OBJECTS,
            ),
            { minLength: 1, maxLength: 3 },
          ),
        },
      ),
    },
    PLAIN_OBJECTS,
  );

/** An operator with its values. */
export const operation = (): fc.Arbitrary<Operation> =>
  fc.oneof(
    fc.record(
      {
        kind: fc.constant("compare" as const),
        operator: fc.constantFrom(...COMPARE),
        quantifier: option(fc.constantFrom("any" as const, "all" as const)),
        value: value(),
      },
      PLAIN_OBJECTS,
    ),
    fc.record(
      {
        kind: fc.constant("compare" as const),
        operator: fc.constantFrom(...PLAIN),
        quantifier: fc.constant(undefined),
        value: value(),
      },
      PLAIN_OBJECTS,
    ),
    fc.record(
      { kind: fc.constant("in" as const), values: fc.array(value(), { minLength: 1, maxLength: 3 }) },
      PLAIN_OBJECTS,
    ),
    fc.record({ kind: fc.constant("is" as const), value: fc.constantFrom(...IS) }, PLAIN_OBJECTS),
    fc.record({ kind: fc.constant("isdistinct" as const), value: value() }, PLAIN_OBJECTS),
    fc.record(
      {
        kind: fc.constant("text" as const),
        operator: fc.constantFrom(...TEXT),
        language: option(fc.constantFrom("english", "simple", "nope", "12345")),
        value: value(),
      },
      PLAIN_OBJECTS,
    ),
  );

/** A condition, often a tree. */
export const condition = (names: Names, depth = 0): fc.Arbitrary<Condition> => {
  const filter = fc.record(
    {
      kind: fc.constant("filter" as const),
      field: field(names),
      isNegated: fc.boolean(),
      operation: operation(),
    },
    PLAIN_OBJECTS,
  );
  if (depth >= 2) return filter;
  const logic = fc.record(
    {
      kind: fc.constant("logic" as const),
      isNegated: fc.boolean(),
      join: fc.constantFrom("and" as const, "or" as const),
      terms: fc.array(condition(names, depth + 1), { minLength: 1, maxLength: 3 }),
    },
    PLAIN_OBJECTS,
  );
  return fc.oneof({ weight: 3, arbitrary: filter }, { weight: 1, arbitrary: logic });
};

function countEmbeds(items: readonly SelectItem[]): number {
  return items.reduce((sum, item) => sum + (item.kind === "embed" ? 1 + countEmbeds(item.items) : 0), 0);
}

/** Items of `select=` that are within the bounds of what is read. */
export const select = (names: Names): fc.Arbitrary<readonly SelectItem[]> =>
  selectAt(names, 0).filter((items) => countEmbeds(items) <= MAX_EMBEDS);

const selectAt = (names: Names, depth: number): fc.Arbitrary<readonly SelectItem[]> => {
  const star = fc.constant({ kind: "star" as const });
  const column = fc.record(
    {
      kind: fc.constant("field" as const),
      alias: option(fc.constantFrom("x", "t1", "t2", "written", "a b", 'q"', "__proto__", "name")),
      field: field(names),
      cast: option(fc.constantFrom("text", "text", "text", "integer", "jsonb", "regclass")),
    },
    PLAIN_OBJECTS,
  );
  if (depth >= 3) return fc.array(fc.oneof(star, column), { maxLength: 3 });
  const embed = fc.tuple(fc.boolean(), fc.constantFrom(...names.tables)).chain(([isSpread, target]) =>
    fc.record(
      {
        kind: fc.constant("embed" as const),
        alias: isSpread ? fc.constant(undefined) : option(fc.constantFrom("e", "x", "films")),
        target: fc.constant(target),
        hint: fc.oneof(
          { weight: 12, arbitrary: fc.constant(undefined) },
          { weight: 1, arbitrary: fc.constantFrom(...names.hints) },
        ),
        join: option(fc.constantFrom("left" as const, "inner" as const)),
        isSpread: fc.constant(isSpread),
        items: selectAt(names.within?.(target) ?? names, depth + 1),
      },
      PLAIN_OBJECTS,
    ),
  );
  return fc.array(
    fc.oneof({ weight: 2, arbitrary: star }, { weight: 4, arbitrary: column }, { weight: 3, arbitrary: embed }),
    { maxLength: 4 },
  );
};

/** Terms of `order=`. */
export const order = (names: Names): fc.Arbitrary<readonly OrderTerm[]> =>
  fc.array(
    fc.record(
      {
        relation: fc.oneof(
          { weight: 9, arbitrary: fc.constant(undefined) },
          { weight: 1, arbitrary: fc.constantFrom(...names.tables) },
        ),
        field: field(names),
        direction: option(fc.constantFrom("asc" as const, "desc" as const)),
        nulls: option(fc.constantFrom("nullsfirst" as const, "nullslast" as const)),
      },
      PLAIN_OBJECTS,
    ),
    { minLength: 1, maxLength: 3 },
  );

/** How a column is written, every name quoted. */
function fieldText({ name, json }: Field): string {
  const steps = json.map(({ arrow, operand }) => arrow + (typeof operand === "number" ? operand : quotedName(operand)));
  return quotedName(name) + steps.join("");
}

/** How `select=` is written. */
export function selectText(items: readonly SelectItem[]): string {
  return items
    .map((item) => {
      if (item.kind === "star") return "*";
      if (item.kind === "aggregate") return "count()";
      const alias = item.alias === undefined ? "" : `${quotedName(item.alias)}:`;
      if (item.kind === "field")
        return `${alias}${fieldText(item.field)}${item.cast === undefined ? "" : `::${item.cast}`}`;
      const hint = item.hint === undefined ? "" : `!${quotedName(item.hint)}`;
      const join = item.join === undefined ? "" : `!${item.join}`;
      return `${item.isSpread ? "..." : alias}${quotedName(item.target)}${hint}${join}(${selectText(item.items)})`;
    })
    .join(",");
}

/** How an operator is written; in a logic tree every value is quoted. */
function operationText(isNegated: boolean, one: Operation, isInTree: boolean): string {
  const single = (text: string): string => (isInTree ? quotedName(text) : text);
  const not = isNegated ? "not." : "";
  switch (one.kind) {
    case "compare":
      return `${not}${one.operator}${one.quantifier === undefined ? "" : `(${one.quantifier})`}.${single(one.value)}`;
    case "in":
      return `${not}in.(${one.values.map(quotedName).join(",")})`;
    case "is":
      return `${not}is.${one.value}`;
    case "isdistinct":
      return `${not}isdistinct.${single(one.value)}`;
    case "text":
      return `${not}${one.operator}${one.language === undefined ? "" : `(${one.language})`}.${single(one.value)}`;
  }
}

/** A condition as a parameter. */
export function conditionPair(one: Condition): readonly [string, string] {
  if (one.kind === "filter") return [fieldText(one.field), operationText(one.isNegated, one.operation, false)];
  return [`${one.isNegated ? "not." : ""}${one.join}`, `(${one.terms.map(termText).join(",")})`];
}

function termText(one: Condition): string {
  if (one.kind === "filter") return `${fieldText(one.field)}.${operationText(one.isNegated, one.operation, true)}`;
  return `${one.isNegated ? "not." : ""}${one.join}(${one.terms.map(termText).join(",")})`;
}

/** How `order=` is written. */
export function orderText(terms: readonly OrderTerm[]): string {
  return terms
    .map(({ relation, field: path, direction, nulls }) => {
      const term = relation === undefined ? fieldText(path) : `${quotedName(relation)}(${fieldText(path)})`;
      return [term, direction, nulls].filter((part) => part !== undefined).join(".");
    })
    .join(",");
}

/** Parameters as a query string. */
export function queryText(pairs: readonly (readonly [string, string])[]): string {
  return pairs.map(([key, text]) => `${encodeURIComponent(key)}=${encodeURIComponent(text)}`).join("&");
}
