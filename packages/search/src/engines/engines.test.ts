import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import type { SearchEngine } from "../types.ts";
import { createEngines, type EngineOptions } from "./create-engines.ts";
import { searxngQuery } from "./searxng.ts";

const KEY = "tvly-not-a-real-key-0123456789";

interface Asked {
  readonly verb: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

interface Stand extends AsyncDisposable {
  readonly url: string;
  readonly asked: Asked[];
}

/** What a server answers: a value as JSON, or what a function writes. */
type Answer = object | string | number | null;

/** A server that answers everything alike: an object as JSON, or as a function writes it. */
async function standIn(answer: Answer, status = 200): Promise<Stand> {
  const asked: Asked[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost");
    const { method: verb = "", headers } = request;
    asked.push({ verb, path: pathname, query: searchParams, headers, text: await text(request) });
    if (typeof answer === "function") (answer as (response: ServerResponse) => void)(response);
    else response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
  };
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Kind = Exclude<EngineOptions["kind"], "local">;

async function withEngine<T>(
  kind: Kind,
  answer: Answer,
  use: (engine: SearchEngine, stand: Stand) => Promise<T>,
  status = 200,
): Promise<T> {
  await using stand = await standIn(answer, status);
  await using engines = createEngines([{ kind, url: stand.url, apiKey: KEY, timeoutMs: 60_000, weight: 1 }]);
  const [only] = engines.list;
  assert.ok(only);
  return await use(only.engine, stand);
}

const ask = (engine: SearchEngine, query = "x402 payments", maxResults = 10) =>
  engine.search({ query, maxResults }, AbortSignal.timeout(60_000));

async function reasonOf(answer: Answer, status = 200, kind: Kind = "tavily"): Promise<unknown> {
  return withEngine(
    kind,
    answer,
    async (engine) => {
      try {
        await ask(engine);
      } catch (error) {
        assert.ok(isAppError(error, "SEARCH_ENGINE_FAILED"), String(error));
        for (const text of [error.message, error.stack ?? "", JSON.stringify(error.detail), String(error.cause)]) {
          assert.ok(!text.includes(KEY), "a key in an error");
        }
        return error.detail.reason;
      }
      return "ok";
    },
    status,
  );
}

/** As docs.searxng.org shows the JSON of its Search API. */
const SEARXNG = {
  query: "x402 payments",
  number_of_results: 0,
  results: [
    {
      url: "https://docs.example.org/x402",
      title: "x402 in short",
      content: "Payments over <b>HTTP</b> 402 with Promise<Response>.",
      publishedDate: "2025-05-06T00:00:00",
      engine: "duckduckgo",
      engines: ["duckduckgo", "brave"],
      positions: [1, 2],
      score: 3,
      category: "general",
    },
    { url: "javascript:alert(1)", title: "bad", content: "bad" },
    { url: "https://www.example.org/two", title: "", content: null, publishedDate: null, engine: "brave" },
  ],
  answers: [],
  corrections: [],
  infoboxes: [],
  suggestions: [],
  unresponsive_engines: [["google", "timeout"]],
};

test("searxng: asks for JSON and reads what its manual documents", async () => {
  await withEngine("searxng", SEARXNG, async (engine, stand) => {
    assert.equal(engine.id, "searxng");
    assert.deepEqual(await ask(engine), [
      {
        title: "x402 in short",
        url: "https://docs.example.org/x402",
        snippet: "Payments over HTTP 402 with Promise<Response>.",
        date: "2025-05-06T00:00:00Z",
      },
      { title: "www.example.org", url: "https://www.example.org/two", snippet: "", date: undefined },
    ]);
    const [asked] = stand.asked;
    assert.equal(asked?.verb, "GET");
    assert.equal(asked?.path, "/search");
    assert.equal(asked?.query.get("q"), "x402 payments");
    assert.equal(asked?.query.get("format"), "json");
  });
});

test("searxng: a client cannot steer it with bangs, redirects, languages and timeouts", async () => {
  const cases = [
    ["!!g secret", "g secret"],
    ["!images :de cats ?", "images de cats"],
    ["<3 love <850 x", "3 love 850 x"],
    ["a:b c! 5<6", "a:b c! 5<6"],
    ["!!", ""],
    [":!?!g x", "g x"],
  ] as const;
  for (const [query, sent] of cases) assert.equal(searxngQuery(query), sent, query);
  await withEngine("searxng", SEARXNG, async (engine, stand) => {
    assert.deepEqual(await ask(engine, "!! "), []);
    assert.equal(stand.asked.length, 0);
  });
});

test("searxng: user and password of its address are Basic authorization", async () => {
  await using stand = await standIn(SEARXNG);
  const url = `${stand.url.replace("http://", "http://me:p%40ss@")}/sub/`;
  await using engines = createEngines([{ kind: "searxng", id: "own", url, timeoutMs: 60_000, weight: 1 }]);
  const engine = engines.list[0]?.engine;
  assert.ok(engine);
  await ask(engine);
  assert.equal(stand.asked[0]?.path, "/sub/search");
  assert.equal(stand.asked[0]?.headers.authorization, `Basic ${Buffer.from("me:p@ss").toString("base64")}`);
});

/** As the reference of the Brave Search API shows a web search response. */
const BRAVE = {
  type: "search",
  query: { original: "x402 payments", more_results_available: true },
  web: {
    type: "search",
    results: [
      {
        title: "x402 &amp; payments",
        url: "https://example.org/a?b=1&c=2",
        is_source_local: false,
        description: "How <strong>payments</strong> are settled<script>steal()</script> &lt;img src=x&gt; in a block.",
        page_age: "2024-03-01T10:00:00",
        age: "March 1, 2024",
        language: "en",
      },
    ],
  },
};

test("brave: sends its token as a header and reads HTML as text", async () => {
  await withEngine("brave", BRAVE, async (engine, stand) => {
    assert.deepEqual(await ask(engine, "x402 payments", 50), [
      {
        title: "x402 & payments",
        url: "https://example.org/a?b=1&c=2",
        snippet: "How payments are settled in a block.",
        date: "2024-03-01T10:00:00Z",
      },
    ]);
    const [asked] = stand.asked;
    assert.equal(asked?.path, "/web/search");
    assert.equal(asked?.headers["x-subscription-token"], KEY);
    assert.equal(asked?.query.get("count"), "20");
    await ask(engine, Array.from({ length: 300 }, (_, at) => `word${at}`).join(" "));
    const sent = stand.asked[1]?.query.get("q") ?? "";
    assert.ok(sent.length <= 400 && sent.split(" ").length <= 50, "its limits hold for any query");
  });
  await withEngine("brave", { type: "search", query: { original: "x" } }, async (engine) => {
    assert.deepEqual(await ask(engine), [], "no `web` is no result");
  });
});

/** As the reference of Tavily Search shows a response. */
const TAVILY = {
  query: "x402 payments",
  follow_up_questions: null,
  answer: null,
  images: [],
  results: [
    {
      url: "https://example.org/news",
      title: "News",
      content: "Settled in\n\na block.",
      score: 0.81,
      raw_content: null,
      published_date: "Tue, 11 Mar 2025 10:00:00 GMT",
    },
  ],
  response_time: 1.09,
  request_id: "123e4567-e89b-12d3-a456-426614174111",
};

test("tavily: POST with a bearer token", async () => {
  await withEngine("tavily", TAVILY, async (engine, stand) => {
    assert.deepEqual(await ask(engine, "x402 payments", 50), [
      { title: "News", url: "https://example.org/news", snippet: "Settled in a block.", date: "2025-03-11T10:00:00Z" },
    ]);
    const [asked] = stand.asked;
    assert.equal(`${asked?.verb} ${asked?.path}`, "POST /search");
    assert.equal(asked?.headers.authorization, `Bearer ${KEY}`);
    const body = JSON.parse(asked?.text ?? "") as Readonly<Record<string, unknown>>;
    assert.equal(body.query, "x402 payments");
    assert.equal(body.max_results, 20);
    assert.ok(!asked?.text.includes(KEY), "the key is not in the body");
  });
});

/** As the reference of Exa's Search shows a response. */
const EXA = {
  requestId: "b5947044c4b78efa9552a7c89b306d95",
  resolvedSearchType: "neural",
  results: [
    {
      title: "A Comprehensive Overview",
      url: "https://arxiv.org/pdf/2307.06435.pdf",
      publishedDate: "2023-11-16T01:36:32.547Z",
      author: "Humza Naveed",
      score: 0.46,
      id: "https://arxiv.org/abs/2307.06435",
      highlights: ["Such requirements have limited", "their adoption."],
      highlightScores: [0.46, 0.4],
      text: "Abstract",
    },
    { title: null, url: "https://example.org/", text: "Only text", highlights: [] },
  ],
  costDollars: { total: 0.005 },
};

test("exa: POST with x-api-key, snippets are its highlights", async () => {
  await withEngine("exa", EXA, async (engine, stand) => {
    assert.deepEqual(await ask(engine), [
      {
        title: "A Comprehensive Overview",
        url: "https://arxiv.org/pdf/2307.06435.pdf",
        snippet: "Such requirements have limited … their adoption.",
        date: "2023-11-16T01:36:32Z",
      },
      { title: "example.org", url: "https://example.org/", snippet: "Only text", date: undefined },
    ]);
    assert.equal(stand.asked[0]?.headers["x-api-key"], KEY);
    const body = JSON.parse(stand.asked[0]?.text ?? "") as Readonly<Record<string, unknown>>;
    assert.equal(body.numResults, 10);
  });
});

test("hosted engines: a wrong key, a spent plan and a limit are told apart", async () => {
  const statuses = { 401: "unauthorized", 403: "forbidden", 402: "quota", 432: "quota", 429: "rate_limited" } as const;
  for (const [status, reason] of Object.entries(statuses)) {
    assert.equal(await reasonOf({ detail: { error: `Unauthorized: ${KEY}` } }, Number(status)), reason);
  }
  assert.equal(await reasonOf({}, 422, "brave"), "refused_query");
  assert.equal(await reasonOf({}, 500), "http_status");
});

test("a hostile engine: redirects, HTML, wrong types, deep nests, endless and packed bodies", async () => {
  const redirect = (response: ServerResponse): void =>
    void response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data" }).end();
  assert.equal(await reasonOf(redirect), "redirected");
  const html = (response: ServerResponse): void =>
    void response.writeHead(200, { "content-type": "text/html" }).end("<html>Just a moment…</html>");
  assert.equal(await reasonOf(html), "bad_answer");
  for (const kind of ["searxng", "brave", "tavily", "exa"] as const) {
    for (const wrong of [null, [], "x", 7, {}, { results: {} }, { results: null, web: 5 }, { web: { results: "x" } }]) {
      assert.equal(await reasonOf(wrong, 200, kind), "bad_answer", `${kind} ${JSON.stringify(wrong)}`);
    }
  }
  const nested = `{"results":${"[".repeat(100_000)}`;
  assert.equal(await reasonOf((response: ServerResponse) => void response.end(nested)), "bad_answer");
  const said = (response: ServerResponse): void =>
    void response.writeHead(200, { "content-length": "104857600" }).write("{");
  assert.equal(await reasonOf(said), "too_large");
  let written = 0;
  const endless = (response: ServerResponse): void => {
    const chunk = Buffer.alloc(65_536, 0x20);
    const more = (): void => {
      for (; !response.destroyed && written < 104_857_600; written += chunk.length) {
        if (!response.write(chunk)) return void response.once("drain", more);
      }
    };
    more();
  };
  assert.equal(await reasonOf(endless), "too_large");
  assert.ok(written < 50_000_000, `${written} bytes were taken`);
  const packed = (response: ServerResponse): void =>
    void response.writeHead(200, { "content-encoding": "gzip" }).end(Buffer.alloc(100));
  assert.equal(await reasonOf(packed), "bad_answer");
  assert.equal(await reasonOf((response: ServerResponse) => void response.destroy()), "connection");
});

test("results of wrong types are left out, long ones are cut", async () => {
  const results = [
    null,
    5,
    "x",
    [],
    {},
    { url: 5 },
    { url: "/relative" },
    { url: "data:text/html,x" },
    { url: "https://bank.example@evil.example/" },
    { url: `https://example.org/${"x".repeat(3_000)}` },
    { url: "https://example.org/", title: { a: 1 }, content: "y ".repeat(50_000), published_date: 5 },
    { url: "HTTPS://EXAMPLE.org/b", title: "a\u0000b\u202ec\n\td", content: "\ud800", published_date: "5 days ago" },
  ];
  await withEngine("tavily", { results }, async (engine) => {
    const [first, second, ...more] = await ask(engine);
    assert.deepEqual(more, []);
    assert.equal(first?.title, "example.org");
    assert.ok(first !== undefined && first.snippet.length <= 1_000 && first.snippet.endsWith("…"));
    assert.equal(first.date, undefined);
    assert.deepEqual(second, { title: "a b c d", url: "https://example.org/b", snippet: "\ufffd", date: undefined });
  });
});

test("an engine that does not answer ends with its signal", async () => {
  await withEngine(
    "exa",
    () => {},
    async (engine) => {
      const late = new AbortController();
      const reason = new Error("late");
      const answer = engine.search({ query: "x", maxResults: 1 }, late.signal);
      setImmediate(() => late.abort(reason));
      await assert.rejects(answer, (error) => error === reason);
    },
  );
});

test("createEngines names what is missing, and the fix", () => {
  const base = { timeoutMs: 1, weight: 1 };
  const fault = (...list: EngineOptions[]): string => {
    try {
      createEngines(list);
    } catch (error) {
      return isAppError(error, "CONFIG_INVALID") ? error.message : String(error);
    }
    return "none";
  };
  assert.match(fault({ kind: "searxng", ...base }), /^search\.engines\[0\]\.url: missing/);
  assert.match(fault({ kind: "exa", ...base }), /^search\.engines\[0\]\.apiKey: missing/);
  assert.match(fault({ kind: "local", ...base }), /no local index/);
  const exa = { kind: "exa", apiKey: KEY, ...base } as const;
  assert.match(fault(exa, exa), /^search\.engines\[1\]\.id: exa stands twice/);
});
