import assert from "node:assert/strict";
import { test } from "node:test";
import { type Candidate, rank } from "./rank.ts";
import type { Term } from "./terms.ts";

const term = (exact: string): Term => ({ exact, forms: [exact], isPhrase: false, isPrefix: false, documents: 10 });
const TERMS = [term("red"), term("balloon")];

const hit = (index: number, ordinal: number) => ({
  term: index,
  start: ordinal * 8,
  end: ordinal * 8 + 7,
  ordinal,
  isExact: true,
});

/** A candidate that has the terms at these places. */
function candidate(id: number, bm25: number, places: readonly (readonly [number, number])[]): Candidate {
  return {
    id,
    bm25,
    url: `https://${id}.test/`,
    language: "en",
    title: { hits: [], words: 2 },
    address: [],
    body: places.map(([index, ordinal]) => hit(index, ordinal)),
  };
}

const order = (candidates: readonly Candidate[], terms: readonly Term[] = TERMS): readonly number[] =>
  rank(candidates, terms, 1_000, undefined).map(({ id }) => id);

test("what has all words stands before what repeats one of them, whatever FTS5 thinks of the two", () => {
  const all = candidate(1, 5, [
    [0, 10],
    [1, 400],
  ]);
  const one = candidate(
    2,
    10,
    Array.from({ length: 40 }, (_, at) => [0, at * 3] as const),
  );
  assert.deepEqual(order([one, all]), [1, 2]);
});

test("a title that has the words of the query side by side stands before one that has them here and there", () => {
  const titled = (id: number, bm25: number, ordinals: readonly number[]): Candidate => ({
    ...candidate(id, bm25, [
      [0, 10],
      [1, 11],
    ]),
    title: { hits: ordinals.map((ordinal, index) => hit(index, ordinal)), words: 12 },
  });
  assert.deepEqual(order([titled(1, 10, [0, 9]), titled(2, 8, [7, 8])]), [2, 1]);
});

test("words beside each other, and in the order of the query, count", () => {
  const far = candidate(1, 10, [
    [0, 10],
    [1, 400],
  ]);
  const turned = candidate(2, 10, [
    [1, 10],
    [0, 11],
  ]);
  const near = candidate(3, 10, [
    [0, 10],
    [1, 11],
  ]);
  assert.deepEqual(order([far, turned, near]), [3, 2, 1]);
});

test("when all else is equal the more of FTS5's score, then the older document stands first", () => {
  const places = [[0, 10] as const];
  assert.deepEqual(order([candidate(3, 5, places), candidate(2, 7, places), candidate(1, 5, places)]), [2, 1, 3]);
});
