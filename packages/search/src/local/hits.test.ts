import assert from "node:assert/strict";
import { test } from "node:test";
import { createHitFinder } from "./hits.ts";

const wordsIn = (text: string, forms: readonly string[], language = "en"): readonly string[] =>
  createHitFinder(
    forms.map((exact) => ({ forms: [exact], exact, isPhrase: false, isPrefix: false, documents: 1 })),
    language,
  )(text).hits.map(({ start, end }) => text.slice(start, end));

test("a word is found by its stem, also where that begins as no other word does", () => {
  assert.deepEqual(wordsIn("Ships shipping shop SHIPPED shining", ["ship"]), ["Ships", "shipping", "SHIPPED"]);
  assert.deepEqual(wordsIn("He is dying. The dish.", ["die"]), ["dying"]);
  assert.deepEqual(wordsIn("c C c++ C++ cs c#", ["c"]), ["c", "C"]);
  assert.deepEqual(wordsIn("c C c++ C++ cs c#", ["c＋＋"]), ["c++", "C++"]);
  assert.deepEqual(wordsIn("a p2p net, a pp", ["p2p"]), ["p2p"]);
  assert.deepEqual(wordsIn("call createIndexWriter", ["writer"]), ["createIndexWriter"]);
  assert.deepEqual(wordsIn("Die Häuser und Hauser, das Heim", ["haus"], "de"), ["Häuser", "Hauser"]);
});
