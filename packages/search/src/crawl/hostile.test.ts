import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it, mock } from "node:test";
import { gzipSync } from "node:zlib";
import { silentLog, systemClock } from "@turnpike/base";
import { page, Workbench } from "../../test/crawl/site.ts";
import { serve, serveRaw } from "../../test/fetching/server.ts";
import { WorkerExtractor } from "../extract/extractor.ts";
import { createSafeFetcher } from "../fetching/fetcher.ts";
import type { SafeFetcher } from "../fetching/types.ts";
import { MAX_LISTING_BYTES } from "./listings.ts";

type Answer = (response: ServerResponse, path: string) => void;

/** A site of these answers, by the longest beginning of the path. Without more, robots.txt is missing. */
const hostileSite = (answers: Record<string, Answer>) =>
  serve((_, response, path) => {
    if (path === "/robots.txt" && answers[path] === undefined) return response.writeHead(404).end();
    const [key] = Object.keys(answers)
      .filter((start) => path.startsWith(start))
      .sort((a, b) => b.length - a.length);
    response.setHeader("content-type", "text/html");
    return answers[key ?? ""]?.(response, path);
  });

const html =
  (text: string): Answer =>
  (response) =>
    response.end(text);

const flood = (response: ServerResponse, line: (n: number) => string, lines: number): void => {
  let n = 0;
  const more = (): void => {
    while (n < lines) {
      let piece = "";
      for (const end = Math.min(lines, n + 500); n < end; n++) piece += line(n);
      if (!response.write(piece)) return;
    }
    response.end();
  };
  response.on("drain", more);
  more();
};

