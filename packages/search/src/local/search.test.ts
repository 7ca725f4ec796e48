import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { documentOf, temporaryFolder } from "../../test/local/index.ts";
import type { SourceDocument } from "../types.ts";
import { IndexSearcher } from "./searcher.ts";
import { openIndexWriter } from "./writer.ts";

type Texts = Readonly<Record<string, Partial<SourceDocument>>>;

/** An index of texts by their names; a search gives the names that were found. */
function index(texts: Texts): Disposable & { readonly find: (query: string) => readonly string[] } {
  const owned = new DisposableStack();
  const file = join(owned.use(temporaryFolder()).path, "index.sqlite");
  const writer = owned.use(openIndexWriter({ file }, { log: silentLog }));
  const urlOf = (name: string): string => `https://${name}.test/`;
  writer.put(Object.entries(texts).map(([name, parts]) => documentOf({ url: urlOf(name), ...parts })));
  const searcher = owned.use(new IndexSearcher({ file, maxSnippetChars: 200 }));
  const names = new Map(Object.entries(texts).map(([name, { url }]) => [url ?? urlOf(name), name]));
  return {
    find: (query) => searcher.search(query, 10, performance.now() + 60_000).map(({ url }) => names.get(url) ?? url),
    [Symbol.dispose]: () => owned.dispose(),
  };
}

test("title, heading and address count for more than the text", () => {
  const filler = "A sentence that says other things, so that the text has some length.";
  using made = index({
    body: { title: "One", text: `${filler} The lighthouse stands there. ${filler}` },
    heading: { title: "Two", text: `Lighthouse\n${filler} ${filler}` },
    title: { title: "Lighthouse", text: `${filler} ${filler} Once more.` },
    address: { url: "https://a.test/lighthouse", title: "Three", text: `${filler} And more.` },
  });
  const found = made.find("lighthouse");
  assert.deepEqual(found.toSorted(), ["address", "body", "heading", "title"]);
  assert.equal(found[0], "title");
  assert.equal(found.at(-1), "body");
});

test("a phrase is found as it is, small words and all, and nothing else is", () => {
  using made = index({
    right: { text: "To be or not to be, said he." },
    words: { text: "Not that it has to be so, or does it?" },
  });
  assert.deepEqual(made.find('"to be or not to be"'), ["right"]);
  assert.deepEqual(made.find('"or not to be" said'), ["right"]);
  assert.deepEqual(made.find('"be to not"'), []);
});

test("what is left out is not found, and alone finds nothing", () => {
  using made = index({ cat: { text: "The jaguar is a cat." }, car: { text: "The jaguar is a car, of British cars." } });
  assert.deepEqual(made.find("jaguar -car"), ["cat"]);
  assert.deepEqual(made.find('jaguar -"british cars"'), ["cat"]);
  assert.deepEqual(made.find("-car"), []);
});

test("all words come before some of them, near ones before far ones", () => {
  const gap = "Much is said between. ".repeat(30);
  using made = index({
    far: { text: `Red it was. ${gap} And a balloon. ${gap}` },
    some: { text: `A red, red, red thing. ${gap} ${gap}` },
    near: { text: `${gap} A red balloon. ${gap} Indeed.` },
  });
  assert.deepEqual(made.find("red balloon"), ["near", "far", "some"]);
});

test("small words do not keep a question from its answer, and are found when nothing else is asked", () => {
  using made = index({
    answer: { text: "Payments are settled in batches." },
    bait: { text: "How are you? How is it that you are here, and how are they?" },
  });
  assert.equal(made.find("how are the payments settled")[0], "answer");
  assert.equal(made.find("how are you")[0], "bait");
});

test("other forms of a word are found, in each document's language, with and without diacritics", () => {
  using made = index({
    en: { text: "The ships were sailing." },
    de: { text: "Die Häuser am Hafen.", language: "de" },
    ru: { text: "Мы кормили их кошками.", language: "ru" },
    fr: { text: "Les chevaux sont réglés.", language: "fr" },
    unknown: { text: "sailingboat Häusermeer", language: "xx" },
  });
  assert.deepEqual(made.find("ship sails"), ["en"]);
  assert.deepEqual(made.find("haus"), ["de"]);
  assert.deepEqual(made.find("кошка"), ["ru"]);
  assert.deepEqual(made.find("regler"), ["fr"]);
  assert.deepEqual(made.find("sailingboat"), ["unknown"]);
});

test("a name is found by its parts, and a word that is misspelt by its neighbour", () => {
  using made = index({ api: { text: "Call createIndexWriter first." }, other: { text: "The settlement of debts." } });
  assert.deepEqual(made.find("index writer"), ["api"]);
  assert.deepEqual(made.find("createindexwriter"), ["api"]);
  assert.deepEqual(made.find("setlement"), ["other"]);
});

test("the same text under two addresses is one result, and one host does not fill the top", () => {
  using twice = index({ one: { text: "A lighthouse." }, two: { text: "A lighthouse." } });
  assert.equal(twice.find("lighthouse").length, 1);
  const same = Object.fromEntries(
    Array.from({ length: 8 }, (_, n) => [`a${n}`, { url: `https://a.test/${n}`, text: `The lighthouse, part ${n}.` }]),
  );
  using many = index({ ...same, b: { text: "The lighthouse, part nine." } });
  assert.ok(many.find("lighthouse part").indexOf("b") <= 4);
});

test("a document without a title is named after its address", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, { log: silentLog });
  writer.put([documentOf({ url: "https://a.test/x/guide.html", text: "lighthouse" })]);
  using searcher = new IndexSearcher({ file, maxSnippetChars: 200 });
  assert.equal(searcher.search("lighthouse", 1, performance.now() + 60_000)[0]?.title, "a.test: guide.html");
});
