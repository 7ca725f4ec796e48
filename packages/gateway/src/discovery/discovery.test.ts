import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../test/stand-ins.ts";
import { indexDocument, indexPage, wantsHtml } from "./index-page.ts";
import { readPage, readSearch } from "./query.ts";

test("only a client that would rather have HTML gets the page", () => {
  const cases: readonly (readonly [accept: string | undefined, html: boolean])[] = [
    [undefined, false],
    ["", false],
    ["*/*", false],
    ["application/json", false],
    ["application/json, text/html", false],
    ["application/json;q=0.9, text/html", true],
    ["text/html;q=0", false],
    ["text/html;q=NaN", false],
    ["text/html;q=0.9,application/json;q=0.9", false],
    ["TEXT/HTML", true],
    ["application/xhtml+xml", true],
    ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true],
    [`${"a/b,".repeat(10_000)}text/html`, false],
  ];
  for (const [accept, html] of cases) assert.equal(wantsHtml(accept), html, String(accept).slice(0, 60));
});

test("the page and the index tell of the same documents, and the page runs nothing", () => {
  for (const facts of [
    { sold: 7, free: 5 },
    { sold: 0, free: 5 },
  ]) {
    const { links } = indexDocument(facts) as { readonly links: Readonly<Record<string, string>> };
    const page = indexPage(facts);
    assert.match(page, facts.sold > 0 ? /7 services are sold/ : /5 services are here, and nothing is sold/);
    for (const [name, path] of Object.entries(links)) {
      if (!["health", "apiCatalog"].includes(name)) assert.ok(page.includes(`href="${path}"`), name);
    }
    assert.equal(/\bbuy\b|402|x402|\/v1/.test(page + JSON.stringify(links)), facts.sold > 0);
    assert.ok(!/<script|\bon\w+=|https?:/i.test(page));
  }
});

test("a query is read whole or refused, and unknown parameters are left alone", () => {
  assert.deepEqual(readPage(""), { ok: true, value: {} });
  assert.deepEqual(
    readPage("?limit=5&offset=0&type=http&payTo=0x1&scheme=exact&network=eip155%3A1&extensions=bazaar&z=1"),
    {
      ok: true,
      value: {
        type: "http",
        payTo: "0x1",
        scheme: "exact",
        network: "eip155:1",
        extensions: "bazaar",
        limit: 5,
        offset: 0,
      },
    },
  );
  assert.deepEqual(readPage("?query=a&cursor=b"), { ok: true, value: {} });
  assert.deepEqual(readSearch("?query=a+b&cursor=20&limit=3&offset=9"), {
    ok: true,
    value: { query: "a b", cursor: "20", limit: 3 },
  });
  for (const bad of [
    "limit=0",
    "limit=-1",
    "limit=1.0",
    "limit=+1",
    "limit=٣",
    "limit=1234567890",
    "offset=-1",
    "type=a&type=a",
  ]) {
    assert.equal(readPage(`?${bad}`).ok, false, bad);
  }
  for (const bad of ["", "?query=", "?query=%20%09", `?query=${"a".repeat(513)}`, "?query=a&limit=0"]) {
    assert.equal(readSearch(bad).ok, false, bad);
  }
  assert.equal(readSearch(`?query=${"a".repeat(512)}`).ok, true);
});

test("the page is cached apart from the JSON, and a refused query is not cached", async () => {
  await using to = await startTestGateway();
  const [json, html] = await Promise.all(
    ["application/json", "text/html"].map((accept) => fetch(to.url, { headers: { accept } })),
  );
  assert.ok(json && html);
  assert.notEqual(json.headers.get("etag"), html.headers.get("etag"));
  for (const { headers } of [json, html]) assert.match(headers.get("vary") ?? "", /Accept/);
  assert.match(html.headers.get("content-security-policy") ?? "", /^default-src 'none'/);
  const crossed = await fetch(to.url, {
    headers: { accept: "text/html", "if-none-match": json.headers.get("etag") ?? "" },
  });
  assert.equal(crossed.status, 200);
  const refused = await fetch(`${to.url}/discovery/search`);
  assert.deepEqual([refused.status, refused.headers.get("cache-control")], [400, "no-store"]);
  assert.match(((await refused.json()) as { message: string }).message, /query/);
  for (const method of ["POST", "PUT", "DELETE"]) {
    assert.equal((await fetch(`${to.url}/discovery/search?query=a`, { method })).status, 405, method);
  }
});
