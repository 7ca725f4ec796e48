import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { camelParts, eachWord, fold, wordsOf } from "./words.ts";

const foldedOf = (text: string): readonly string[] => wordsOf(text).map(({ folded }) => folded);

test("case, diacritics, ligatures, widths and invisible characters are folded away", () => {
  const same: readonly (readonly [string, string])[] = [
    ["Häuser", "hauser"],
    ["STRASSE", "straße"],
    ["Œuvre", "oeuvre"],
    ["Łódź", "lodz"],
    ["ЁЛКА", "елка"],
    ["İstanbul", "istanbul"],
    ["ｆｕｌｌ", "full"],
    ["ha\u00adr\u200bbour", "harbour"],
    ["مُدَرِّس", "مدرس"],
    ["e\u0301te\u0301", "été"],
  ];
  for (const [a, b] of same) assert.deepEqual(foldedOf(a), [fold(b)], a);
});

test("words are parted at signs; c++ and c# are words of their own", () => {
  assert.deepEqual(foldedOf("max_results: node.js, don't 3.14"), [
    "max",
    "results",
    "node",
    "js",
    "don",
    "t",
    "3",
    "14",
  ]);
  assert.notDeepEqual(foldedOf("C++"), foldedOf("c"));
  assert.notDeepEqual(foldedOf("C#"), foldedOf("C++"));
  assert.deepEqual(foldedOf("a#b a++"), ["a", "b", fold("a++")]);
});

test("scripts without spaces come in pairs, and their last character alone", () => {
  assert.deepEqual(foldedOf("東京都"), ["東京", "京都", "都"]);
  assert.deepEqual(foldedOf("雨"), ["雨"]);
  assert.deepEqual(foldedOf("Node入門 2版"), ["node", "入門", "門", "2", "版"]);
  assert.deepEqual(foldedOf("한국어"), ["한국", "국어", "어"]);
});

test("names are taken apart", () => {
  assert.deepEqual(camelParts("createIndexWriter"), ["create", "index", "writer"]);
  assert.deepEqual(camelParts("HTTPServer2Url"), ["http", "server2", "url"]);
});

test("places fit the text, words hold no sign that the index would split at, and both ways of reading agree", () => {
  const text = fc.oneof(fc.string({ unit: anyCodePoint }), fc.string({ unit: "grapheme" }), fc.string());
  fc.assert(
    fc.property(text, (given) => {
      let last = -1;
      let ordinal = 0;
      const count = eachWord(given, (word) => {
        assert.equal(word.ordinal, ordinal++);
        assert.ok(word.start >= last && word.end > word.start && word.end <= given.length);
        last = word.start;
        assert.match(word.folded, /^[^\0-\x2f\x3a-\x60\x7b-\x7f]+$/u);
        if (!word.isPair) assert.ok(word.folded.length <= 3 * 72);
      });
      assert.equal(count, ordinal);
      assert.equal(
        eachWord(
          given,
          () => {},
          () => false,
        ),
        count,
      );
      // a letter that is not ASCII makes the same word go the other way
      const ascii = given.replace(/[^\x20-\x7e]/gu, " ");
      assert.deepEqual(foldedOf(`${ascii.replaceAll("a", "á")}`), foldedOf(ascii));
    }),
    { numRuns: 300 },
  );
});
