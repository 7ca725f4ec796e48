import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError } from "@turnpike/base";
import { type Find, findCandidates } from "./candidates.ts";
import type { Term } from "./terms.ts";

const term = (exact: string, documents: number): Term => ({
  exact,
  forms: [exact],
  isPhrase: false,
  isPrefix: false,
  documents,
});

/** Looks for terms; says what FTS5 was asked. */
function asked(
  terms: readonly Term[],
  find: Find,
): { readonly expressions: readonly string[]; readonly ids: number[] } {
  const expressions: string[] = [];
  const found = findCandidates({ terms, excluded: [], wanted: 30 }, (expression, limit) => {
    expressions.push(expression);
    return find(expression, limit);
  });
  return { expressions, ids: [...found.keys()] };
}

const rows = (count: number) => Array.from({ length: count }, (_, id) => ({ id, score: 1 }));
const some =
  (count: number): Find =>
  () =>
    rows(count);

test("documents with some of the words are looked for by the rarest ones, as far as that stays quick", () => {
  const [rare, less, common] = [term("rare", 40), term("less", 900), term("common", 50_000)];
  assert.deepEqual(asked([common, rare, less], some(3)).expressions, [
    '"common" AND "rare" AND "less"',
    '("rare" OR "less")',
  ]);
  // which find too few by themselves
  assert.equal(asked([common, term("rarest", 2)], some(1)).expressions[1], '("rarest" OR "common")');
  // enough have all words
  assert.equal(asked([rare, less], some(10)).expressions.length, 1);
});

test("words that are all common are looked for in titles first, and everywhere when those are too few", () => {
  const terms = [term("red", 9_000), term("balloon", 8_000)];
  const titles = '{title headings address} : ("red" AND "balloon")';
  assert.deepEqual(asked(terms, some(30)).expressions, [titles]);
  assert.deepEqual(asked(terms, some(29)).expressions, [titles, '"red" AND "balloon"']);
});

test("when time is up while some words are looked for, what has all of them is the answer", () => {
  const late = new AppError("SEARCH_ENGINE_FAILED");
  const find =
    (all: number): Find =>
    (expression) => {
      if (expression.includes(" OR ")) throw late;
      return rows(all);
    };
  const terms = [term("red", 20), term("balloon", 30)];
  assert.deepEqual(asked(terms, find(2)).ids, [0, 1]);
  assert.throws(() => asked(terms, find(0)), late);
});