describe("hostile sites", () => {
  it("endless redirects end at the limit", async () => {
    using bench = new Workbench();
    await using site = await hostileSite({
      "/": (response, path) => {
        const n = Number(path.split("/")[1]);
        response.writeHead(302, { location: `/${n + 1}` }).end();
      },
    });
    const report = await bench.crawl(site.origin);
    assert.deepEqual(report.reasons, { redirected: 5, too_many_redirects: 1 });
    assert.equal(site.asked.length, 7);
  });

  const PRIVATE = [
    "127.0.0.1:8123",
    "169.254.169.254",
    "[::1]",
    "[::ffff:10.0.0.1]",
    "0x7f.1",
    "2130706433",
    "inner.example",
  ];
  for (const host of PRIVATE) {
    it(`a redirect and a link to http://${host} reach nobody, even where the host is named`, async () => {
      using bench = new Workbench();
      await using site = await hostileSite({
        "/": html(page("Start", ["/go", `http://${host}/link`])),
        "/go": (response) => response.writeHead(302, { location: `http://${host}/` }).end(),
      });
      const resolve = async () => [{ address: "10.1.2.3", family: 4 }];
      const options = {
        userAgent: "t",
        timeoutMs: 60_000,
        maxBytes: 100_000,
        maxRedirects: 5,
        allowPrivate: [site.origin],
      };
      await using fetcher = createSafeFetcher(options, { clock: systemClock, resolve });
      const outside = await bench.crawl(site.origin, {}, { fetcher });
      assert.deepEqual([outside.indexed, outside.reasons], [1, { redirect_outside: 1 }]);
      using again = new Workbench();
      const named = await again.crawl(site.origin, { domains: [host] }, { fetcher });
      assert.deepEqual([named.indexed, named.reasons], [1, { private_address: 2, redirected: 1 }]);
    });
  }

  it("a start at a private address, or at a name that leads to one, is refused", async () => {
    await using site = await hostileSite({ "/": html(page("Secret")) });
    const resolve = async () => [{ address: "127.0.0.1", family: 4 }];
    const options = { userAgent: "t", timeoutMs: 60_000, maxBytes: 100_000, maxRedirects: 5, allowPrivate: false };
    await using fetcher = createSafeFetcher(options, { clock: systemClock, resolve });
    for (const host of ["127.0.0.1", "0x7f.1", "inner.example"]) {
      using bench = new Workbench();
      const report = await bench.crawl(`http://${host}:${site.port}/`, {}, { fetcher });
      assert.deepEqual([report.indexed, report.reasons], [0, { private_address: 1 }]);
    }
    assert.deepEqual(site.asked, []);
  });

  it("bombs, drips, resets and lies cost their own page only, each with its reason", async () => {
    using bench = new Workbench();
    const bad = ["/zip", "/huge", "/drip", "/packed", "/video", "/head", "/reset", "/odd", "/error", "/charset"];
    const bomb = gzipSync(Buffer.alloc(10_000_000));
    const head = (lines: string): string =>
      `HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n${lines}\r\n`;
    await using site = await serveRaw((socket, request) => {
      const path = request.split(" ")[1] ?? "";
      switch (path) {
        case "/robots.txt":
          return socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        case "/":
          return socket.end(head("") + page("Start", [...bad, "/good"]));
        case "/zip":
          socket.write(head("content-encoding: gzip\r\n"));
          return socket.end(bomb);
        case "/huge":
          return socket.write(head("content-length: 2147483648\r\n"));
        case "/drip": {
          socket.write(head(""));
          const timer = setInterval(() => socket.write("<p>"), 20);
          return socket.on("close", () => clearInterval(timer));
        }
        case "/packed":
          return socket.end(`${head("content-encoding: gzip\r\n")}no gzip at all`);
        case "/video":
          return socket.write("HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\n\r\n");
        case "/head":
          return socket.write(head("x: y\r\n".repeat(50_000)));
        case "/reset":
          return socket.write(`${head("content-length: 1000\r\n")}half`, () => socket.resetAndDestroy());
        case "/odd":
          return socket.end("this is no HTTP\r\n\r\n");
        case "/error":
          return socket.end("HTTP/1.1 500 Oops\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        case "/charset": {
          socket.write(head("").replace("text/html", "text/html; charset=nonsense-\xff"));
          return socket.end(Buffer.from([0x3c, 0x70, 0x3e, 0xff, 0xfe, 0x00, 0xd8, 0xc3, 0x28]));
        }
        default:
          return socket.end(head("") + page("Good"));
      }
    });
    const options = { userAgent: "t", timeoutMs: 60_000, maxBytes: 1_000_000, maxRedirects: 5, allowPrivate: true };
    await using fetcher = createSafeFetcher(options, { clock: systemClock });
    // Only what never ends runs out of time, however slow the machine is.
    const hurried: SafeFetcher = {
      fetch: (request) => fetcher.fetch(request.url.endsWith("/drip") ? { ...request, timeoutMs: 300 } : request),
      [Symbol.asyncDispose]: async () => {},
    };
    const report = await bench.crawl(site.origin, {}, { fetcher: hurried });
    assert.equal(report.incomplete, false);
    assert.deepEqual(bench.paths, ["/", "/charset", "/good"]);
    assert.deepEqual(report.reasons, {
      encoding: 1,
      headers_too_large: 1,
      protocol: 1,
      reset: 1,
      status_500: 1,
      timeout: 1,
      too_large: 2,
      type: 1,
    });
  });

  it("a host that answers nothing is left alone after ten tries", async () => {
    using bench = new Workbench();
    const links = Array.from({ length: 50 }, (_, n) => `/p${n}`);
    await using site = await hostileSite({ "/": html(page("Start", links)), "/p": (response) => response.destroy() });
    const report = await bench.crawl(site.origin);
    assert.deepEqual([report.incomplete, report.reasons, report.waiting], [true, { reset: 10 }, 40]);
    assert.equal(site.asked.length, 12);
  });

  it("link maze: days of a calendar, growing paths and queries are bounded", async () => {
    using bench = new Workbench();
    await using site = await hostileSite({
      "/": (response, path) => {
        const n = Number(/\d+/.exec(path)?.[0] ?? 0);
        const relative = [
          "x/",
          "../x/",
          `?day=${n + 1}`,
          `/day/${n + 1}`,
          `/q?day=${n + 1}`,
          `/q?day=${n * 2 + 3}&s=${n}`,
        ];
        response.end(page(`Day ${path}`, relative));
      },
    });
    const report = await bench.crawl(site.origin, { maxPages: 300, maxDepth: 100 });
    assert.deepEqual([report.indexed, report.incomplete], [300, true]);
    assert.equal(site.asked.length, 301);
    assert.ok(bench.paths.every((path) => (path.match(/x\//g) ?? []).length <= 3));
  });

  it("very many queries of one path: two hundred are read", async () => {
    using bench = new Workbench();
    const links = Array.from({ length: 1_000 }, (_, n) => `/list?page=${n}`);
    await using site = await hostileSite({
      "/": html(page("Start", links)),
      "/list": (response, path) => response.end(page(path)),
    });
    const report = await bench.crawl(site.origin, { maxPages: 5_000 });
    assert.deepEqual([report.indexed, report.incomplete], [201, true]);
  });

  it("a page of a million links is bounded", async () => {
    using bench = new Workbench();
    const links = Array.from({ length: 50_000 }, (_, n) => `/p${n}`);
    await using site = await hostileSite({
      "/": html(page("Start", links)),
      "/p": (response, path) => response.end(page(path)),
    });
    const report = await bench.crawl(site.origin, { maxPages: 20 }, {}, { maxBytes: 10_000_000 });
    assert.deepEqual([report.indexed, report.incomplete, report.reasons], [20, true, {}]);
    assert.ok((report.waiting ?? 0) <= 20 * 4 + 1_000);
  });
});

describe("hostile robots.txt", () => {
  it("of 50 MB: its first 500 KiB count", async () => {
    using bench = new Workbench();
    await using site = await hostileSite({
      "/": html(page("Start", ["/early", "/late"])),
      "/early": html(page("Early")),
      "/late": html(page("Late")),
      "/robots.txt": (response) => {
        response.write("User-agent: *\nDisallow: /early\n");
        flood(response, () => "# nothing but noise, line after line after line\n", 1_000_000);
      },
    });
    const report = await bench.crawl(site.origin);
    assert.deepEqual([bench.paths, report.reasons], [["/", "/late"], { robots_disallowed: 1 }]);
  });

  const TIMEOUT_MS = 60_000;
  const UNREACHABLE: Record<string, Answer> = {
    // Time passes by these two alone, and not before the request has arrived.
    "that hangs": () => mock.timers.tick(TIMEOUT_MS),
    "that drips": (response) => {
      let drips = 0;
      const timer = setInterval(() => {
        response.write("# ");
        if (++drips <= 6) mock.timers.tick(TIMEOUT_MS / 6);
      }, 20);
      response.on("close", () => clearInterval(timer));
    },
    "answered 500": (response) => response.writeHead(500).end(),
    "answered 429": (response) => response.writeHead(429).end(),
    "that breaks off": (response) => response.destroy(),
    "that leads to a private address": (response) => response.writeHead(302, { location: "http://10.0.0.1/" }).end(),
  };
  for (const [name, robots] of Object.entries(UNREACHABLE)) {
    it(`${name}: nothing of the host is asked`, async (context) => {
      mock.timers.enable({ apis: ["setTimeout"] });
      context.after(() => mock.timers.reset());
      using bench = new Workbench();
      await using site = await hostileSite({ "/": html(page("Start")), "/robots.txt": robots });
      const report = await bench.crawl(site.origin, {}, {}, { timeoutMs: TIMEOUT_MS, allowPrivate: [site.origin] });
      assert.deepEqual([report.indexed, report.reasons], [0, { robots_unreachable: 1 }]);
      assert.deepEqual(site.asked, ["/robots.txt"]);
    });
  }

  const MISSING: Record<string, Answer> = {
    "that is missing": (response) => response.writeHead(404).end(),
    "that is forbidden": (response) => response.writeHead(403).end(),
    "with endless redirects": (response, path) => response.writeHead(302, { location: `${path}x` }).end(),
  };
  for (const [name, robots] of Object.entries(MISSING)) {
    it(`${name}: all may be asked`, async () => {
      using bench = new Workbench();
      await using site = await hostileSite({ "/": html(page("Start")), "/robots.txt": robots });
      assert.equal((await bench.crawl(site.origin)).indexed, 1);
    });
  }
});

describe("hostile lists", () => {
  it("a sitemap that lists itself, and ever new sitemaps", async () => {
    using bench = new Workbench();
    let n = 0;
    await using site = await hostileSite({
      "/self.xml": html(
        "<sitemapindex><sitemap><loc>/self.xml</loc></sitemap><sitemap><loc>/more-0.xml</loc></sitemap></sitemapindex>",
      ),
      "/more": (response) => {
        n++;
        response.end(`<sitemapindex><sitemap><loc>/more-${n}.xml</loc></sitemap></sitemapindex>`);
      },
    });
    const report = await bench.crawl(`${site.origin}/self.xml`, { kind: "sitemap" });
    assert.deepEqual([report.seen, report.incomplete], [0, true]);
    assert.equal(site.asked.length, 1_001);
  });

  it("a sitemap of a million pages, plain: read as far as there is room", async () => {
    using bench = new Workbench();
    let closed = false;
    await using site = await hostileSite({
      "/map.xml": (response) => {
        response.on("close", () => {
          closed = !response.writableFinished;
        });
        response.write("<urlset>");
        flood(response, (n) => `<url><loc>/page-${n}</loc></url>\n`, 1_000_000);
      },
      "/page": (response, path) => response.end(page(path)),
    });
    const report = await bench.crawl(`${site.origin}/map.xml`, { kind: "sitemap", maxPages: 20 });
    assert.deepEqual([report.indexed, report.incomplete, closed], [20, true, true]);
  });

  it("a sitemap of three hundred thousand pages, packed", async () => {
    using bench = new Workbench();
    const lines = Array.from({ length: 300_000 }, (_, n) => `<url><loc>/page-${n}</loc></url>`);
    const body = gzipSync(`<urlset>${lines.join("")}</urlset>`, { level: 1 });
    await using site = await hostileSite({
      "/map.xml.gz": (response) => response.writeHead(200, { "content-type": "application/x-gzip" }).end(body),
      "/page": (response, path) => response.end(page(path)),
    });
    const report = await bench.crawl(`${site.origin}/map.xml.gz`, { kind: "sitemap", maxPages: 20 });
    assert.deepEqual([report.indexed, report.incomplete], [20, true]);
  });

  const BOMB_BYTES = 1.5 * MAX_LISTING_BYTES;
  const LISTS: Record<string, () => string | Buffer> = {
    "a zip bomb for a sitemap": () => gzipSync(Buffer.alloc(BOMB_BYTES, "<")),
    "a bomb in a bomb": () => gzipSync(gzipSync(Buffer.alloc(BOMB_BYTES))),
    "a sitemap of very deep elements": () => "<a>".repeat(1_000_000),
    "one very long address": () => `<urlset><url><loc>http://${"a".repeat(5_000_000)}</loc></url></urlset>`,
    "one element of very many attributes": () =>
      `<urlset ${Array.from({ length: 300_000 }, (_, n) => `a${n}="x"`).join(" ")}>`,
    "very deep JSON": () => `{"items":${"[".repeat(1_000_000)}`,
    "broken UTF-16": () => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.alloc(99_999, 0xd8)]),
    nothing: () => "",
  };
  for (const [name, list] of Object.entries(LISTS)) {
    it(`${name}: no pages, and an end`, async () => {
      using bench = new Workbench();
      const body = list();
      await using site = await hostileSite({ "/list": (response) => response.end(body) });
      const report = await bench.crawl(`${site.origin}/list`, { kind: "sitemap" });
      assert.deepEqual([report.indexed, report.reasons], [0, { listing_empty: 1 }]);
    });
  }

  it("a feed with an entity bomb: its entities are not expanded", async () => {
    using bench = new Workbench();
    const entities = Array.from({ length: 30 }, (_, n) => `<!ENTITY e${n + 1} "${`&e${n};`.repeat(10)}">`).join("");
    const feed = `<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY e0 "boom">${entities}<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item><title>&e30;</title><link>/a&amp;b</link></item><item><link>/&e30;&x;</link></item></channel></rss>`;
    await using site = await hostileSite({ "/feed": html(feed), "/a": html(page("A")), "/&": html(page("Literal")) });
    await bench.crawl(`${site.origin}/feed`, { kind: "feed" });
    assert.deepEqual(bench.paths, ["/&e30;&x;", "/a&b"]);
  });
});

describe("the real extractor", () => {
  it("reads what the crawler fetched, its links and its prohibitions", async () => {
    using bench = new Workbench();
    const body =
      "<p>This paragraph is long enough to be taken for the main text of a page, and says something.</p>".repeat(5);
    const whole = (title: string, rest = ""): string =>
      `<!doctype html><html lang="en"><head><title>${title}</title>${rest}</head><body><main><h1>${title}</h1>${body}<p>${title} <a href="/b#x">b</a> <a href="/c">c</a></p></main></body></html>`;
    await using site = await hostileSite({
      "/": html(whole("Start")),
      "/b": html(whole("Second")),
      "/c": html(whole("Third", '<meta name="robots" content="noindex">')),
    });
    await using extractor = new WorkerExtractor({ maxPageBytes: 5_242_880 }, { log: silentLog });
    const report = await bench.crawl(site.origin, {}, { extractor });
    assert.deepEqual([bench.paths, report.reasons], [["/", "/b"], { noindex: 1 }]);
    assert.match(bench.index.documents.get(`${site.origin}/b`)?.title ?? "", /Second/);
  });
});
