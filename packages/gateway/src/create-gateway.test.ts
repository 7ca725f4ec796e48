import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import { test } from "node:test";
import { type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createRelayEngine } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { eventually, openRaw } from "@turnpike/testkit";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { gatewayOptions, relayOptions } from "../test/options.ts";
import { option, paymentHeader, type StandInPayment, standInPayment } from "../test/stand-ins.ts";
import { createGateway } from "./index.ts";

interface Rig extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly metricsUrl: string;
  readonly payment: StandInPayment;
  readonly seen: string[];
}

/** What the stand-in does not have. */
const LACKING = "eth_capabilities";

/** A stand-in for an Ethereum node and for a Cosmos node. */
function standInNode(seen: string[]): Server {
  return createServer((req, res) => {
    let text = "";
    req.on("data", (part: Buffer) => {
      text += part.toString();
    });
    req.on("end", () => {
      res.setHeader("content-type", "application/json");
      if (req.method === "GET") {
        seen.push(`GET ${req.url}`);
        res.end('{"jsonrpc":"2.0","id":-1,"result":{}}');
        return;
      }
      const { id, method, params } = JSON.parse(text) as { id: number; method: string; params?: { survey?: unknown } };
      if (method === LACKING) {
        res.end(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"Method not found"}}`);
        return;
      }
      if (params?.survey === undefined) seen.push(method);
      const result = method === "eth_chainId" ? "0x1" : "0x1b4";
      res.end(`{"jsonrpc":"2.0", "id":${id},"result":"${result}"}`);
    });
  });
}

async function startRig(): Promise<Rig> {
  const seen: string[] = [];
  const node = standInNode(seen);
  await new Promise<void>((resolve) => node.listen(0, "127.0.0.1", resolve));
  const address = node.address();
  const nodeUrl = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  const catalogue = createCatalogue();
  const metrics = new PrometheusMetrics({ processMetrics: true });
  const endpoint = { operator: "stand-in", urls: { json_rpc: nodeUrl, comet_bft: nodeUrl, rest: nodeUrl } };
  const suppliers = { endpoints: [endpoint], timeoutMs: 60_000, maxAttempts: 2 };
  const relay = createRelayEngine(
    { ...relayOptions, connectTimeoutMs: 60_000, suppliers: { eth: suppliers, pocket: suppliers } },
    { catalogue: catalogue.services, clock: systemClock, log: silentLog, metrics, random: Math.random },
  );
  await relay.start();
  relay.survey();
  const payment = standInPayment();
  const gateway = createGateway(gatewayOptions, {
    catalogue,
    payment,
    relay,
    options: [option],
    readiness: [],
    clock: systemClock,
    log: silentLog,
    metrics,
    random: { bytes: (length) => new Uint8Array(randomBytes(length)) },
  });
  const { gatewayPort, metricsPort } = await gateway.listen();
  return {
    url: `http://127.0.0.1:${gatewayPort}`,
    port: gatewayPort,
    metricsUrl: `http://127.0.0.1:${metricsPort}`,
    payment,
    seen,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await relay[Symbol.asyncDispose]();
      node.closeAllConnections();
      node.close();
    },
  };
}

const BLOCK_NUMBER = { method: "POST", body: '{"method":"eth_blockNumber","params":[]}' };

test("an unmodified x402 client buys from an unmodified node", async () => {
  await using to = await startRig();
  const account = privateKeyToAccount(`0x${"17".repeat(32)}`);
  const pay = wrapFetchWithPayment(fetch, new x402Client().register("eip155:*", new ExactEvmScheme(account)));
  const answer = await pay(`${to.url}/v1/eth`, BLOCK_NUMBER);
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), {
    portal: { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" },
    data: { jsonrpc: "2.0", id: 1, result: "0x1b4" },
  });
  assert.deepEqual(to.payment.calls, ["decode", "admit", "settle"]);
});

test("what the only supplier does not have is neither listed nor sold", async () => {
  await using to = await startRig();
  const methods = async (): Promise<readonly string[]> => {
    const list = (await (await fetch(`${to.url}/services.json`)).json()) as { id: string; methods: string[] }[];
    return list.find(({ id }) => id === "eth")?.methods ?? [];
  };
  await eventually("it is not listed", async () => !(await methods()).includes(LACKING));
  assert.ok((await methods()).includes("eth_blockNumber"));
  const headers = { "PAYMENT-SIGNATURE": paymentHeader() };
  const refused = await fetch(`${to.url}/v1/eth`, { method: "POST", body: `{"method":"${LACKING}"}`, headers });
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /"METHOD_NOT_ALLOWED".*No supplier of this service has this method now/);
  assert.deepEqual(to.payment.calls, ["decode", "admit"]);
});

