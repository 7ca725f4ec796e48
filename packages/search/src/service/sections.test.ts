import assert from "node:assert/strict";
import { test } from "node:test";
import type { EngineHit, EngineQuery, SearchEngine, SourceDocument } from "../types.ts";
import { joinedDocuments, pagesOf } from "./sections.ts";

const hit = (url: string): EngineHit => ({ title: url, url, snippet: "", date: undefined });

test("each page is given once, with its best section, and as many pages as were asked for", async () => {
  const asked: EngineQuery[] = [];
  const engine: SearchEngine = {
    id: "local",
    async search(query) {
      asked.push(query);
      return ["a#2", "a", "b", "a#1", "c#x", "d"].map((path) => hit(`https://d.example/${path}`));
    },
    async [Symbol.asyncDispose]() {},
  };
  const found = await pagesOf(engine).search({ query: "q", maxResults: 3 }, AbortSignal.timeout(60_000));
  assert.deepEqual(
    found.map(({ url }) => url.slice("https://d.example/".length)),
    ["a#2", "b", "c#x"],
  );
  assert.deepEqual(asked, [{ query: "q", maxResults: 9 }]);
});

test("a page's document is its sections in their order, without those that are gone", async () => {
  const texts = new Map([
    ["p", "one"],
    ["p#b", "two"],
    ["p#c", "three"],
  ]);
  const find = joinedDocuments(
    async (url): Promise<SourceDocument | undefined> => {
      const text = texts.get(url);
      return text === undefined
        ? undefined
        : { url, title: "P", text, language: "en", date: undefined, collection: "c" };
    },
    (url) => (url === "p" ? ["p#b", "p#gone", "p#c"] : []),
  );
  assert.equal((await find("p"))?.text, "one\ntwo\nthree");
  assert.equal(await find("none"), undefined);
});
