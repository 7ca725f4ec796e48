import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { FetchFailure, SafeFetcher } from "./fetching/types.ts";
import { detectKind, listingOf } from "./source-kind.ts";

/** A fetcher that answers everything with one text; undefined: it fails. */
const fetcherOf = (body: string | undefined): SafeFetcher => ({
  async fetch({ url, sink }) {
    if (body === undefined) return { ok: false, reason: "connect", url } satisfies FetchFailure;
    for (const piece of Buffer.from(body)
      .toString("utf8")
      .match(/[\s\S]{1,100}/g) ?? []) {
      if (sink?.(Buffer.from(piece)) === true) break;
    }
    return {
      ok: true,
      status: 200,
      url,
      redirects: 0,
      body: new Uint8Array(),
      contentType: undefined,
      etag: undefined,
      modified: undefined,
      robotsTags: [],
      location: undefined,
    };
  },
  [Symbol.asyncDispose]: async () => {},
});

test("what a document is, is told by its root", () => {
  const cases = [
    ['<?xml version="1.0"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">', "sitemap"],
    ["<sitemapindex>", "sitemap"],
    ['\ufeff<?xml version="1.0"?><!-- made by x --><rss version="2.0">', "feed"],
    ['<feed xmlns="http://www.w3.org/2005/Atom">', "feed"],
    ['<rdf:RDF xmlns="http://purl.org/rss/1.0/">', "feed"],
    ['{"version": "https://jsonfeed.org/version/1.1", "items": []}', "feed"],
    ["<!doctype html><html><body><rss>", undefined],
    ["<urlsets>", undefined],
    ["", undefined],
  ] as const;
  for (const [head, kind] of cases) assert.equal(listingOf(head), kind, head);
  assert.equal(listingOf(`${"<!--".repeat(1_000)}<rss>`), undefined, "in bounded time");
});

test("a URL is what it answers, whatever its name; without an answer its name counts", async () => {
  const kind = (url: string, body: string | undefined) => detectKind(url, fetcherOf(body));
  assert.equal(await kind("https://a.example/", "<!doctype html><p>x"), "url");
  assert.equal(await kind("https://a.example/news", `<rss>${"x".repeat(10_000)}`), "feed");
  assert.equal(await kind("https://a.example/map.xml", "<urlset>"), "sitemap");
  assert.equal(await kind("https://a.example/feed.xml", "<feed>"), "feed");
  assert.equal(await kind("https://a.example/map.xml?x=1", undefined), "sitemap");
  assert.equal(await kind("https://a.example/", undefined), "url");
});

test("a folder is one; node_modules is packages; what is not there is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "source-kind-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    assert.equal(await detectKind(folder, fetcherOf(undefined)), "folder");
    writeFileSync(join(folder, "one.md"), "# One");
    assert.equal(await detectKind(join(folder, "one.md"), fetcherOf(undefined)), "folder");
    assert.equal(await detectKind(`${folder}/node_modules/`, fetcherOf(undefined)), "packages");
    for (const none of [join(folder, "none"), "ftp://a.example/", "javascript:alert(1)", ""]) {
      await assert.rejects(detectKind(none, fetcherOf(undefined)), { code: "SOURCE_REFUSED" });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
