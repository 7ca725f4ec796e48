import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuery } from "./query.ts";

const plain = (query: string): unknown => {
  const { words, phrases, excluded } = parseQuery(query);
  const folded = (all: readonly { readonly folded: string }[]): string => all.map((word) => word.folded).join(" ");
  return { words: folded(words), phrases: phrases.map(folded), excluded: excluded.map(folded) };
};

test("quotes make phrases, a hyphen leaves out; all else is words", () => {
  const cases: readonly (readonly [string, string, readonly string[], readonly string[]])[] = [
    ['one "two three" four', "one four", ["two three"], []],
    ["„zwei drei“ vier «cinq six»", "vier", ["zwei drei", "cinq six"], []],
    ['open "quote here', "open quote here", [], []],
    ["jaguar -car", "jaguar", [], ["car"]],
    ['jaguar -"sports car" x', "jaguar x", [], ["sports car"]],
    ["well-known --max-size -1 -g", "well known max size 1 g", [], []],
    ["a AND (b OR c) NOT d* ^e title:f", "a and b or c not d e title f", [], []],
    ["twice Twice twice", "twice", [], []],
    ["東京都", "東京 京都", [], []],
    ['"東京都"', "", ["東京 京都"], []],
    ['"" "  " "!"', "", [], []],
  ];
  for (const [query, words, phrases, excluded] of cases)
    assert.deepEqual(plain(query), { words, phrases, excluded }, query);
});

test("what is too much is left out", () => {
  const many = Array.from({ length: 5_000 }, (_, n) => `w${n}`).join(" ");
  assert.equal(parseQuery(many).words.length, 64);
  assert.equal(parseQuery(many.replaceAll("w", "-ww")).excluded.length, 16);
  assert.equal(parseQuery(`"${many.slice(0, 5_000)}"`).phrases[0]?.length, 16);
  assert.equal(parseQuery('"a b" '.repeat(100)).phrases.length, 8);
  assert.deepEqual(plain(`${" ".repeat(16_379)}early late`), { words: "early", phrases: [], excluded: [] });
});

test("small words and scripts tell a query's language", () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ["how are payments settled", "en"],
    ["Wie werden Zahlungen abgewickelt", "de"],
    ["comment les paiements sont réglés", "fr"],
    ["как проводятся платежи", "ru"],
    ["支付如何结算", "zh"],
    ["支払いの決済", "ja"],
    ["배추 김치", "ko"],
    ["payment settlement", undefined],
  ];
  for (const [query, language] of cases) assert.equal(parseQuery(query).language, language, query);
});
