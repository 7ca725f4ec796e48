import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { MemoryIndex, page, Workbench } from "../../test/crawl/site.ts";
import { serve, type TestServer } from "../../test/fetching/server.ts";
import { createSafeFetcher } from "../fetching/fetcher.ts";
import type { IndexProgress } from "../types.ts";

type Pages = Record<string, string | ((response: ServerResponse) => void)>;

/** A site of these pages; all else is 404. With ETags, and 304 for those who have them. */
function siteOf(pages: Pages): Promise<TestServer> {
  return serve((request, response, path) => {
    const found = pages[path];
    if (typeof found === "function") return found(response);
    if (found === undefined) return response.writeHead(404).end();
    const etag = `"${Buffer.from(found).toString("base64url").slice(-40)}${found.length}"`;
    const isText = path.endsWith(".txt") || path.endsWith(".xml");
    response.setHeader("content-type", isText ? "text/plain" : "text/html; charset=utf-8");
    response.setHeader("etag", etag);
    if (request.headers["if-none-match"] === etag) return response.writeHead(304).end();
    return response.end(found);
  });
}

const redirect = (location: string) => (response: ServerResponse) => response.writeHead(301, { location }).end();

describe("crawling a site", () => {
  it("follows links within its origin and depth, each page once", async () => {
    using bench = new Workbench();
    await using site = await siteOf({
      "/": page("Start", ["/a", "/a#part", "b?", "http://other.example/", "mailto:x@y.z", "/picture.png", "/"]),
      "/a": page("A", ["/c", "/"]),
      "/b": page("B", ["/a"]),
      "/c": page("C", ["/d"]),
      "/d": page("D"),
    });
    const seen: IndexProgress[] = [];
    const report = await bench.crawl(`${site.origin}/`, { maxDepth: 2 }, { onProgress: (now) => seen.push(now) });
    assert.deepEqual(bench.paths, ["/", "/a", "/b", "/c"]);
    assert.deepEqual(site.asked.toSorted(), ["/", "/a", "/b", "/c", "/robots.txt"]);
    assert.deepEqual(report, {
      seen: 4,
      indexed: 4,
      unchanged: 0,
      skipped: 0,
      waiting: 0,
      current: undefined,
      removed: 0,
      reasons: {},
      incomplete: false,
    });
    assert.deepEqual(
      seen.map((now) => now.indexed),
      [1, 2, 3, 4],
    );
    const document = bench.index.documents.get(`${site.origin}/a`);
    assert.deepEqual([document?.title, document?.text, document?.collection], ["A", "Words of A.", "test"]);
  });

  it("reads other hosts that are named, and no others", async () => {
    using bench = new Workbench();
    await using other = await siteOf({ "/": page("Other", ["/more"]), "/more": page("More") });
    await using third = await siteOf({ "/": page("Third") });
    await using site = await siteOf({ "/": page("Start", [other.origin, third.origin]) });
    await bench.crawl(site.origin, { domains: [`127.0.0.1:${other.port}`] });
    assert.deepEqual([...bench.index.documents.values()].map(({ title }) => title).sort(), ["More", "Other", "Start"]);
    assert.deepEqual(third.asked, []);
  });

  it("stops at the page limit, and says so", async () => {
    using bench = new Workbench();
    const links = Array.from({ length: 30 }, (_, n) => `/p${n}`);
    await using site = await siteOf({
      "/": page("Start", links),
      ...Object.fromEntries(links.map((link) => [link, page(link)])),
    });
    const report = await bench.crawl(site.origin, { maxPages: 10 });
    assert.equal(report.indexed, 10);
    assert.equal(report.incomplete, true);
    assert.equal(site.asked.length, 11);
  });

  it("asks one host one thing at a time with its pause, several hosts at once", async () => {
    using bench = new Workbench();
    const times = new Map<number, number[]>();
    let under = 0;
    let most = 0;
    const slow = (port: () => number, pages: Record<string, string>) =>
      serve((_, response, path) => {
        times.set(port(), [...(times.get(port()) ?? []), bench.clock.monotonicMs()]);
        under++;
        most = Math.max(most, under);
        setImmediate(() => {
          under--;
          response.setHeader("content-type", path === "/robots.txt" ? "text/plain" : "text/html");
          response.end(path === "/robots.txt" ? "User-agent: testbot\nCrawl-delay: 7" : (pages[path] ?? page(path)));
        });
      });
    await using other: TestServer = await slow(() => other.port, {});
    const links = ["/a", "/b", "/c", `${other.origin}/x`, `${other.origin}/y`];
    await using site: TestServer = await slow(() => site.port, { "/": page("Start", links) });
    const report = await bench.crawl(site.origin, { delayMs: 1_000, domains: [`127.0.0.1:${other.port}`] });
    assert.equal(report.indexed, 6);
    for (const at of times.values()) {
      for (let n = 1; n < at.length; n++) assert.ok((at[n] ?? 0) - (at[n - 1] ?? 0) >= 7_000, String(at));
    }
    assert.ok(most <= 2, String(most));
    const [ofSite = [], ofOther = []] = [times.get(site.port), times.get(other.port)];
    assert.ok((ofOther[0] ?? 0) < (ofSite.at(-1) ?? 0), "the second host did not wait for the end of the first");
  });

  it("waits as long as 429 and 503 ask, then goes on", async () => {
    using bench = new Workbench();
    const times: number[] = [];
    const busy = (status: number) => (response: ServerResponse) => {
      times.push(bench.clock.monotonicMs());
      if (times.length % 2 === 1) response.writeHead(status, { "retry-after": "30" }).end();
      else response.writeHead(200, { "content-type": "text/html" }).end(page(`After ${status}`));
    };
    await using site = await siteOf({ "/": page("Start", ["/a", "/b"]), "/a": busy(429), "/b": busy(503) });
    const report = await bench.crawl(site.origin);
    assert.equal(report.indexed, 3);
    assert.deepEqual([(times[1] ?? 0) - (times[0] ?? 0), (times[3] ?? 0) - (times[2] ?? 0)], [30_000, 30_000]);
  });

  it("a host that is always busy is left alone; the next run goes on with it", async () => {
    using bench = new Workbench();
    let isBusy = true;
    await using site = await siteOf({
      "/": page("Start", ["/a", "/b", "/c"]),
      ...Object.fromEntries(
        ["/a", "/b", "/c"].map((path) => [
          path,
          (response: ServerResponse) =>
            response.writeHead(isBusy ? 503 : 200, { "content-type": "text/html" }).end(page(path)),
        ]),
      ),
    });
    const first = await bench.crawl(site.origin);
    assert.equal(first.incomplete, true);
    assert.equal(first.waiting, 2);
    assert.deepEqual(first.reasons, { status_503: 1 });
    isBusy = false;
    const second = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/a", "/b", "/c"]);
    assert.deepEqual([second.incomplete, second.reasons], [false, {}]);
    assert.equal(site.asked.filter((path) => path === "/").length, 1);
  });

  it("a host that is never there does not keep the others from being read anew", async () => {
    using bench = new Workbench();
    await using gone = await siteOf({ "/robots.txt": (response) => response.writeHead(500).end() });
    const pages: Pages = { "/": page("Start", [`${gone.origin}/a`, `${gone.origin}/b`]) };
    await using site = await siteOf(pages);
    const crawl = () => bench.crawl(site.origin, { domains: [`127.0.0.1:${gone.port}`] });
    assert.deepEqual([(await crawl()).incomplete, (await crawl()).incomplete], [true, true]);
    pages["/"] = page("Changed", [`${gone.origin}/a`, `${gone.origin}/b`]);
    const third = await crawl();
    assert.deepEqual([third.indexed, third.incomplete], [1, true]);
    assert.deepEqual(
      [...bench.index.documents.values()].map(({ title }) => title),
      ["Changed"],
    );
  });

  it("a host that wants to be left alone for a day is", async () => {
    using bench = new Workbench();
    await using site = await siteOf({ "/": (response) => response.writeHead(429, { "retry-after": "86400" }).end() });
    const report = await bench.crawl(site.origin);
    assert.equal(report.incomplete, true);
    assert.deepEqual(site.asked, ["/robots.txt", "/"]);
  });

  it("follows redirects as links: in bounds, with robots.txt, and not out of the site", async () => {
    using bench = new Workbench();
    await using site = await siteOf({
      "/robots.txt": "User-agent: *\nDisallow: /secret",
      "/": page("Start", ["/moved", "/hidden", "/out", "/loop", "/self", "/odd"]),
      "/moved": redirect("/new"),
      "/new": page("New"),
      "/hidden": redirect("/secret"),
      "/out": redirect("http://elsewhere.example/"),
      "/loop": redirect("/pool"),
      "/pool": redirect("/loop"),
      "/self": redirect("/self"),
      "/odd": redirect("ftp://elsewhere.example/"),
    });
    const report = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/new"]);
    assert.deepEqual(report.reasons, {
      redirect_loop: 1,
      redirect_outside: 1,
      redirect_refused: 1,
      redirected: 4,
      robots_disallowed: 1,
    });
  });

  it("a start that leads to its host with www. means that one too, in a later run as well", async () => {
    using bench = new Workbench();
    await using site: TestServer = await serve((request, response, path) => {
      const isBare = request.headers.host?.startsWith("example.") === true;
      if (isBare) return response.writeHead(301, { location: `http://www.example.test:${site.port}${path}` }).end();
      return response.writeHead(200, { "content-type": "text/html" }).end(page(path, path === "/" ? ["/a"] : []));
    });
    const bounds = { userAgent: "t", timeoutMs: 60_000, maxBytes: 100_000, maxRedirects: 5, allowPrivate: true };
    const resolve = async () => [{ address: "127.0.0.1", family: 4 }];
    await using fetcher = createSafeFetcher(bounds, { clock: bench.clock, resolve });
    const stop = new AbortController();
    const modules = {
      fetcher,
      signal: stop.signal,
      onProgress: (now: IndexProgress) => now.indexed === 1 && stop.abort(),
    };
    await bench.crawl(`http://example.test:${site.port}/`, {}, modules);
    const report = await bench.crawl(`http://example.test:${site.port}/`, {}, { fetcher });
    assert.deepEqual([bench.paths, report.reasons], [["/", "/a"], { redirected: 1 }]);
  });

  it("robots.txt that cannot be had for now: the next run goes on with what waits", async () => {
    using bench = new Workbench();
    let isDown = true;
    await using other = await siteOf({
      "/robots.txt": (response) => response.writeHead(isDown ? 500 : 404).end(),
      "/a": page("A"),
      "/b": page("B"),
    });
    await using site = await siteOf({ "/": page("Start", [`${other.origin}/a`, `${other.origin}/b`]) });
    const domains = [`127.0.0.1:${other.port}`];
    const first = await bench.crawl(site.origin, { domains });
    assert.deepEqual(
      [first.incomplete, first.reasons, other.asked],
      [true, { robots_unreachable: 1 }, ["/robots.txt"]],
    );
    isDown = false;
    const second = await bench.crawl(site.origin, { domains });
    assert.deepEqual([second.incomplete, second.indexed, second.reasons], [false, 3, {}]);
    assert.deepEqual(site.asked, ["/robots.txt", "/"]);
  });

  it("heeds noindex and nofollow, in the page and in X-Robots-Tag", async () => {
    using bench = new Workbench();
    const tagged = (tag: string, title: string, link: string) => (response: ServerResponse) => {
      response.writeHead(200, { "content-type": "text/html", "x-robots-tag": tag }).end(page(title, [link]));
    };
    await using site = await siteOf({
      "/": page("Start", ["/meta", "/header", "/other", "/none"]),
      "/meta": page("Meta", ["/from-meta"], '<meta name=robots content="noindex">'),
      "/header": tagged("nofollow", "Header", "/from-header"),
      "/other": tagged("otherbot: noindex, nofollow", "Other", "/from-other"),
      "/none": tagged("testbot: none", "None", "/from-none"),
      "/from-meta": page("From meta"),
      "/from-other": page("From other"),
    });
    const report = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/from-meta", "/from-other", "/header", "/other"]);
    assert.deepEqual(report.reasons, { noindex: 2 });
  });

  it("indexes the same content once, and canonical pages instead of their variants", async () => {
    using bench = new Workbench();
    const pages: Pages = {
      "/": page("Start", ["/one", "/two", "/print?x=1", "/x", "/y"]),
      "/one": page("Same"),
      "/two": page("Same"),
      "/print?x=1": page("Article", [], '<link rel=canonical href="/article">'),
      "/article": page("Article", [], '<link rel=canonical href="/article">'),
      // Two that call each other canonical, and one that calls a missing page so.
      "/x": page("X", [], '<link rel=canonical href="/y">'),
      "/y": page("Y", [], '<link rel=canonical href="/x">'),
      "/lost": page("Lost", [], '<link rel=canonical href="/missing">'),
    };
    pages["/"] = page("Start", ["/one", "/two", "/print?x=1", "/x", "/y", "/lost"]);
    await using site = await siteOf(pages);
    const report = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/article", "/lost", "/one", "/x"]);
    assert.deepEqual(report.reasons, { canonical: 2, duplicate: 1, gone: 1 });
    assert.equal(report.seen, report.indexed + report.skipped);

    delete pages["/one"];
    const second = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/article", "/lost", "/two", "/x"]);
    assert.equal(second.removed, 1);
  });
});