test("every route of the OpenAPI document answers 402 with the same terms in header and body", async () => {
  await using to = await startRig();
  const { paths } = (await (await fetch(`${to.url}/openapi.json`)).json()) as { paths: Record<string, unknown> };
  const routes = Object.keys(paths).filter((path) => /^\/v1\/[a-z0-9-]+$/.test(path));
  assert.ok(routes.length > 60);
  for (const path of routes) {
    const answer = await fetch(to.url + path, { method: "POST" });
    assert.equal(answer.status, 402, path);
    const header = answer.headers.get("payment-required") ?? "";
    const text = await answer.text();
    assert.equal(Buffer.from(header, "base64").toString(), text, path);
    const terms = JSON.parse(text) as { resource: { url: string; iconUrl: string }; accepts: unknown };
    assert.equal(terms.resource.url, to.url + path);
    assert.deepEqual(terms.accepts, [option]);
    const icon = await fetch(terms.resource.iconUrl);
    assert.equal(icon.status, 200);
    assert.equal(icon.headers.get("content-type"), "image/svg+xml");
  }
});

test("the Cosmos-style route in every form, and its refusals", async () => {
  await using to = await startRig();
  const statuses = async (path: string, init: RequestInit): Promise<number[]> => {
    const unpaid = await fetch(to.url + path, init);
    const paid = await fetch(to.url + path, { ...init, headers: { "payment-signature": paymentHeader() } });
    return [unpaid.status, paid.status];
  };
  const none = await openRaw(to.port);
  const before = to.seen.length;
  assert.equal((await statuses("/v1/pocket/status", { method: "GET" }))[0], 402);
  assert.equal((await statuses("/v1/pocket/status", { method: "POST" }))[0], 402);
  assert.ok(to.seen.slice(before).includes("GET /status"));
  assert.deepEqual(await statuses("/v1/pocket/no/such/path", { method: "GET" }), [404, 404]);
  assert.deepEqual(await statuses("/v1/pocket/broadcast_tx_commit", { method: "POST" }), [404, 404]);
  assert.deepEqual(await statuses("/v1/eth/status", { method: "GET" }), [404, 404]);
  assert.deepEqual(
    await statuses("/v1/pocket", { method: "POST", body: '{"method":"broadcast_tx_sync"}' }),
    [402, 400],
  );
  for (const path of ["/v1/pocket/../eth", "/v1/pocket/./status", "/v1/pocket/%2e%2e/eth", "/v1/pocket//status"]) {
    none.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    const [response] = await none.next();
    assert.equal(response?.status, 400, path);
    assert.match(response.body, /BAD_PATH/);
  }
  none.socket.destroy();
});

test("search: the size of its body and the faults of its query", async () => {
  await using to = await startRig();
  const ask = (body: string): Promise<Response> =>
    fetch(`${to.url}/v1/search`, { method: "POST", body, headers: { "payment-signature": paymentHeader() } });
  const bad = await ask('{"query":"x","max_results":0}');
  assert.equal(bad.status, 422);
  assert.deepEqual(Object.keys((await bad.json()) as object), ["detail"]);
  assert.equal((await ask(JSON.stringify({ query: "x".repeat(16_384 - 12) }))).status, 503);
  assert.equal((await ask(JSON.stringify({ query: "x".repeat(16_385 - 12) }))).status, 413);
});

