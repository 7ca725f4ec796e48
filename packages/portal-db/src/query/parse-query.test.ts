import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import * as arbitrary from "../../test/query-arbitraries.ts";
import type { ParsedQuery } from "./ast.ts";
import { parseQuery } from "./parse-query.ts";
import { Refusal } from "./refusal.ts";

const NAMES: arbitrary.Names = {
  columns: ["id", "a b", "and", "not", "in", "é", 'q"\\', "a.b", "__proto__", "select", "x-y"],
  tables: ["films", "or", "t!u"],
  hints: ["fkey", "col"],
};

const codeOf = (query: string): string => {
  try {
    parseQuery(query);
    return "read";
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return `${error.body.status} ${error.body.code}`;
  }
};

test("reads back what it was given", () => {
  const one = fc.record({
    select: arbitrary.select(NAMES),
    conditions: fc.array(arbitrary.condition(NAMES), { maxLength: 3 }),
    order: arbitrary.order(NAMES),
    limit: fc.nat(),
    columns: fc.uniqueArray(fc.constantFrom(...NAMES.columns), { minLength: 1 }),
  });
  fc.assert(
    fc.property(one, ({ select, conditions, order, limit, columns }) => {
      const list = columns.map((name) => `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`).join(",");
      const read = parseQuery(
        arbitrary.queryText([
          ["select", arbitrary.selectText(select)],
          ...conditions.map(arbitrary.conditionPair),
          ["order", arbitrary.orderText(order)],
          ["films.limit", String(limit)],
          ["columns", list],
        ]),
      );
      const expected: ParsedQuery = {
        select,
        conditions: conditions.map((value) => ({ path: [], value })),
        orders: [{ path: [], value: order }],
        limits: [{ path: ["films"], value: limit }],
        offsets: [],
        columns,
        onConflict: undefined,
      };
      assert.deepEqual(read, expected);
    }),
    { numRuns: 500 },
  );
});

test("refuses or reads any text, and fails in no other way", () => {
  const words =
    'select order or and not id in is eq fts any limit columns % %2 %00 = & . , ( ) { } " \\ : :: ! -> ->> * ... - + 1 é \0';
  const word = fc.constantFrom(" ", ...words.split(" "));
  const soup = fc.array(word, { maxLength: 30 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(
      fc.oneof(
        soup,
        soup.map((text) => `select=${text}`),
        soup.map((text) => `or=(${text}`),
        fc.string(),
      ),
      (text) => {
        assert.match(codeOf(text), /^(read|400 PGRST100|416 PGRST103)$/);
      },
    ),
    { numRuns: 3000 },
  );
});

test("bounds: what is too long, too wide or too deep is refused, in little time", () => {
  for (const query of [
    `a=eq.${"x".repeat(70_000)}`,
    "a=eq.1&".repeat(201),
    `select=${"a,".repeat(201)}a`,
    `select=${"t(".repeat(7)}a${")".repeat(7)}`,
    `select=${"t(".repeat(900)}a${")".repeat(900)}`,
    `select=${"...t!x!inner(".repeat(900)}a${")".repeat(900)}`,
    `select=${"t(a),".repeat(900)}a`,
    `select=${Array.from({ length: 21 }, (_, index) => `t${index}(a)`).join(",")}`,
    `or=${"(or".repeat(30_000)}`,
    `or=${"(not.and".repeat(11)}(a.eq.1${")".repeat(12)}`,
    `or=(${Array.from({ length: 201 }, () => "a.is.null").join(",")})`,
    `a=in.(${"1,".repeat(10_001)}1)`,
    `order=${"a,".repeat(40)}a`,
    `select=a${"->b".repeat(17)}`,
    `select=${"a".repeat(64)}`,
    `select="${"é".repeat(32)}":a`,
    `${"a.".repeat(20)}a=eq.1`,
    `a=match.${"x".repeat(501)}`,
  ]) {
    assert.equal(codeOf(query), "400 PGRST100", query.slice(0, 60));
  }
});

test("a list of many quoted values is read in time that grows with its length", () => {
  // every value begins with a quote that is never closed
  assert.equal(codeOf(`a=in.(${'"a,'.repeat(9_000)}1)`), "read");
});

for (const [query, read] of [
  ["a=eq.1", "read"],
  ["a", "read"],
  ["", "read"],
  ["&&=", "400 PGRST100"],
  ["a=", "400 PGRST100"],
  ["select=", "read"],
  ["select=a,", "400 PGRST100"],
  ["select=(a)", "400 PGRST100"],
  ["select=a:b:c", "400 PGRST100"],
  ["select=a::", "400 PGRST100"],
  ["select=a::text;", "400 PGRST100"],
  ["select=a->", "400 PGRST100"],
  ["select=t(a", "400 PGRST100"],
  ["select=t!inner!fk!x(a)", "400 PGRST100"],
  ["select=*,t!fk!inner(*),...u(a,b:c->>d::int)", "read"],
  ["order=", "400 PGRST100"],
  ["order=;drop", "400 PGRST100"],
  ["order=a.asc.desc", "400 PGRST100"],
  ["order=a.nullslast,t(b).desc", "read"],
  ["or=()", "400 PGRST100"],
  ["or=(a.eq.1", "400 PGRST100"],
  ["or=(a.eq.1)x", "400 PGRST100"],
  ["t.not.or=(order_id.eq.1,and.eq.2)", "read"],
  ["a=is.nul", "400 PGRST100"],
  ["a=is.null;drop", "400 PGRST100"],
  ["a=in.1,2", "400 PGRST100"],
  ["a=in.(1,2", "400 PGRST100"],
  ["a=neq(any).{1}", "400 PGRST100"],
  ["a=fts(x'y).z", "400 PGRST100"],
  ["a=not.not.eq.1", "400 PGRST100"],
  ["a=eq.%C3%A9", "read"],
  ["a=eq.\u00c3\u00a9", "read"],
  ["a=eq.%C3", "400 PGRST100"],
  ["a=eq.%ED%A0%80", "400 PGRST100"],
  ["a=eq.%", "400 PGRST100"],
  ["a=eq.\u20ac", "400 PGRST100"],
  ["a=eq.%2500", "read"],
  ["limit=-1", "416 PGRST103"],
  ["limit=1.5", "400 PGRST100"],
  ["select=a&select=b", "400 PGRST100"],
  ["order=a&order=b", "400 PGRST100"],
] as const) {
  test(`${JSON.stringify(query)}: ${read}`, () => assert.equal(codeOf(query), read));
}

test("decodes once, and a plus is a space", () => {
  const [condition] = parseQuery("a=eq.%2541+b%2B").conditions;
  assert.deepEqual(condition?.value.kind === "filter" && condition.value.operation, {
    kind: "compare",
    operator: "eq",
    quantifier: undefined,
    value: "%41 b+",
  });
});
