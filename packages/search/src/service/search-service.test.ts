import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { suite, test } from "node:test";
import { type Log, type Metrics, noMetrics, silentLog } from "@turnpike/base";
import { reboundStatus } from "@turnpike/testkit";
import { deafEngine, findingEngine, toldEngine } from "../../test/service/engines.ts";
import { engineFailed } from "../engines/failure.ts";
import type { SearchAnswer, SearchEngine, SourceDocument } from "../types.ts";
import type { FindDocument } from "./documents.ts";
import { type SearchService, type SearchServiceOptions, startSearchService } from "./search-service.ts";

interface Bend {
  readonly options?: Partial<SearchServiceOptions>;
  readonly engineTimeoutMs?: number;
  readonly documents?: FindDocument;
  readonly metrics?: Metrics;
  readonly log?: Log;
}

const start = (engines: readonly SearchEngine[], bend: Bend = {}): Promise<SearchService> =>
  startSearchService(
    {
      host: "127.0.0.1",
      port: 0,
      timeoutMs: 60_000,
      maxInFlight: 64,
      cacheSeconds: 60,
      cacheBytes: 1_000_000,
      version: "1.2.3",
      ...bend.options,
    },
    {
      engines: engines.map((engine) => ({ engine, weight: 1, timeoutMs: bend.engineTimeoutMs ?? 60_000 })),
      log: bend.log ?? silentLog,
      metrics: bend.metrics ?? noMetrics,
      documents: bend.documents,
    },
  );

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any;
}