test("readiness, live services and metrics of the real parts", async () => {
  await using to = await startRig();
  const status = async (path: string): Promise<number> => (await fetch(to.url + path)).status;
  assert.deepEqual(
    [await status("/health"), await status("/ready"), await status("/ready/eth"), await status("/ready/base")],
    [200, 200, 200, 503],
  );
  assert.equal(await status("/ready/no-such-service"), 404);
  const llms = await (await fetch(`${to.url}/llms.txt`)).text();
  assert.deepEqual(
    llms
      .split("\n")
      .flatMap((line) => /\/v1\/([^)]+)\).* Serves now\.$/.exec(line)?.[1] ?? [])
      .sort(),
    ["eth", "pocket"],
  );
  const sold = await fetch(`${to.url}/relay/document-digest`, { method: "POST", body: "{}" });
  assert.equal(sold.status, 404);
  assert.match(await sold.text(), /The free relay has no network of this id\. See \/services\.json/);
  const list = (await (await fetch(`${to.url}/services.json`)).json()) as { id: string; serves: boolean }[];
  assert.deepEqual(
    list
      .filter(({ serves }) => serves)
      .map(({ id }) => id)
      .sort(),
    ["eth", "pocket"],
  );
  const page = (await (await fetch(`${to.url}/discovery/resources?limit=2&offset=1`)).json()) as { items: unknown[] };
  assert.equal(page.items.length, 2);
  const text = await (await fetch(`${to.metricsUrl}/metrics`)).text();
  assert.match(text, /^# TYPE \w+ histogram$/m);
  assert.match(text, /nodejs_eventloop_lag/);
  assert.match(text, new RegExp(`turnpike_gateway_service_ready\\{service="${"eth" as ServiceId}"\\} 1`));
});

test("the free door: by host, by path and by header; the node's bytes with the client's id", async () => {
  await using to = await startRig();
  const call = (id: string): string => `{"jsonrpc":"2.0","id":${id},"method":"eth_blockNumber"}`;
  await using raw = await openRaw(to.port);
  const post = async (head: string, body: string): Promise<{ status: number; body: string } | undefined> => {
    raw.write(`POST ${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return (await raw.next())[0];
  };
  for (const head of [
    "/ HTTP/1.1\r\nHost: ETH.localhost:3069",
    "/relay/eth HTTP/1.1\r\nHost: 127.0.0.1",
    "/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nTarget-Service-Id: eth",
  ]) {
    const answer = await post(head, call("7"));
    assert.deepEqual([answer?.status, answer?.body], [200, '{"jsonrpc":"2.0", "id":7,"result":"0x1b4"}'], head);
  }
  for (const id of ["1.5", "1e3", "12345678901234567890", "null", '"\\u00e9"', "0"]) {
    const answer = await post("/ HTTP/1.1\r\nHost: eth.localhost", call(id));
    assert.equal(answer?.body, `{"jsonrpc":"2.0", "id":${id},"result":"0x1b4"}`);
  }
  const statuses: [string, string, number, RegExp][] = [
    ["eth", '{"jsonrpc":"2.0","method":', 400, /"id":null,"error":\{"code":-32700/],
    ["eth", "", 400, /-32700/],
    ["eth", "[]", 400, /-32600/],
    [
      "eth",
      `[${call("1")}, 7]`,
      200,
      /^\[\{"jsonrpc":"2.0", "id":1,"result":"0x1b4"\},\{.*"id":null,"error":\{"code":-32600/,
    ],
    ["eth", "{}", 400, /-32600/],
    ["eth", '{"jsonrpc":"2.0","method":1,"id":1}', 400, /"id":1,"error":\{"code":-32600/],
    ["eth", '{"jsonrpc":"2.0","method":"a","method":"b","id":1}', 400, /-32600/],
    [
      "eth",
      '{"jsonrpc":"2.0","id":5,"method":"eth_sendRawTransaction","params":["0x"]}',
      200,
      /"id":5,"result":"0x1b4"/,
    ],
    [
      "eth",
      '{"jsonrpc":"2.0","id":5,"method":"eth_sendTransaction","params":[{}]}',
      200,
      /"id":5,"error":\{"code":-32601/,
    ],
    ["eth", '{"jsonrpc":"2.0","method":"eth_blockNumber"}', 204, /^$/],
    ["no-such-network", call("9"), 404, /"id":9,"error":/],
    ["search", call("9"), 404, /"id":9,"error":/],
    ["arb-one", call("9"), 503, /"id":9,"error":/],
  ];
  for (const [id, body, status, text] of statuses) {
    const answer = await post(`/ HTTP/1.1\r\nHost: ${id}.localhost`, body);
    assert.equal(answer?.status, status, `${id} ${body} ${answer?.body}`);
    assert.match(answer.body, text);
  }
  for (const path of ["/health", "/ready", "/metrics", "/v1/eth", "/openapi.json"]) {
    raw.write(`GET ${path} HTTP/1.1\r\nHost: eth.localhost\r\n\r\n`);
    const [answer] = await raw.next();
    assert.equal(answer?.status, 405, path);
    assert.match(answer.body, /^\{"jsonrpc":"2\.0","id":null,"error"/);
    assert.equal((await post(`${path} HTTP/1.1\r\nHost: eth.localhost`, call("3")))?.status, 404, path);
  }
});
