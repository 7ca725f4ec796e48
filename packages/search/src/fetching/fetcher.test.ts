import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type ResolveHost, systemClock } from "@turnpike/base";
import { serve, serveRaw } from "../../test/fetching/server.ts";
import { createSafeFetcher } from "./fetcher.ts";
import type { FetchRequest, FetchResult, SafeFetcherOptions } from "./types.ts";

const OPTIONS = { userAgent: "test/1", timeoutMs: 60_000, maxBytes: 100_000, maxRedirects: 5, allowPrivate: true };

async function fetchOnce(
  request: FetchRequest,
  options: Partial<SafeFetcherOptions> = {},
  resolve?: ResolveHost,
): Promise<FetchResult> {
  const modules = { clock: systemClock, ...(resolve === undefined ? {} : { resolve }) };
  await using fetcher = createSafeFetcher({ ...OPTIONS, ...options }, modules);
  return await fetcher.fetch(request);
}

const reasonOf = (result: FetchResult): string => (result.ok ? `ok ${result.status}` : result.reason);
const textOf = (result: FetchResult): string => (result.ok ? new TextDecoder().decode(result.body) : result.reason);

describe("safe fetching", () => {
  it("gives the body and the facts of a page", async () => {
    await using server = await serve((request, response) => {
      assert.equal(request.headers["user-agent"], "test/1");
      assert.equal(request.headers.cookie, undefined);
      response.setHeader("content-type", "text/html; charset=utf-8");
      response.setHeader("set-cookie", "a=b");
      response.setHeader("etag", '"1"');
      response.setHeader("x-robots-tag", ["noindex", "nofollow"]);
      response.end("hello");
    });
    const result = await fetchOnce({ url: `${server.origin}/a#b`, types: ["text/html"] });
    assert.ok(result.ok);
    assert.equal(textOf(result), "hello");
    assert.deepEqual([result.status, result.etag, result.contentType], [200, '"1"', "text/html; charset=utf-8"]);
    assert.deepEqual(result.robotsTags.join(",").replaceAll(" ", ""), "noindex,nofollow");
    assert.equal(result.url, `${server.origin}/a`);
  });

  it("asks on condition, and understands 304", async () => {
    await using server = await serve((request, response) => {
      const isSame = request.headers["if-none-match"] === '"1"' && request.headers["if-modified-since"] === "yesterday";
      response.writeHead(isSame ? 304 : 200).end();
    });
    const result = await fetchOnce({ url: server.origin, etag: '"1"', modified: "yesterday" });
    assert.equal(reasonOf(result), "ok 304");
    // A stranger's ETag cannot add headers.
    assert.equal(
      reasonOf(await fetchOnce({ url: server.origin, etag: '"1"\r\nx: y', modified: "yesterday" })),
      "ok 200",
    );
  });

  it("undoes gzip, deflate, raw deflate, br and zstd, one over the other too", async () => {
    const text = "words ".repeat(1_000);
    const bodies: Record<string, [string, Buffer]> = {
      "/gzip": ["gzip", gzipSync(text)],
      "/deflate": ["deflate", deflateSync(text)],
      "/raw": ["deflate", deflateRawSync(text)],
      "/br": ["br", brotliCompressSync(text)],
      "/zstd": ["zstd", zstdCompressSync(text)],
      "/two": ["deflate, gzip", gzipSync(deflateSync(text))],
    };
    await using server = await serve((_, response, path) => {
      const [coding, body] = bodies[path] ?? ["", Buffer.alloc(0)];
      response.setHeader("content-encoding", coding);
      response.end(body);
    });
    for (const path of Object.keys(bodies)) {
      assert.equal(textOf(await fetchOnce({ url: server.origin + path })), text, path);
    }
  });

  it("refuses broken, cut and unknown content codings", async () => {
    const answers: Record<string, [string, Buffer]> = {
      "/plain": ["gzip", Buffer.from("not packed at all")],
      "/cut": ["gzip", gzipSync(Buffer.alloc(50_000, "abcdefgh")).subarray(0, 60)],
      "/br": ["br", Buffer.alloc(100, 255)],
      "/zstd": ["zstd", Buffer.from("not packed at all")],
      "/unknown": ["lzma", Buffer.from("x")],
      "/three": ["gzip, gzip, gzip", Buffer.from("x")],
    };
    await using server = await serve((_, response, path) => {
      const [coding, body] = answers[path] ?? ["", Buffer.alloc(0)];
      response.setHeader("content-encoding", coding);
      response.end(body);
    });
    for (const path of Object.keys(answers)) {
      assert.equal(reasonOf(await fetchOnce({ url: server.origin + path })), "encoding", path);
    }
  });

  it("zip bomb: ends at the bound, in each coding and doubly packed", async () => {
    const zeros = Buffer.alloc(50_000_000);
    const bombs: Record<string, [string, Buffer]> = {
      "/gzip": ["gzip", gzipSync(zeros)],
      "/br": ["br", brotliCompressSync(zeros.subarray(0, 20_000_000), { params: { 1: 4 } })],
      "/zstd": ["zstd", zstdCompressSync(zeros)],
      "/two": ["gzip, gzip", gzipSync(gzipSync(zeros))],
    };
    await using server = await serve((_, response, path) => {
      const [coding, body] = bombs[path] ?? ["", Buffer.alloc(0)];
      response.setHeader("content-encoding", coding);
      response.end(body);
    });
    for (const [path, [, body]] of Object.entries(bombs)) {
      assert.ok(body.length < OPTIONS.maxBytes, `${path} ${body.length}`);
      let taken = 0;
      const whole = await fetchOnce({ url: server.origin + path });
      assert.equal(reasonOf(whole), "too_large", path);
      await fetchOnce({
        url: server.origin + path,
        sink: (piece) => {
          taken += piece.length;
          return false;
        },
      });
      assert.ok(taken <= OPTIONS.maxBytes, `${path} ${taken}`);
    }
  });

  it("2 GB Content-Length: given up before the body", async () => {
    await using server = await serveRaw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2147483648\r\n\r\n");
    });
    assert.equal(reasonOf(await fetchOnce({ url: server.origin })), "too_large");
  });

  it("2 GB without Content-Length: ends at the bound", async () => {
    await using server = await serve((_, response) => {
      const piece = Buffer.alloc(65_536, "x");
      const more = (): void => {
        while (response.write(piece)) {}
      };
      response.on("drain", more);
      more();
    });
    assert.equal(reasonOf(await fetchOnce({ url: server.origin })), "too_large");
  });

  it("a wrong type: given up before its body", async () => {
    await using server = await serveRaw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\ncontent-length: 10\r\n\r\n");
    });
    assert.equal(reasonOf(await fetchOnce({ url: server.origin, types: ["text/html"] })), "type");
  });

  it("endless drip body: the time in all is bounded", async () => {
    await using server = await serve((_, response) => {
      response.writeHead(200, { "content-type": "text/html" });
      const timer = setInterval(() => response.write("x"), 10);
      response.on("close", () => clearInterval(timer));
    });
    assert.equal(reasonOf(await fetchOnce({ url: server.origin }, { timeoutMs: 300 })), "timeout");
  });

  it("endless drip of a packed body: the time in all is bounded", async () => {
    await using server = await serve((_, response) => {
      response.writeHead(200, { "content-encoding": "gzip" });
      response.write(gzipSync("x").subarray(0, 10));
    });
    assert.equal(reasonOf(await fetchOnce({ url: server.origin }, { timeoutMs: 300 })), "timeout");
  });

  it("endless drip of a head, and silence: the time in all is bounded", async () => {
    await using server = await serveRaw((socket, request) => {
      if (request.startsWith("GET /silent")) return;
      socket.write("HTTP/1.1 200 OK\r\n");
      const timer = setInterval(() => socket.write("a: b\r\n"), 10);
      socket.on("close", () => clearInterval(timer));
    });
    for (const path of ["/silent", "/drip"]) {
      assert.equal(reasonOf(await fetchOnce({ url: server.origin + path }, { timeoutMs: 300 })), "timeout", path);
    }
  });

  it("header bomb: one huge header, and very many", async () => {
    await using server = await serveRaw((socket, request) => {
      const many = request.startsWith("GET /many");
      const bomb = many ? "a: b\r\n".repeat(100_000) : `a: ${"b".repeat(1_000_000)}\r\n`;
      socket.end(`HTTP/1.1 200 OK\r\n${bomb}\r\n`);
    });
    for (const path of ["/one", "/many"]) {
      assert.equal(reasonOf(await fetchOnce({ url: server.origin + path })), "headers_too_large", path);
    }
  });

  it("connection reset halfway, and a body that is shorter than announced", async () => {
    await using server = await serveRaw((socket, request) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", () => {
        if (request.startsWith("GET /reset")) socket.resetAndDestroy();
        else socket.end();
      });
    });
    for (const path of ["/reset", "/short"]) {
      assert.equal(reasonOf(await fetchOnce({ url: server.origin + path })), "reset", path);
    }
  });

  it("a server that does not speak HTTP", async () => {
    await using server = await serveRaw((socket) => socket.end("220 mail.example.org ESMTP\r\n"));
    assert.equal(reasonOf(await fetchOnce({ url: server.origin })), "protocol");
  });

  it("nobody listens", async () => {
    const server = await serve(() => {});
    await server[Symbol.asyncDispose]();
    assert.equal(reasonOf(await fetchOnce({ url: server.origin })), "connect");
  });

  it("other statuses are failures; Retry-After is read", async () => {
    await using server = await serve((_, response) => {
      response.writeHead(503, { "retry-after": "7" }).end("busy");
    });
    const result = await fetchOnce({ url: server.origin });
    assert.deepEqual(result, {
      ok: false,
      reason: "status",
      url: `${server.origin}/`,
      status: 503,
      retryAfterMs: 7_000,
    });
  });

  it("the caller's signal ends it, also before it begins", async () => {
    await using server = await serve((_, response) => {
      response.write("x");
      stop.abort();
    });
    const stop = new AbortController();
    assert.equal(reasonOf(await fetchOnce({ url: server.origin, signal: stop.signal })), "aborted");
    assert.equal(reasonOf(await fetchOnce({ url: server.origin, signal: AbortSignal.abort() })), "aborted");
    assert.equal(server.asked.length, 1);
  });

  it("a sink that has enough ends the reading without a fault", async () => {
    await using server = await serve((_, response) => {
      response.write("enough");
    });
    const result = await fetchOnce({ url: server.origin, sink: () => true });
    assert.equal(reasonOf(result), "ok 200");
  });
});