async function post(service: SearchService, body: unknown, init: RequestInit = {}): Promise<Answer> {
  const sent = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${service.url}/v1/search`, {
    method: "POST",
    body: sent as string,
    headers,
    ...init,
  });
  const answered = await response.text();
  return { status: response.status, headers: response.headers, text: answered, json: JSON.parse(answered) };
}

const LOCAL = "https://a.example/one";

suite("POST /v1/search", () => {
  test("merged results, the query as it was received", async () => {
    const engine = findingEngine("local", LOCAL, "https://a.example/two");
    await using service = await start([engine, findingEngine("other", "http://www.a.example/one#x")]);
    const answer = await post(service, { query: "  Ünïcode 🌍 \\ ", max_results: 1 });
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
    const { took_ms, engines, ...rest } = answer.json as SearchAnswer;
    assert.ok(Number.isInteger(took_ms));
    assert.deepEqual(
      engines.map(({ id, status, results }) => ({ id, status, results })),
      [
        { id: "local", status: "ok", results: 1 },
        { id: "other", status: "ok", results: 1 },
      ],
    );
    assert.deepEqual(rest, {
      query: "  Ünïcode 🌍 \\ ",
      results: [
        {
          title: `page ${LOCAL}`,
          url: LOCAL,
          snippet: "a passage",
          score: 1,
          source: "local,other",
          date: "2024-01-02",
        },
      ],
      partial: false,
    });
    assert.deepEqual(engine.asked, [{ query: "Ünïcode 🌍 \\", maxResults: 1 }]);
  });

  test("no hits is 200 with an empty list; max_results is capped at 50, 10 by default", async () => {
    const engine = toldEngine("local", async () => []);
    await using service = await start([engine]);
    const answer = await post(service, { query: "nothing", max_results: 1e9 });
    assert.deepEqual([answer.status, answer.json.results, answer.json.partial], [200, [], false]);
    await post(service, { query: "nothing" });
    assert.deepEqual(
      engine.asked.map(({ maxResults }) => maxResults),
      [50, 10],
    );
  });

  test("one engine fails, one is late: what came is answered, as partial", async () => {
    const failing = toldEngine("failing", () => Promise.reject(engineFailed("unauthorized", 401)));
    const throwing = toldEngine("throwing", () => {
      throw new Error("at once");
    });
    const wrong = toldEngine("wrong", async () => ({ results: [] }) as never);
    const engines = [failing, findingEngine("good", LOCAL), deafEngine("deaf"), throwing, wrong];
    await using service = await start(engines, { engineTimeoutMs: 100 });
    const { status, json } = await post(service, { query: "x" });
    assert.equal(status, 200);
    assert.equal(json.partial, true);
    assert.equal(json.results.length, 1);
    assert.deepEqual(
      json.engines.map(({ id, status: how }: { id: string; status: string }) => `${id} ${how}`),
      ["failing failed", "good ok", "deaf timed_out", "throwing failed", "wrong failed"],
    );
  });

  test("the whole search ends in its time, though an engine may take longer", async () => {
    await using service = await start([deafEngine("deaf"), findingEngine("good", LOCAL)], {
      engineTimeoutMs: 60_000,
      options: { timeoutMs: 100 },
    });
    const { json } = await post(service, { query: "x" });
    assert.equal(json.partial, true);
    assert.equal(json.results.length, 1);
  });

  test("all engines failed: 503 {detail} with Retry-After", async () => {
    const failing = toldEngine("one", () => Promise.reject(engineFailed("rate_limited", 429)));
    await using service = await start([failing, deafEngine("two")], { engineTimeoutMs: 50 });
    const { status, json, headers } = await post(service, { query: "x" });
    assert.equal(status, 503);
    assert.deepEqual(json, { detail: "No search engine answered." });
    assert.match(headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    const health = await (await fetch(`${service.url}/v1/health`)).json();
    assert.equal((health as { status: string }).status, "degraded");
  });

  test("over maxInFlight: 503 with Retry-After, and the others are answered", async () => {
    const { promise: open, resolve: release } = Promise.withResolvers<void>();
    const { promise: came, resolve: arrived } = Promise.withResolvers<void>();
    const engine = toldEngine("slow", async () => {
      arrived();
      await open;
      return [];
    });
    await using service = await start([engine], { options: { maxInFlight: 1 } });
    const first = post(service, { query: "a" });
    await came;
    const second = await post(service, { query: "b" });
    assert.equal(second.status, 503);
    assert.ok(second.headers.get("retry-after"));
    release();
    assert.equal((await first).status, 200);
  });

  test("complete answers are given again, partial ones are not; equal questions at once are asked once", async () => {
    const good = findingEngine("good", LOCAL);
    let fails = true;
    const flaky = toldEngine("flaky", async () => {
      if (fails) throw engineFailed("connection");
      return [];
    });
    await using service = await start([good, flaky]);
    await post(service, { query: "x" });
    fails = false;
    const [a, b] = await Promise.all([post(service, { query: "x" }), post(service, { query: " x " })]);
    assert.equal(good.asked.length, 2);
    assert.deepEqual([a.json.query, b.json.query], ["x", " x "]);
    assert.deepEqual(a.json.results, b.json.results);
    await post(service, { query: "x\n" });
    assert.equal(good.asked.length, 2, "kept");
    await post(service, { query: "x", max_results: 3 });
    assert.equal(good.asked.length, 3, "another count of results is another question");
  });

  test("what is wrong is 422 with {detail: [{loc, msg, type}]}, as FastAPI says it", async () => {
    await using service = await start([findingEngine("local", LOCAL)]);
    const cases: readonly (readonly [unknown, string, readonly (string | number)[]])[] = [
      [{}, "missing", ["body", "query"]],
      [{ query: 5 }, "string_type", ["body", "query"]],
      [{ query: " " }, "string_too_short", ["body", "query"]],
      [{ query: "x", max_results: 0 }, "greater_than_equal", ["body", "max_results"]],
      [{ query: "x", max_results: 1.5 }, "int_from_float", ["body", "max_results"]],
      [{ query: "x", max_results: "5" }, "int_type", ["body", "max_results"]],
      ["", "missing", ["body"]],
      ["{", "json_invalid", ["body"]],
      ["[]", "model_attributes_type", ["body"]],
      ["7", "model_attributes_type", ["body"]],
      ['{"query":"a","query":"b"}', "value_error", ["body"]],
      [new Uint8Array([0x7b, 0xff]), "json_invalid", ["body"]],
    ];
    for (const [body, type, loc] of cases) {
      const { status, json } = await post(service, body);
      assert.equal(status, 422, String(body));
      assert.deepEqual(Object.keys(json), ["detail"]);
      assert.deepEqual([json.detail[0].type, json.detail[0].loc], [type, loc], JSON.stringify(body));
      assert.deepEqual(Object.keys(json.detail[0]).sort(), ["loc", "msg", "type"]);
    }
  });

  test("16 KiB pass, one byte more is 413, also when nobody says how long it is", async () => {
    await using service = await start([findingEngine("local", LOCAL)]);
    const bodyOf = (bytes: number): string => `{"query":"${"q".repeat(bytes - 12)}"}`;
    assert.equal((await post(service, bodyOf(16_384))).status, 200);
    const over = await post(service, bodyOf(16_385));
    assert.deepEqual([over.status, over.json], [413, { detail: "Content Too Large" }]);
    const { port } = service;
    const sent = request({ port, method: "POST", path: "/v1/search", headers: { "transfer-encoding": "chunked" } });
    sent.on("error", () => {});
    sent.end(bodyOf(40_000));
    const [response] = await once(sent, "response");
    assert.equal(response.statusCode, 413);
    response.resume();
  });

  test("a page of another origin cannot have a browser search here", async () => {
    const engine = findingEngine("one", "https://a.example/");
    await using service = await start([engine], { options: { publicUrl: "https://search.example/x/" } });
    const from = async (origin: string, path = "/v1/search"): Promise<number> => {
      const init = path === "/v1/search" ? { method: "POST", body: JSON.stringify({ query: "x" }) } : {};
      const answer = await fetch(service.url + path, { ...init, headers: { origin } });
      await answer.arrayBuffer();
      return answer.status;
    };
    // The second is what a name that was bound to this machine anew would send.
    for (const origin of ["https://evil.example", `http://evil.example:${service.port}`, "null", ""]) {
      assert.equal(await from(origin), 403, origin);
      assert.equal(await from(origin, "/documents/x"), 403, origin);
    }
    assert.equal(await reboundStatus(service.port, "/documents/x"), 403);
    assert.equal(engine.asked.length, 0);
    assert.deepEqual([await from(service.url), await from("https://search.example")], [200, 200]);
  });

  test("a packed body is not unpacked", async () => {
    await using service = await start([findingEngine("local", LOCAL)]);
    const answer = await post(service, new Uint8Array(10), { headers: { "content-encoding": "gzip" } });
    assert.equal(answer.status, 415);
    assert.equal(typeof answer.json.detail, "string");
  });
});