describe("crawling again", () => {
  it("asks on condition: 304 counts as unchanged, and its links are still followed", async () => {
    using bench = new Workbench();
    const pages: Pages = {
      "/": page("Start", ["/a", "/b"]),
      "/a": page("A", ["/c"]),
      "/b": page("B"),
      "/c": page("C"),
    };
    await using site = await siteOf(pages);
    await bench.crawl(site.origin);
    pages["/b"] = page("B is new", ["/d"]);
    pages["/d"] = page("D");
    const report = await bench.crawl(site.origin);
    assert.deepEqual([report.seen, report.unchanged, report.indexed], [5, 3, 2]);
    assert.equal(bench.index.puts.length, 6);
    assert.equal(bench.index.documents.get(`${site.origin}/b`)?.title, "B is new");
    assert.equal(site.asked.filter((path) => path === "/robots.txt").length, 1);
  });

  it("a page without ETag that has not changed is not written again", async () => {
    using bench = new Workbench();
    await using site = await serve((_, response) => {
      response.writeHead(200, { "content-type": "text/html" }).end(page("Start"));
    });
    await bench.crawl(site.origin);
    const report = await bench.crawl(site.origin);
    assert.deepEqual([report.unchanged, bench.index.puts.length], [1, 1]);
  });

  it("removes what is gone, linked or not, and what may no longer be indexed", async () => {
    using bench = new Workbench();
    const paths = ["/gone", "/unlinked", "/noindex", "/moved", "/stays", "/orphan"];
    const pages: Pages = { "/": page("Start", paths) };
    for (const path of paths) pages[path] = page(path);
    await using site = await siteOf(pages);
    await bench.crawl(site.origin);
    assert.equal(bench.paths.length, 7);

    pages["/"] = page("Start", ["/gone", "/noindex", "/moved", "/stays"]);
    pages["/gone"] = (response) => response.writeHead(410).end();
    delete pages["/unlinked"];
    pages["/noindex"] = page("x", [], '<meta name=robots content="noindex">');
    pages["/moved"] = redirect("/target");
    pages["/target"] = page("Target");
    const report = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/orphan", "/stays", "/target"]);
    assert.deepEqual([report.removed, report.reasons], [4, { gone: 2, noindex: 1, redirected: 1 }]);
  });

  it("keeps documents whose server fails for now", async () => {
    using bench = new Workbench();
    const pages: Pages = { "/": page("Start", ["/a", "/b"]), "/a": page("A"), "/b": page("B") };
    await using site = await siteOf(pages);
    await bench.crawl(site.origin);
    pages["/a"] = (response) => response.writeHead(500).end();
    pages["/b"] = (response) => response.destroy();
    const report = await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/a", "/b"]);
    assert.deepEqual(report.reasons, { reset: 1, status_500: 1 });
  });

  it("an index that was lost is filled anew, in spite of the state", async () => {
    using bench = new Workbench();
    await using site = await siteOf({ "/": page("Start", ["/a"]), "/a": page("A") });
    await bench.crawl(site.origin);
    bench.index = new MemoryIndex();
    const report = await bench.crawl(site.origin);
    assert.deepEqual([report.indexed, bench.paths], [2, ["/", "/a"]]);
  });

  it("a state that was lost does not leave documents behind for ever", async () => {
    using bench = new Workbench();
    using fresh = new Workbench();
    const pages: Pages = { "/": page("Start", ["/a", "/b"]), "/a": page("A"), "/b": page("B") };
    await using site = await siteOf(pages);
    await bench.crawl(site.origin);
    pages["/"] = page("Start", ["/a"]);
    delete pages["/b"];
    fresh.index = bench.index;
    const report = await fresh.crawl(site.origin);
    assert.deepEqual([bench.paths, report.removed], [["/", "/a"], 1]);
  });

  it("what is gone is found too when the source is read as another kind than before", async () => {
    using bench = new Workbench();
    const pages: Pages = { "/": page("Start", ["/a", "/b"]), "/a": page("A"), "/b": page("B") };
    await using site = await siteOf(pages);
    await bench.crawl(site.origin);
    delete pages["/b"];
    pages["/"] = `<urlset><url><loc>${site.origin}/a</loc></url></urlset>`;
    const report = await bench.crawl(site.origin, { kind: "sitemap" });
    assert.deepEqual([bench.paths.includes("/b"), report.removed > 0], [false, true]);
  });

  it("documents of hosts that are no longer named are removed", async () => {
    using bench = new Workbench();
    await using other = await siteOf({ "/": page("Other") });
    await using site = await siteOf({ "/": page("Start", [other.origin]) });
    await bench.crawl(site.origin, { domains: [`127.0.0.1:${other.port}`] });
    assert.equal(bench.index.documents.size, 2);
    const report = await bench.crawl(site.origin);
    assert.deepEqual([bench.index.documents.size, report.removed, report.reasons], [1, 1, { out_of_scope: 1 }]);
  });

  it("a site that has moved on does not grow the index past its limit", async () => {
    using bench = new Workbench();
    let day = 1;
    await using site = await serve((_, response, path) => {
      if (path === "/robots.txt") return response.writeHead(404).end();
      const links = Array.from({ length: 9 }, (__, n) => `/${day}-${n}`);
      return response.writeHead(200, { "content-type": "text/html" }).end(page(path, path === "/" ? links : []));
    });
    await bench.crawl(site.origin, { maxPages: 10 });
    day = 2;
    const report = await bench.crawl(site.origin, { maxPages: 10 });
    assert.equal(bench.index.documents.size, 10);
    assert.equal(report.removed, 9);
    assert.equal(
      bench.paths.some((path) => path.startsWith("/1-")),
      false,
    );
  });

  it("the signal ends a run; the next one goes on, and asks for nothing twice", async () => {
    using bench = new Workbench();
    const links = Array.from({ length: 20 }, (_, n) => `/p${n}`);
    await using site = await siteOf({
      "/": page("Start", links),
      ...Object.fromEntries(links.map((link) => [link, page(link)])),
    });
    const stop = new AbortController();
    const onProgress = (now: IndexProgress): void => {
      if (now.seen === 8) stop.abort();
    };
    const first = await bench.crawl(site.origin, {}, { signal: stop.signal, onProgress });
    assert.deepEqual([first.seen, first.incomplete, first.waiting], [8, true, 13]);
    const second = await bench.crawl(site.origin);
    assert.deepEqual([second.seen, second.indexed, second.incomplete], [21, 21, false]);
    assert.equal(new Set(site.asked).size, site.asked.length);
  });

  it("two crawls cannot have one state at once", async () => {
    using bench = new Workbench();
    await using site = await siteOf({ "/": page("Start") });
    const [first, second] = await Promise.allSettled([bench.crawl(site.origin), bench.crawl(site.origin)]);
    assert.equal(first.status, "fulfilled");
    assert.ok(second.status === "rejected");
    assert.match(String(second.reason), /Another crawl is using/);
  });

  it("refuses a start that is no web address, and a state that is something else", async () => {
    using bench = new Workbench();
    for (const start of ["", "docs", "file:///etc/passwd", "http://u:p@example.org/", "http://example.org:25/"]) {
      await assert.rejects(bench.crawl(start), { code: "SOURCE_REFUSED" });
    }
    await assert.rejects(bench.crawl("http://example.org/", { stateFile: bench.folder }), { code: "SOURCE_REFUSED" });
  });

  it("a fault of the index ends the run, and the page is read again the next time", async () => {
    using bench = new Workbench();
    await using site = await siteOf({ "/": page("Start") });
    const broken = new MemoryIndex();
    broken.put = () => {
      throw new RangeError("disk full");
    };
    await assert.rejects(bench.crawl(site.origin, {}, { writer: broken }), /disk full/);
    assert.equal((await bench.crawl(site.origin)).indexed, 1);
  });
});