describe("redirects", () => {
  it("are followed, and counted", async () => {
    await using server = await serve((_, response, path) => {
      if (path === "/a") response.writeHead(302, { location: "b" }).end("moved");
      else response.end(`at ${path}`);
    });
    const result = await fetchOnce({ url: `${server.origin}/a` });
    assert.ok(result.ok);
    assert.deepEqual([textOf(result), result.url, result.redirects], ["at /b", `${server.origin}/b`, 1]);
    const kept = await fetchOnce({ url: `${server.origin}/a`, maxRedirects: 0 });
    assert.ok(kept.ok);
    assert.deepEqual([kept.status, kept.location], [302, `${server.origin}/b`]);
  });

  it("endless redirects, loops, and redirects to nowhere end", async () => {
    await using server = await serve((_, response, path) => {
      const n = Number(path.slice(1).split("-")[1]);
      const to = path.startsWith("/loop")
        ? `/loop-${1 - n}`
        : path === "/none"
          ? undefined
          : path === "/bad"
            ? "http://["
            : `/r-${n + 1}`;
      response.writeHead(302, to === undefined ? {} : { location: to }).end();
    });
    assert.equal(reasonOf(await fetchOnce({ url: `${server.origin}/r-0` })), "too_many_redirects");
    assert.equal(server.asked.length, 6);
    assert.equal(reasonOf(await fetchOnce({ url: `${server.origin}/loop-0` })), "redirect_loop");
    assert.equal(reasonOf(await fetchOnce({ url: `${server.origin}/none` })), "bad_redirect");
    assert.equal(reasonOf(await fetchOnce({ url: `${server.origin}/bad` })), "bad_redirect");
  });

  const REFUSED: readonly (readonly [string, string])[] = [
    ["http://127.0.0.1:1234/", "private_address"],
    ["http://169.254.169.254/latest/meta-data/", "private_address"],
    ["http://[::1]/", "private_address"],
    ["http://[::ffff:10.0.0.1]/", "private_address"],
    ["http://0x7f.1/", "private_address"],
    ["http://2130706433/", "private_address"],
    ["//10.0.0.1/", "private_address"],
    ["http://internal.example/", "private_address"],
    ["http://user:secret@example.org/", "credentials"],
    ["http://example.org:25/", "port"],
    ["file:///etc/passwd", "scheme"],
    ["ftp://example.org/", "scheme"],
  ];
  for (const [location, reason] of REFUSED) {
    it(`a redirect to ${location} is refused: ${reason}`, async () => {
      await using server = await serve((_, response) => {
        response.writeHead(302, { location }).end();
      });
      const resolve: ResolveHost = async () => [{ address: "192.168.0.1", family: 4 }];
      const result = await fetchOnce({ url: server.origin }, { allowPrivate: [server.origin] }, resolve);
      assert.equal(reasonOf(result), reason);
    });
  }

  it("a redirect to another port of an allowed private host is refused, and nobody is asked there", async () => {
    await using inner = await serve((_, response) => {
      response.end("secret");
    });
    await using server = await serve((_, response) => {
      response.writeHead(302, { location: inner.origin }).end();
    });
    assert.equal(
      reasonOf(await fetchOnce({ url: server.origin }, { allowPrivate: [server.origin] })),
      "private_address",
    );
    assert.deepEqual(inner.asked, []);
  });
});