suite("hostile queries", () => {
  const ask = async (query: string): Promise<string> => {
    const engine = findingEngine("local", LOCAL);
    await using service = await start([engine]);
    const { status, json } = await post(service, { query });
    assert.equal(status, 200, query);
    assert.equal(json.query, query);
    assert.equal(engine.asked[0]?.query, query.trim());
    return json.results[0].url as string;
  };

  test("operators of engines and of FTS are words like others", async () => {
    for (const query of [
      'site:x "a b" -c (d OR e) NEAR/3 f*',
      "title:x AND NOT y",
      "* ^ ~ + - ( ) { } [ ] : !",
      "NEAR(",
    ]) {
      assert.equal(await ask(query), LOCAL);
    }
  });

  test("SQL is a text like others", async () => {
    for (const query of ["'; DROP TABLE documents; --", '" OR 1=1 --', "x' UNION SELECT * FROM sqlite_master--"]) {
      assert.equal(await ask(query), LOCAL);
    }
  });

  test("16 KiB of quotes, of brackets, of one word", async () => {
    const room = 16_384 - Buffer.byteLength('{"query":""}');
    assert.equal(await ask('"'.repeat(room / 2)), LOCAL);
    assert.equal(await ask("(".repeat(room)), LOCAL);
    assert.equal(await ask("a".repeat(room)), LOCAL);
    assert.equal(await ask("a ".repeat(room / 2 - 1)), LOCAL);
  });

  test("right-to-left marks, joiners, combining marks and prototypes come back as they were", async () => {
    for (const query of [
      "\u202egnp.exe",
      "a\u200fb\u200d\ufeff",
      `z${"\u0301".repeat(2_000)}`,
      "__proto__",
      "constructor",
    ]) {
      assert.equal(await ask(query), LOCAL);
    }
  });

  test("NUL and lone surrogates are 422", async () => {
    const engine = findingEngine("local", LOCAL);
    await using service = await start([engine]);
    for (const body of [
      '{"query":"a\\u0000b"}',
      '{"query":"\\ud800"}',
      '{"query":"a\\udc00"}',
      '{"query":"a\u0000b"}',
    ]) {
      assert.equal((await post(service, body)).status, 422, JSON.stringify(body));
    }
    assert.deepEqual(engine.asked, []);
  });

  test("deeply nested JSON is 422", async () => {
    await using service = await start([findingEngine("local", LOCAL)]);
    const { status } = await post(service, `{"query":"x","more":${"[".repeat(8_000)}${"]".repeat(8_000)}}`);
    assert.equal(status, 422);
  });

  test("what was searched is in no log and no metric", async () => {
    const said: unknown[] = [];
    const say = (...all: unknown[]): void => void said.push(all);
    const log: Log = { debug: say, info: say, warn: say, error: say, child: () => log };
    const metrics: Metrics = { count: say, set: say, observe: say };
    const failing = toldEngine("bad", ({ query }) => Promise.reject(new Error(`${query} sk-secret`)));
    await using service = await start([failing, findingEngine("local", LOCAL)], { log, metrics });
    assert.equal((await post(service, { query: "medical-secret" })).status, 200);
    const all = JSON.stringify(said, (_, value) => (value instanceof Error ? String(value) : value));
    assert.ok(all.includes('"engine":"bad"') && !all.includes("secret"), all);
  });
});

