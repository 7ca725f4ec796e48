import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { startUpstream, type Upstream } from "@turnpike/testkit";
import { PaymentRequiredV2Schema } from "@x402/core/schemas";
import { type DiscoveryExtension, validateDiscoveryExtension } from "@x402/extensions/bazaar";
import { type Ground, startGround } from "../support/network.ts";
import { type Answer, call, type Payer, signPayment, termsOf } from "../support/payer.ts";
import {
  ethAt,
  exact,
  type OpenGateway,
  openGateway,
  PRICE,
  type StandIn,
  showsStandIn,
  startStandIn,
  untilServed,
} from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };
const MAX_SEARCH_BYTES = 16_384;

interface OpenApi {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Readonly<
    Record<
      string,
      {
        readonly post: {
          readonly operationId: string;
          readonly tags: readonly string[];
          readonly responses: Readonly<Record<string, unknown>>;
          readonly "x-payment-info": {
            readonly price: { readonly mode: string; readonly currency: string; readonly amount: string };
            readonly protocols: readonly string[];
          };
        };
      }
    >
  >;
}

interface ListedService {
  readonly id: string;
  readonly operationId: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly price: { readonly amount: string };
  readonly rails: readonly { readonly network: string; readonly asset: string; readonly amount: string }[];
  readonly url: string;
  readonly iconUrl: string;
  readonly serves: boolean;
  readonly methods: readonly string[];
}

interface ServerTerms {
  readonly resource: { readonly url: string; readonly tags: readonly string[]; readonly iconUrl: string };
  readonly accepts: readonly { readonly amount: string }[];
  readonly extensions: { readonly bazaar: DiscoveryExtension };
}

/** A search back-end that remembers what it was asked. */
interface SearchNode extends AsyncDisposable {
  readonly upstream: Upstream;
  readonly asked: unknown[];
}

async function startSearch(): Promise<SearchNode> {
  const asked: unknown[] = [];
  const upstream = await startUpstream((request, response) => {
    response.setHeader("content-type", "application/json");
    if (request.path !== "/v1/search") {
      response.end('{"status":"ok"}');
      return;
    }
    const body = JSON.parse(request.text) as { readonly query: string };
    asked.push(body);
    response.end(JSON.stringify({ query: body.query, results: [] }));
  });
  return { upstream, asked, [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose]() };
}

