import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { WorkerExtractor } from "./extract/extractor.ts";
import { type CrawlOptions, type IndexedSource, type IndexSourceOptions, indexSource } from "./index-source.ts";
import { openIndexWriter } from "./local/writer.ts";

const PAGE =
  "<html><head><title>Page</title></head><body><main><p>Words that are the main text of this page.</p></main>";

interface Rig extends AsyncDisposable {
  readonly folder: string;
  readonly origin: string;
  readonly urls: () => readonly string[];
  index(target: string, more?: Partial<IndexSourceOptions>, crawl?: Partial<CrawlOptions>): Promise<IndexedSource>;
}

async function rig(pages: Readonly<Record<string, string>>): Promise<Rig> {
  const folder = mkdtempSync(join(tmpdir(), "index-source-"));
  const server = createServer((request, response) => {
    const page = pages[request.url ?? ""];
    if (page === undefined) response.writeHead(404).end();
    else if (page.startsWith("http")) response.writeHead(302, { location: page }).end();
    else response.writeHead(200, { "content-type": page.startsWith("<html") ? "text/html" : "text/xml" }).end(page);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const [path, page] of Object.entries(pages)) Object.assign(pages, { [path]: page.replaceAll("ORIGIN", origin) });
  const writer = openIndexWriter({ file: join(folder, "search.sqlite") }, { log: silentLog });
  const extractor = new WorkerExtractor({ maxPageBytes: 5_242_880 }, { log: silentLog });
  const collections = new Set<string>();
  return {
    folder,
    origin,
    urls: () => [...collections].flatMap((name) => [...writer.urlsOf(name)]).toSorted(),
    async index(target, more = {}, crawl = {}) {
      const indexed = await indexSource(
        {
          target,
          kind: undefined,
          baseUrl: undefined,
          publicUrl: "https://search.example/",
          crawlFile: join(folder, "crawl.sqlite"),
          filesFile: join(folder, "files.sqlite"),
          crawl: {
            userAgent: "TestBot/1.0",
            maxPages: 20,
            maxDepth: 3,
            delayMs: 0,
            concurrency: 2,
            maxPageBytes: 100_000,
            timeoutMs: 60_000,
            maxRedirects: 3,
            domains: [],
            allowPrivate: false,
            ...crawl,
          },
          ...more,
        },
        { writer, extractor, clock: systemClock, log: silentLog },
      );
      collections.add(indexed.collection);
      return indexed;
    },
    async [Symbol.asyncDispose]() {
      await extractor[Symbol.asyncDispose]();
      writer[Symbol.dispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

suite("indexing a source of any kind", () => {
  test("a site, a sitemap and a feed are told by what they answer", async () => {
    await using on = await rig({
      "/": `${PAGE}<a href="/two">two</a>`,
      "/two": PAGE.replace("Words", "Other words"),
      "/map": "<urlset><url><loc>ORIGIN/three</loc></url></urlset>",
      "/three": PAGE.replace("Words", "Third words"),
      "/news": "<rss><channel><item><link>ORIGIN/four</link></item></channel></rss>",
      "/four": PAGE.replace("Words", "Fourth words"),
    });
    assert.equal((await on.index(`${on.origin}/`)).kind, "url");
    assert.equal((await on.index(`${on.origin}/map`)).kind, "sitemap");
    assert.equal((await on.index(`${on.origin}/news`)).kind, "feed");
    assert.deepEqual(
      on.urls(),
      ["/", "/four", "/three", "/two"].map((path) => on.origin + path),
    );
  });

  test("a folder's files are named by its address, else by the service's own", async () => {
    await using on = await rig({});
    writeFileSync(join(on.folder, "a b.md"), "# Title\n\nSome text that is long enough to be found.");
    const { kind, collection } = await on.index(on.folder);
    assert.deepEqual([kind, collection], ["folder", on.folder]);
    assert.match(on.urls()[0] ?? "", /^https:\/\/search\.example\/documents\/index-source-\w+-[0-9a-f]{8}\/a%20b\.md$/);
    await on.index(on.folder, { baseUrl: "https://docs.example/x/" });
    assert.deepEqual(on.urls(), ["https://docs.example/x/a%20b.md"]);
  });

  test("a single file has an address of its own beside its folder's", async () => {
    await using on = await rig({});
    const file = join(on.folder, "a.md");
    writeFileSync(file, "# Title\n\nSome text that is long enough to be found.");
    await on.index(on.folder);
    const { kind, collection } = await on.index(file);
    assert.deepEqual([kind, collection], ["folder", file]);
    assert.equal(new Set(on.urls()).size, 2);
    for (const url of on.urls())
      assert.match(url, /^https:\/\/search\.example\/documents\/index-source-\w+-[0-9a-f]{8}\/a\.md$/);
  });

  test("an address of this machine may be read when it is named, and never by way of a redirect", async () => {
    await using inner = await rig({ "/": PAGE });
    await using outer = await rig({ "/": `${inner.origin}/` });
    // The other host is one that may be followed to; only its address is not public.
    const domains = [new URL(inner.origin).host];
    const { report } = await outer.index(`${outer.origin}/`, { kind: "url" }, { domains });
    assert.deepEqual([report.indexed, outer.urls()], [0, []]);
    const all = await outer.index(`${outer.origin}/`, { kind: "url" }, { domains, allowPrivate: true });
    assert.equal(all.report.indexed, 1, "it is what the rule alone refuses");
    assert.equal((await inner.index(`${inner.origin}/`, { kind: "url" })).report.indexed, 1);
  });

  test("what cannot be a source is refused", async () => {
    await using on = await rig({});
    const refused = { code: "SOURCE_REFUSED" };
    await assert.rejects(on.index(join(on.folder, "none")), refused);
    await assert.rejects(on.index("ftp://a.example/"), refused);
    await assert.rejects(on.index(`${on.origin}/`, { kind: "url", baseUrl: "https://x.example/" }), refused);
    await assert.rejects(on.index(join(on.folder, "none"), { kind: "packages" }), refused);
  });
});