suite("hostile engines", () => {
  test("results with other schemes, controls and markup marks are made harmless", async () => {
    const engine = toldEngine("evil", async () => [
      { title: "x", url: "javascript:alert(1)", snippet: "", date: undefined },
      { title: "\u202eevil\u0000\u001b[31m", url: "https://a.example/", snippet: "z".repeat(1e6), date: "yesterday" },
    ]);
    await using service = await start([engine]);
    const { json } = await post(service, { query: "x" });
    assert.equal(json.results.length, 1);
    assert.equal(json.results[0].title, "evil [31m");
    assert.equal(json.results[0].snippet.length, 1_000);
    assert.equal(json.results[0].date, null);
  });

  test("more hits than were asked for are not taken", async () => {
    const hits = Array.from({ length: 10_000 }, (_, at) => `https://a.example/${at}`);
    await using service = await start([findingEngine("many", ...hits)]);
    const { json } = await post(service, { query: "x", max_results: 5 });
    assert.equal(json.results.length, 5);
  });
});

suite("the other addresses", () => {
  test("version, health, capabilities and healthz are small JSON objects", async () => {
    await using service = await start([findingEngine("local", LOCAL)]);
    const get = async (path: string): Promise<Readonly<Record<string, unknown>>> => {
      const response = await fetch(`${service.url}${path}`);
      assert.equal(response.status, 200, path);
      assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
      return (await response.json()) as Readonly<Record<string, unknown>>;
    };
    assert.equal((await get("/v1/version")).version, "1.2.3");
    assert.deepEqual(await get("/healthz"), { status: "ok" });
    assert.deepEqual((await get("/v1/health")).engines, [{ id: "local", status: "not_asked" }]);
    assert.equal((await get("/v1/capabilities")).max_results, 50);
  });

  test("404 and 405 as FastAPI says them", async () => {
    await using service = await start([]);
    for (const [verb, path, status, detail] of [
      ["GET", "/", 404, "Not Found"],
      ["GET", "/v1/nosuch", 404, "Not Found"],
      ["POST", "/v1/nosuch", 404, "Not Found"],
      ["GET", "/v1/search", 405, "Method Not Allowed"],
      ["DELETE", "/v1/search?x", 405, "Method Not Allowed"],
      ["POST", "/healthz", 405, "Method Not Allowed"],
    ] as const) {
      const response = await fetch(`${service.url}${path}`, { method: verb });
      assert.equal(response.status, status, `${verb} ${path}`);
      assert.deepEqual(await response.json(), { detail });
      if (status === 405) assert.ok(response.headers.get("allow"));
    }
  });

  test("what is no HTTP is 400 {detail}, and the service goes on", async () => {
    await using service = await start([]);
    const socket = connect(service.port, "127.0.0.1");
    socket.end("GARBAGE\r\n\r\n");
    const answer = await text(socket);
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.match(answer, /\{"detail":"Bad Request"\}$/);
    assert.equal((await fetch(`${service.url}/%zz`)).status >= 400, true);
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
  });
});