suite("the routes of a whole gateway, over HTTP", () => {
  const catalogue = createCatalogue({});
  const services: readonly Service[] = [...catalogue.services.values()];
  let ground: Ground;
  let node: StandIn;
  let search: SearchNode;
  let gateway: OpenGateway;
  let payer: Payer;
  /** Purchases so far; whatever is refused must not be among them. */
  let sold = 0;

  before(async () => {
    [ground, node, search] = await Promise.all([startGround(), startStandIn(), startSearch()]);
    gateway = await openGateway(ground, {
      sections: {
        suppliers: {
          ...ethAt(node.url),
          search: { endpoints: [{ operator: "local", urls: { rest: search.upstream.url } }] },
        },
      },
    });
    payer = await ground.fundedPayer(PRICE * 1_000n);
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await search?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const document = async <T>(path: string, from = gateway): Promise<T> => {
    const answer = await fetch(`${from.url}${path}`);
    assert.equal(answer.status, 200, path);
    assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
    return (await answer.json()) as T;
  };
  const list = (from = gateway): Promise<readonly ListedService[]> => document("/services.json", from);
  const openApi = (from = gateway): Promise<OpenApi> => document("/openapi.json", from);

  /** Pays for a body on a route. */
  const pay = async (service: string, body: unknown, init: RequestInit = {}): Promise<Answer> => {
    const url = gateway.route(service);
    const answer = await call(url, body, await signPayment(payer, await termsOf(url)), init);
    if (answer.status === 200) sold++;
    return answer;
  };

  /** `{code, message, requestId, retryable}` and nothing else, without a charge; with 409 the receipt of the used payment. */
  const assertRefused = (answer: Answer, status: number, code?: string): void => {
    assert.equal(answer.status, status, answer.text);
    assert.deepEqual(Object.keys(answer.json).sort(), ["code", "message", "requestId", "retryable"]);
    assert.match(answer.json.code, /^[A-Z_]+$/);
    if (code !== undefined) assert.equal(answer.json.code, code);
    assert.equal(typeof answer.json.message, "string");
    assert.equal(typeof answer.json.retryable, "boolean");
    assert.equal(answer.json.requestId, answer.headers.get("x-request-id"));
    assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
    assert.equal(answer.receipt?.success, status === 409 ? true : undefined);
  };

  test("GET /openapi.json passes a validator: OpenAPI 3.0.3, version 1.1.0", async () => {
    const found = await openApi();
    const { valid, errors } = await new Validator().validate(found as unknown as Record<string, unknown>);
    assert.ok(valid, JSON.stringify(errors)?.slice(0, 500));
    assert.equal(found.openapi, "3.0.3");
    assert.equal(found.info.version, "1.1.0");
  });

  test("every route of it answers 402 with terms that pass the reference schemas, equal in header and body", async () => {
    const paths = Object.keys((await openApi()).paths);
    assert.ok(paths.length >= 60 + 9, `${paths.length} routes`);
    for (const path of paths) {
      const answer = await call(`${gateway.url}${path}`, { any: "body" });
      assert.equal(answer.status, 402, path);
      const header = answer.headers.get("payment-required") ?? "";
      assert.equal(Buffer.from(header, "base64").toString("utf8"), answer.text, path);
      assert.equal(Buffer.from(answer.text).toString("base64"), header, path);
      assert.ok(PaymentRequiredV2Schema.safeParse(answer.json).success, path);
      const terms = answer.json as ServerTerms;
      assert.deepEqual(validateDiscoveryExtension(terms.extensions.bazaar), { valid: true }, path);
      assert.equal(terms.resource.url, `${gateway.url}${path}`);
      assert.deepEqual(
        terms.accepts.map(({ amount }) => amount),
        ["5000"],
      );
      assert.equal(answer.headers.get("cache-control"), "no-store");
      assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
    }
  });

  test("the OpenAPI document, the list, the x402 documents and the catalogue agree", async () => {
    const [{ paths }, listed, wellKnown, discovery] = await Promise.all([
      openApi(),
      list(),
      document<{ readonly resources: readonly string[] }>("/.well-known/x402"),
      document<{ readonly items: readonly { readonly resource: string }[] }>("/discovery/resources"),
    ]);
    const urls = services.map(({ id }) => gateway.route(id));
    assert.deepEqual(
      listed.map(({ id }) => id),
      services.map(({ id }) => id),
    );
    assert.deepEqual(
      Object.keys(paths),
      services.map(({ id }) => `/v1/${id}`),
    );
    assert.deepEqual(wellKnown.resources, urls);
    assert.deepEqual(
      discovery.items.map(({ resource }) => resource),
      urls,
    );
    for (const [at, service] of services.entries()) {
      const item = listed[at];
      const post = paths[`/v1/${service.id}`]?.post;
      assert.ok(item !== undefined && post !== undefined);
      assert.equal(post.operationId, `call_${service.id.replaceAll("-", "_")}`);
      assert.equal(item.operationId, post.operationId);
      assert.deepEqual(post.tags, service.tags);
      assert.deepEqual(item.tags, service.tags);
      assert.ok(service.tags.includes(service.category), service.id);
      assert.equal(item.category, service.category);
      assert.deepEqual(post["x-payment-info"], {
        price: { mode: "fixed", currency: "USD", amount: "0.005000" },
        protocols: ["x402"],
        minPrice: "0.005000",
        maxPrice: "0.005000",
      });
      assert.equal(item.price.amount, "0.005000");
      assert.equal(item.url, gateway.route(service.id));
      assert.deepEqual(item.methods, [...service.operations.keys()]);
      for (const status of ["200", "400", "402", "503"]) assert.ok(post.responses[status], `${service.id} ${status}`);
    }
  });

  test("the list says who serves now: those with a supplier that answers", async () => {
    const ready = async (): Promise<readonly string[]> =>
      (await list()).filter(({ serves }) => serves).map(({ id }) => id);
    // Suppliers are probed at the start; the documents do not wait for it.
    await untilServed(gateway, "eth", "search");
    assert.deepEqual([...(await ready())].sort(), ["eth", "search"]);
  });

  test("every icon is an SVG image", async () => {
    for (const { id, iconUrl } of await list()) {
      const answer = await fetch(iconUrl);
      assert.equal(answer.status, 200, id);
      assert.match(answer.headers.get("content-type") ?? "", /^image\/svg\+xml/, id);
      assert.match(await answer.text(), /^<svg /, id);
    }
  });

  test("search: what is wrong is 422, exactly {detail}, and free", async () => {
    const asked = search.asked.length;
    const faults: readonly (readonly [body: unknown, at: readonly (string | number)[]])[] = [
      [{}, ["body", "query"]],
      [{ query: 5 }, ["body", "query"]],
      [{ query: "" }, ["body", "query"]],
      [{ query: null }, ["body", "query"]],
      [{ query: "x", max_results: 0 }, ["body", "max_results"]],
      [{ query: "x", max_results: -3 }, ["body", "max_results"]],
      [{ query: "x", max_results: 1.5 }, ["body", "max_results"]],
      [{ query: "x", max_results: "5" }, ["body", "max_results"]],
      [{ query: "x", max_results: null }, ["body", "max_results"]],
    ];
    for (const [body, at] of faults) {
      const answer = await pay("search", body);
      const what = JSON.stringify(body);
      assert.equal(answer.status, 422, `${what}: ${answer.text}`);
      assert.deepEqual(Object.keys(answer.json), ["detail"], what);
      assert.ok(answer.json.detail.length >= 1, what);
      for (const one of answer.json.detail) assert.deepEqual(Object.keys(one).sort(), ["loc", "msg", "type"], what);
      assert.deepEqual(answer.json.detail[0].loc, at, what);
      assert.equal(answer.receipt, undefined, what);
    }
    assert.equal(search.asked.length, asked);
    await gateway.assertSettled(sold);
  });

  test("search: 16,384 bytes pass, 16,385 are 413", async () => {
    const bodyOf = (bytes: number): string => `{"query":"${"q".repeat(bytes - 12)}"}`;
    assert.equal(Buffer.byteLength(bodyOf(MAX_SEARCH_BYTES)), MAX_SEARCH_BYTES);
    const passed = await pay("search", bodyOf(MAX_SEARCH_BYTES));
    assert.equal(passed.status, 200, passed.text.slice(0, 200));
    assert.equal(passed.json.data.query.length, MAX_SEARCH_BYTES - 12);
    assertRefused(await pay("search", bodyOf(MAX_SEARCH_BYTES + 1)), 413, "BODY_TOO_LARGE");
    await gateway.assertSettled(sold);
  });

  test("search: the query comes back as it was received, and a large max_results is capped", async () => {
    const query = 'Ünïcode "quoted" \\ 🌍';
    const answer = await pay("search", { query, max_results: 1_000_000 });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.query, query);
    assert.equal(answer.json.portal.schemaCheck, "passed");
    const last = search.asked.at(-1) as { readonly query: string; readonly max_results: number };
    assert.equal(last.query, query);
    assert.ok(last.max_results <= 100, `${last.max_results} were asked for`);
  });

  test("a browser may buy: preflight, readable headers, and no caches between", async () => {
    const origin = { origin: "https://shop.example" };
    const preflight = await exact(gateway.url, "OPTIONS", "/v1/eth", {
      headers: {
        ...origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,payment-signature",
      },
    });
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers["access-control-allow-origin"], "*");
    assert.match(String(preflight.headers["access-control-allow-methods"]), /POST/);
    const allowed = String(preflight.headers["access-control-allow-headers"]).toLowerCase().split(/, */);
    assert.ok(allowed.includes("payment-signature") && allowed.includes("content-type"), allowed.join());
    const unpaid = await call(gateway.route("eth"), BODY, undefined, { headers: origin });
    const bought = await pay("eth", BODY, { headers: origin });
    const refused = await pay("eth", "[]", { headers: origin });
    assert.deepEqual([unpaid.status, bought.status, refused.status], [402, 200, 400]);
    for (const { headers } of [unpaid, bought, refused]) {
      assert.equal(headers.get("access-control-allow-origin"), "*");
      const exposed = (headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/, */);
      for (const name of ["payment-required", "payment-response"]) assert.ok(exposed.includes(name), exposed.join());
    }
    assert.equal(unpaid.headers.get("cache-control"), "no-store");
    assert.equal(bought.headers.get("cache-control"), "private");
  });

  test("a paid body is one call: an array, or a repeated key, is 400 and free", async () => {
    const bodies = [
      "[]",
      '[{"method":"eth_gasPrice"}]',
      '{"method":"eth_gasPrice","method":"eth_gasPrice"}',
      '{"method":"eth_gasPrice","params":[],"params":[]}',
      '{"method":"eth_gasPrice","id":1,"id":2}',
      '{"method":"eth_gasPrice","m\\u0065thod":"eth_chainId"}',
    ];
    const runs = node.runs();
    for (const body of bodies) assertRefused(await pay("eth", body), 400);
    assert.equal(node.runs(), runs);
    await gateway.assertSettled(sold);
  });

  test("every 400, 404, 405, 409, 413 and 503 carries code, message, request id and whether to try again", async () => {
    const eth = gateway.route("eth");
    const refused = new Map<number, Answer[]>();
    const add = (status: number, answer: Answer): void => {
      assertRefused(answer, status);
      refused.set(status, [...(refused.get(status) ?? []), answer]);
    };
    for (const body of [
      "{",
      "",
      '"text"',
      "{}",
      '{"method":5}',
      '{"method":"eth_sendRawTransaction","params":["0x"]}',
    ]) {
      add(400, await pay("eth", body));
    }
    for (const header of ["%%%", "e30=", Buffer.from('{"x402Version":2').toString("base64"), "eA==,eA=="]) {
      add(400, await call(eth, BODY, header));
    }
    add(404, await call(gateway.route("nosuch"), BODY));
    add(404, await call(gateway.route("nosuch"), BODY, await signPayment(payer, await termsOf(eth))));
    add(404, await call(`${eth}/nosuch`, BODY));
    add(404, await call(`${gateway.url}/nosuch`, BODY));
    for (const method of ["GET", "PUT", "DELETE", "PATCH"]) {
      const answer = await call(eth, "", undefined, method === "GET" ? { method, body: null } : { method });
      add(405, answer);
      assert.match(answer.headers.get("allow") ?? "", /POST/);
    }
    add(405, await call(`${gateway.url}/openapi.json`, "{}"));
    const header = await signPayment(payer, await termsOf(eth));
    assert.equal((await call(eth, BODY, header)).status, 200);
    sold++;
    add(409, await call(eth, { ...BODY, id: 7 }, header));
    add(413, await pay("search", `{"query":"${"q".repeat(MAX_SEARCH_BYTES)}"}`));
    add(503, await pay("base", BODY));
    node.fail(true);
    add(503, await pay("eth", BODY));
    node.fail(false);
    assert.deepEqual(
      [...refused.keys()].sort((a, b) => a - b),
      [400, 404, 405, 409, 413, 503],
    );
    for (const [status, answers] of refused) {
      for (const { json } of answers) assert.equal(json.retryable, status === 503, JSON.stringify(json));
    }
    const ids = [...refused.values()].flat().map(({ json }) => json.requestId);
    assert.equal(new Set(ids).size, ids.length);
    await gateway.assertSettled(sold);
  });

  test("GET /settlements/{id} shows how a payment stands, and never what it bought", async () => {
    const answers = [await pay("eth", BODY), await pay("eth", BODY)];
    const ids = answers.map(({ receipt }) => {
      const { extensions } = receipt as unknown as { extensions: { settlement: { id: string; status: string } } };
      assert.equal(extensions.settlement.status, "settled");
      return extensions.settlement.id;
    });
    assert.equal(new Set(ids).size, 2);
    for (const [at, id] of ids.entries()) {
      assert.match(id, /^[A-Za-z0-9_-]{22,}$/, "at least 128 bits that cannot be guessed");
      const status = await call(`${gateway.url}/settlements/${id}`, "", undefined, { method: "GET", body: null });
      assert.equal(status.status, 200);
      assert.equal(status.json.status, "settled");
      assert.equal(status.json.amount, "5000");
      assert.equal(status.json.payer, payer.address.toLowerCase());
      assert.equal(status.json.transaction, answers[at]?.receipt?.transaction);
      assert.equal(status.json.answerAvailable, true);
      assert.equal(status.json.answerStored, true);
      assert.ok(!showsStandIn(status.text) && !("answer" in status.json) && !("body" in status.json));
      assert.ok(!/signature|nonce/i.test(status.text), "nothing that could be presented again");
    }
    for (const id of ["", "x", `${ids[0]}x`, "..%2F", "1"]) {
      const unknown = await call(`${gateway.url}/settlements/${id}`, "", undefined, { method: "GET", body: null });
      assertRefused(unknown, 404);
    }
  });

  test("a price that is overridden is in every document and is what is charged", async () => {
    await using dear = await openGateway(ground, {
      sections: {
        suppliers: ethAt(node.url),
        catalogue: { overrides: { eth: { evmChainId: 84532, price: "0.0123" } } },
      },
    });
    const eth = dear.route("eth");
    const terms = await termsOf(eth);
    assert.deepEqual(
      terms.accepts.map(({ amount }) => amount),
      ["12300"],
    );
    const item = (await list(dear)).find(({ id }) => id === "eth");
    assert.deepEqual(
      item?.rails.map(({ amount }) => amount),
      ["12300"],
    );
    assert.equal(item?.price.amount, "0.012300");
    const { paths } = await openApi(dear);
    assert.equal(paths["/v1/eth"]?.post["x-payment-info"].price.amount, "0.012300");
    assert.equal((await termsOf(dear.route("base"))).accepts[0]?.amount, "5000");

    const runs = node.runs();
    const cheap = await call(eth, BODY, await signPayment(payer, await termsOf(dear.route("base"))));
    assert.equal(cheap.status, 402);
    const short = await call(eth, BODY, await signPayment(payer, terms, { authorization: { value: "5000" } }));
    assert.equal(short.status, 402);
    assert.match(short.json.error, /^PAYMENT_VALUE_MISMATCH/);
    const over = await call(eth, BODY, await signPayment(payer, terms, { authorization: { value: "12301" } }));
    assert.equal(over.status, 402);
    assert.equal(node.runs(), runs);
    const buyer = await ground.fundedPayer(20_000n);
    const bought = await call(eth, BODY, await signPayment(buyer, terms));
    assert.equal(bought.status, 200, bought.text);
    assert.equal(await ground.balance(buyer.address), 7_700n);
    assert.equal(await ground.balance(dear.payTo), 12_300n);
  });

  test("the ledger holds exactly what was answered with 200", () => gateway.assertSettled(sold));
});