describe("lists of pages", () => {
  const urlset = (urls: readonly string[]): string =>
    `<?xml version="1.0"?><urlset xmlns="x">${urls.map((url) => `<url><loc>\n${url.replaceAll("&", "&amp;")} </loc><image:image><image:loc>/no.png</image:loc></image:image></url>`).join("")}</urlset>`;

  it("reads a sitemap index, plain and packed sitemaps and text ones, and follows no links", async () => {
    using bench = new Workbench();
    await using site: TestServer = await siteOf({
      "/sitemap.xml": (response) =>
        response.end(
          `<sitemapindex>${["/one.xml", "/two.xml.gz", "/three.txt", "/sitemap.xml"].map((path) => `<sitemap><loc>${site.origin}${path}</loc></sitemap>`).join("")}</sitemapindex>`,
        ),
      "/one.xml": (response) => response.end(urlset([`${site.origin}/a?x=1&y=2`, "http://elsewhere.example/"])),
      "/two.xml.gz": (response) => {
        response.setHeader("content-type", "application/gzip");
        response.end(gzipSync(urlset([`${site.origin}/b`])));
      },
      "/three.txt": (response) => response.end(`\ufeff${site.origin}/c\r\n${site.origin}/d`),
      "/a?x=1&y=2": page("A", ["/linked"]),
      "/b": page("B"),
      "/c": page("C"),
      "/d": page("D"),
    });
    const report = await bench.crawl(`${site.origin}/sitemap.xml`, { kind: "sitemap", maxDepth: 0 });
    assert.deepEqual(bench.paths, ["/a?x=1&y=2", "/b", "/c", "/d"]);
    assert.deepEqual([report.seen, report.reasons, report.incomplete], [4, {}, false]);
  });

  it("uses the sitemaps that robots.txt names", async () => {
    using bench = new Workbench();
    await using site: TestServer = await siteOf({
      "/robots.txt": (response) => response.end(`Sitemap: ${site.origin}/map.xml\nSitemap: http://elsewhere.example/x`),
      "/map.xml": (response) => response.end(urlset([`${site.origin}/hidden`])),
      "/": page("Start"),
      "/hidden": page("Hidden"),
    });
    await bench.crawl(site.origin);
    assert.deepEqual(bench.paths, ["/", "/hidden"]);
  });

  const FEEDS: Record<string, (origin: string) => string> = {
    RSS: (origin) =>
      `<rss version="2.0"><channel><link>${origin}/</link><item><title>x</title><link>${origin}/a</link></item><item><guid>${origin}/b</guid></item><item><guid isPermaLink="false">${origin}/no</guid></item></channel></rss>`,
    Atom: () =>
      `<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link rel="self" href="/no"/><link href="/a"/></entry><entry><link rel="alternate" href="/b"/></entry></feed>`,
    "RSS 1.0": () =>
      `<rdf:RDF><channel><link>/</link></channel><item><link>/a</link></item><item><link><![CDATA[/b]]></link></item></rdf:RDF>`,
    JSON: () => `{"version":"https://jsonfeed.org/version/1.1","items":[{"url":"/a"},{"id":"x"},null,{"url":"/b"}]}`,
  };
  for (const [name, feed] of Object.entries(FEEDS)) {
    it(`reads ${name} feeds`, async () => {
      using bench = new Workbench();
      await using site: TestServer = await siteOf({
        "/feed": (response) => response.end(feed(site.origin)),
        "/a": page("A", ["/linked"]),
        "/b": page("B"),
      });
      const report = await bench.crawl(`${site.origin}/feed`, { kind: "feed" });
      assert.deepEqual([bench.paths, report.seen], [["/a", "/b"], 2]);
    });
  }

  it("says why a list gave nothing", async () => {
    using bench = new Workbench();
    await using site = await siteOf({ "/html": page("No list"), "/robots.txt": "" });
    const missing = await bench.crawl(`${site.origin}/missing.xml`, { kind: "sitemap" });
    assert.deepEqual(missing.reasons, { listing_gone: 1 });
    const html = await bench.crawl(`${site.origin}/html`, { kind: "feed" });
    assert.deepEqual(html.reasons, { listing_empty: 1 });
  });
});