suite("GET /documents/*", () => {
  const document = (url: string, body: string): SourceDocument => ({
    url,
    title: "t",
    text: body,
    language: "en",
    date: undefined,
    collection: "docs",
  });

  test("the indexed text, as plain text that a browser takes for nothing else", async () => {
    const asked: string[] = [];
    await using service = await start([], {
      options: { publicUrl: "https://search.example/" },
      documents: async (url) => {
        asked.push(url);
        return url.endsWith("/a%20b.md") ? document(url, "<script>alert(1)</script>\nÜ") : undefined;
      },
    });
    const found = await fetch(`${service.url}/documents/docs/a%20b.md?x=1`);
    assert.equal(found.status, 200);
    assert.equal(found.headers.get("content-type"), "text/plain; charset=utf-8");
    assert.equal(found.headers.get("x-content-type-options"), "nosniff");
    assert.match(found.headers.get("content-security-policy") ?? "", /sandbox/);
    assert.equal(await found.text(), "<script>alert(1)</script>\nÜ");
    assert.deepEqual(asked, ["https://search.example/documents/docs/a%20b.md"]);
    const none = await fetch(`${service.url}/documents/none`);
    assert.deepEqual([none.status, await none.json()], [404, { detail: "Not Found" }]);
    assert.equal((await fetch(`${service.url}/documents/x`, { method: "POST" })).status, 405);
  });

  test("a path cannot leave the folder, and a broken index is 503", async () => {
    const asked: string[] = [];
    await using service = await start([], {
      documents: (url) => {
        asked.push(url);
        return Promise.reject(new Error("locked"));
      },
    });
    for (const path of ["/documents/../v1/x", "/documents/%2e%2e/x", "/documents//../../etc/passwd"]) {
      const sent = request({ port: service.port, path });
      sent.end();
      const [response] = await once(sent, "response");
      response.resume();
      assert.equal(response.statusCode, 404, path);
    }
    assert.deepEqual(asked, []);
    const broken = await fetch(`${service.url}/documents/x`);
    assert.equal(broken.status, 503);
    assert.deepEqual(asked, [`${service.url}/documents/x`]);
  });
});

suite("the end", () => {
  test("a search under way is answered before the service has ended", async () => {
    const { promise: open, resolve: release } = Promise.withResolvers<void>();
    const { promise: came, resolve: arrived } = Promise.withResolvers<void>();
    const engine = toldEngine("slow", async () => {
      arrived();
      await open;
      return [];
    });
    const service = await start([engine]);
    const answer = post(service, { query: "x" });
    await came;
    const ended = service[Symbol.asyncDispose]();
    release();
    assert.equal((await answer).status, 200);
    await ended;
    await assert.rejects(fetch(`${service.url}/healthz`));
  });

  test("a port that is taken is said", async () => {
    await using service = await start([]);
    await assert.rejects(start([], { options: { port: service.port } }), { code: "EADDRINUSE" });
  });
});
