import assert from "node:assert/strict";
import { after, before, beforeEach, suite, test } from "node:test";
import { noMetrics, silentLog } from "@turnpike/base";
import { type EngineHit, type SearchEngine, type SearchService, startSearchService } from "@turnpike/search";
import { type Ground, startGround } from "../support/network.ts";
import { type Answer, call, type Payer, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, type StandIn, startStandIn, untilServed } from "./support.ts";

const MAX_BYTES = 16_384;
const HIT: EngineHit = {
  title: "Settlement",
  url: "https://docs.example/settlement",
  snippet: "Payments are settled in batches.",
  date: "2025-01-02",
};

/** An engine that does as it is told at the moment. */
interface TestEngine extends SearchEngine {
  answer: () => Promise<readonly EngineHit[]>;
  asked: number;
}

function testEngine(id: string): TestEngine {
  const engine: TestEngine = {
    id,
    asked: 0,
    answer: async () => [HIT],
    search() {
      engine.asked++;
      return engine.answer();
    },
    [Symbol.asyncDispose]: async () => {},
  };
  return engine;
}

suite("the search route on the search service, over HTTP", () => {
  const first = testEngine("local");
  const second = testEngine("second");
  let ground: Ground;
  let node: StandIn;
  let search: SearchService;
  let gateway: OpenGateway;
  let payer: Payer;
  let sold = 0;

  before(async () => {
    [ground, node] = await Promise.all([startGround(), startStandIn()]);
    search = await startSearchService(
      {
        host: "127.0.0.1",
        port: 0,
        timeoutMs: 60_000,
        maxInFlight: 64,
        cacheSeconds: 0,
        cacheBytes: 0,
        version: "0.0.0",
      },
      {
        engines: [first, second].map((engine) => ({ engine, timeoutMs: 200, weight: 1 })),
        log: silentLog,
        metrics: noMetrics,
      },
    );
    gateway = await openGateway(ground, {
      sections: {
        suppliers: {
          ...ethAt(node.url),
          search: { endpoints: [{ operator: "local", urls: { rest: search.url } }] },
        },
      },
    });
    payer = await ground.fundedPayer(PRICE * 1_000n);
    await untilServed(gateway, "search");
  });
  beforeEach(() => {
    for (const engine of [first, second]) engine.answer = async () => [HIT];
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await search?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const pay = async (body: unknown, path = "", init: RequestInit = {}): Promise<Answer> => {
    const url = gateway.route("search");
    const answer = await call(`${url}${path}`, body, await signPayment(payer, await termsOf(url)), init);
    if (answer.status === 200) sold++;
    return answer;
  };

  test("a paid search has ranked results in the envelope, and its schema check has passed", async () => {
    const query = '  how are "payments" settled? Ünïcode 🌍 \\ ';
    const answer = await pay({ query, max_results: 3 });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json.portal, {
      provenance: "third-party-supplier",
      serviceId: "search",
      schemaCheck: "passed",
    });
    const { data } = answer.json;
    assert.equal(data.query, query);
    assert.equal(data.partial, false);
    assert.deepEqual(data.results, [{ ...HIT, score: 1, source: "local,second" }]);
    assert.ok(answer.receipt?.success);
    await gateway.assertSettled(sold);
  });

  test("a bad query is 422 with its detail, free, and reaches no engine", async () => {
    const asked = first.asked;
    for (const body of [{}, { query: "" }, { query: "x", max_results: 0 }, { query: "a\0b" }, '{"query":"\\ud800"}']) {
      const answer = await pay(body);
      assert.equal(answer.status, 422, answer.text);
      assert.deepEqual(Object.keys(answer.json), ["detail"]);
      assert.deepEqual(Object.keys(answer.json.detail[0]).sort(), ["loc", "msg", "type"]);
      assert.equal(answer.receipt, undefined);
    }
    const twice = await pay('{"query":"a","query":"b"}');
    assert.deepEqual([twice.status, twice.json.code], [400, "DUPLICATE_KEY"]);
    assert.equal(first.asked, asked);
    await gateway.assertSettled(sold);
  });

  test("16 KiB are sold, one byte more is refused before anything is charged", async () => {
    const bodyOf = (bytes: number): string => `{"query":"${"q".repeat(bytes - 12)}"}`;
    const passed = await pay(bodyOf(MAX_BYTES));
    assert.equal(passed.status, 200, passed.text.slice(0, 200));
    assert.equal(passed.json.portal.schemaCheck, "passed");
    const asked = first.asked;
    const over = await pay(bodyOf(MAX_BYTES + 1));
    assert.deepEqual([over.status, over.json.code], [413, "BODY_TOO_LARGE"]);
    assert.equal(first.asked, asked);
    await gateway.assertSettled(sold);
  });

  test("16 KiB of quotes, operators, SQL and marks of direction are sold like any other query", async () => {
    const room = MAX_BYTES - Buffer.byteLength('{"query":""}');
    const queries = [
      '"'.repeat(room / 2),
      "'; DROP TABLE x; --",
      'NEAR("a" b, 3) OR c*',
      "\u202eabc\u200f",
      "__proto__",
    ];
    for (const query of queries) {
      const answer = await pay({ query });
      assert.equal(answer.status, 200, answer.text.slice(0, 200));
      assert.equal(answer.json.data.query, query);
    }
    await gateway.assertSettled(sold);
  });

  test("no hits is a sold answer", async () => {
    for (const engine of [first, second]) engine.answer = async () => [];
    const answer = await pay({ query: "nothing of this kind" });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.portal.schemaCheck, "passed");
    assert.deepEqual(answer.json.data.results, []);
    assert.equal(answer.json.data.partial, false);
    await gateway.assertSettled(sold);
  });

  test("one engine fails or is late: what the others found is sold, and says that it is partial", async () => {
    for (const answer of [() => Promise.reject(new Error("down")), () => new Promise<readonly EngineHit[]>(() => {})]) {
      second.answer = answer;
      const bought = await pay({ query: "partial" });
      assert.equal(bought.status, 200, bought.text);
      assert.equal(bought.json.portal.schemaCheck, "passed");
      assert.equal(bought.json.data.partial, true);
      assert.equal(bought.json.data.results.length, 1);
    }
    await gateway.assertSettled(sold);
  });

  test("the terms of every route can be sent back whole with a payment, however its answer is described", async () => {
    const services = (await (await fetch(`${gateway.url}/services.json`)).json()) as readonly { readonly id: string }[];
    for (const { id } of services) {
      const url = gateway.route(id);
      // What is refused here is the body, so the header was read.
      const answer = await call(url, "[]", await signPayment(payer, await termsOf(url)));
      assert.notEqual(answer.json.code, "PAYMENT_MALFORMED", id);
      assert.equal(answer.receipt, undefined, id);
    }
    await gateway.assertSettled(sold);
  });

  test("its other operations are appended paths, and sold", async () => {
    const posted = await pay({ query: "x" }, "/v1/search");
    assert.equal(posted.status, 200, posted.text);
    assert.equal(posted.json.data.query, "x");
    assert.equal((await pay({ max_results: 1 }, "/v1/search")).status, 422);
    for (const path of ["/v1/version", "/v1/health", "/v1/capabilities", "/healthz"]) {
      const answer = await pay(undefined, path, { method: "GET", body: null });
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      assert.equal(typeof answer.json.data, "object", path);
      assert.equal(answer.json.portal.schemaCheck, "passed", path);
    }
    assert.equal((await pay(undefined, "/documents/x", { method: "GET", body: null })).status, 404);
    await gateway.assertSettled(sold);
  });

  test("all engines failed: 503, uncharged, and the same payment buys the next search", async () => {
    for (const engine of [first, second]) engine.answer = () => Promise.reject(new Error("down"));
    const url = gateway.route("search");
    const header = await signPayment(payer, await termsOf(url));
    const failed = await call(url, { query: "again" }, header);
    assert.equal(failed.status, 503, failed.text);
    assert.equal(failed.json.retryable, true);
    assert.ok(failed.headers.get("retry-after"));
    assert.equal(failed.receipt, undefined);
    await gateway.assertSettled(sold);
    for (const engine of [first, second]) engine.answer = async () => [HIT];
    const again = await call(url, { query: "again" }, header);
    assert.equal(again.status, 200, again.text);
    sold++;
    await gateway.assertSettled(sold);
  });
});