describe("names", () => {
  const to = (...addresses: readonly string[]): ResolveHost => {
    return async () => addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };

  it("a name that leads to a private address is refused, even beside a public one", async () => {
    await using server = await serve((_, response) => {
      response.end("secret");
    });
    const url = `http://rebound.example:${server.port}/`;
    for (const resolve of [to("127.0.0.1"), to("::ffff:127.0.0.1"), to("1.1.1.1", "127.0.0.1"), to("fd00::1")]) {
      assert.equal(reasonOf(await fetchOnce({ url }, { allowPrivate: false }, resolve)), "private_address");
    }
    assert.deepEqual(server.asked, []);
    assert.equal(textOf(await fetchOnce({ url }, {}, to("127.0.0.1"))), "secret");
  });

  it("rebinding: the address that is checked is the one that is used", async () => {
    await using server = await serve((_, response) => {
      response.end("secret");
    });
    let asked = 0;
    const resolve: ResolveHost = async () => [{ address: asked++ === 0 ? "127.0.0.1" : "1.1.1.1", family: 4 }];
    const url = `http://rebound.example:${server.port}/`;
    assert.equal(reasonOf(await fetchOnce({ url }, { allowPrivate: false }, resolve)), "private_address");
    assert.equal(asked, 1);
    assert.deepEqual(server.asked, []);
  });

  it("literal private hosts are refused before anything is sent", async () => {
    await using server = await serve((_, response) => {
      response.end("secret");
    });
    for (const host of ["127.0.0.1", "0x7f.1", "2130706433", "127.1", "[::ffff:127.0.0.1]", "localhost"]) {
      const url = `http://${host}:${server.port}/`;
      assert.equal(reasonOf(await fetchOnce({ url }, { allowPrivate: false })), "private_address", host);
    }
    assert.deepEqual(server.asked, []);
  });

  it("a name without an address, and a resolver that hangs", async () => {
    const none: ResolveHost = async () => [];
    const hangs: ResolveHost = () => new Promise(() => {});
    const url = "http://nowhere.example/";
    assert.equal(reasonOf(await fetchOnce({ url }, {}, none)), "unresolved");
    assert.equal(reasonOf(await fetchOnce({ url }, { timeoutMs: 200 }, hangs)), "timeout");
  });
});
