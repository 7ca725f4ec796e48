import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import type { EngineHit } from "../types.ts";
import { canonicalUrlKey } from "./canonical-url.ts";
import { mergeHits } from "./merge.ts";

const hit = (url: string, more: Partial<EngineHit> = {}): EngineHit => ({
  title: `title of ${url}`,
  url,
  snippet: `snippet of ${url}`,
  date: undefined,
  ...more,
});

suite("the key of a page", () => {
  test("spellings of one page have one key", () => {
    const same = [
      "https://example.org/docs",
      "http://www.example.org/docs/",
      "https://EXAMPLE.org:443/docs#part",
      "https://example.org/docs/index.html",
      "https://example.org/docs?utm_source=x&utm_medium=y&gclid=z",
      "https://example.org/%64ocs/",
      "https://example.org./docs",
    ];
    assert.deepEqual([...new Set(same.map(canonicalUrlKey))], ["example.org/docs"]);
    assert.equal(canonicalUrlKey("https://a/?b=2&a=1"), canonicalUrlKey("https://a/?a=1&b=2"));
  });

  test("other pages have others", () => {
    const other = [
      "https://example.org/docs",
      "https://example.org/Docs",
      "https://example.org/docs?page=2",
      "https://docs.example.org/",
      "https://example.org:8443/docs",
      "https://example.org/docs%2Fa",
      "https://example.org/docs/a",
      "not a url",
    ];
    assert.equal(new Set(other.map(canonicalUrlKey)).size, other.length);
  });
});

suite("merging", () => {
  test("reciprocal ranks of several engines add up; one page counts once", () => {
    const results = mergeHits(
      [
        { id: "one", weight: 1, hits: [hit("https://a.example/"), hit("https://b.example/x/")] },
        {
          id: "two",
          weight: 1,
          hits: [hit("http://www.b.example/x", { date: "2024-01-01" }), hit("https://c.example/")],
        },
      ],
      10,
    );
    assert.deepEqual(
      results.map(({ url, source, score }) => ({ url, source, score })),
      [
        { url: "http://www.b.example/x", source: "two,one", score: 0.9919 },
        { url: "https://a.example/", source: "one", score: 0.5 },
        { url: "https://c.example/", source: "two", score: 0.4919 },
      ],
    );
    assert.equal(results[0]?.date, "2024-01-01");
    assert.equal(results[1]?.date, null);
  });

  test("a weight moves an engine's ranks", () => {
    const lists = [
      { id: "light", weight: 0.5, hits: [hit("https://a.example/")] },
      { id: "heavy", weight: 2, hits: [hit("https://b.example/")] },
    ];
    assert.deepEqual(
      mergeHits(lists, 10).map(({ source }) => source),
      ["heavy", "light"],
    );
  });

  test("what every engine puts first has score 1", () => {
    const hits = [hit("https://a.example/")];
    const [first] = mergeHits(
      [
        { id: "x", weight: 3, hits },
        { id: "y", weight: 1, hits },
        { id: "z", weight: 9, hits: [] },
      ],
      5,
    );
    assert.equal(first?.score, 1);
    assert.equal(first?.source, "x,y");
  });

  test("a URL that is no web page is dropped, and what one engine lacks another gives", () => {
    const results = mergeHits(
      [
        { id: "x", weight: 1, hits: [hit("javascript:alert(1)"), hit("https://a.example/", { snippet: "" })] },
        { id: "y", weight: 1, hits: [hit("data:text/html,x"), hit("file:///etc/passwd"), hit("https://a.example")] },
      ],
      10,
    );
    assert.equal(results.length, 1);
    assert.equal(results[0]?.snippet, "snippet of https://a.example");
  });

  test("scores are between 0 and 1, fall, and pages are different, whatever engines say", () => {
    const anyHit = fc.record({
      title: fc.string(),
      url: fc.oneof(fc.webUrl({ withQueryParameters: true, withFragments: true }), fc.string()),
      snippet: fc.string(),
      date: fc.constant(undefined),
    });
    const list = fc.record({
      id: fc.constantFrom("a", "b", "c"),
      weight: fc.double({ min: 0.01, max: 100, noNaN: true }),
      hits: fc.array(anyHit, { maxLength: 12 }),
    });
    fc.assert(
      fc.property(fc.array(list, { maxLength: 4 }), fc.integer({ min: 1, max: 50 }), (lists, max) => {
        const results = mergeHits(lists, max);
        assert.ok(results.length <= max);
        const keys = results.map(({ url }) => canonicalUrlKey(url));
        assert.equal(new Set(keys).size, keys.length);
        for (const [at, { score, url }] of results.entries()) {
          assert.ok(score >= 0 && score <= 1 && score <= (results[at - 1]?.score ?? 1));
          assert.match(url, /^https?:/);
        }
      }),
    );
  });
});
