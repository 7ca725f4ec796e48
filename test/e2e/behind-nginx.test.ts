import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:http2";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { noRateLimits, type RateLimits } from "@turnpike/gateway";
import { freePort, LOCAL_CHAIN_ID } from "@turnpike/localnet";
import { createSubscriptions, type Subscriptions } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { openSocket, PATIENCE_MS } from "@turnpike/testkit";
import { openTestAnvil, sendMined, type TestAnvil } from "@turnpike/testkit/servers";
import { startNginx, withoutNginx } from "../support/nginx.ts";
import { type RelayRig, rpc, rpcAt, startRelay } from "./relay-rig.ts";

const page = readFileSync(new URL("../../docs/operate/proxy.md", import.meta.url), "utf8");
const block = /```nginx\n(.*?)```/s.exec(page)?.[1] ?? "";
const PAID_HOST = "gw.example.org";
const FREE_HOST = "eth.relay.example.org";

/** The page's text with ports of this test, and without the certificate: plain HTTP/1.1 on one port, HTTP/2 on another. */
function placed(ports: { readonly gateway: number; readonly http1: number; readonly http2: number }): string {
  const change = (from: string | RegExp, to: string) => (config: string) => {
    const changed = config.replace(from, to);
    assert.notEqual(changed, config, String(from));
    return changed;
  };
  const listen = `listen 127.0.0.1:${ports.http1};\n  listen 127.0.0.1:${ports.http2} http2;`;
  return [
    change("127.0.0.1:3069", `127.0.0.1:${ports.gateway}`),
    change("listen 443 ssl http2;", listen),
    change(/ssl_certificate .*\n.*ssl_certificate_key .*\n/, ""),
  ].reduce((config, step) => step(config), block);
}

interface Sent {
  readonly host?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Loopback address that the client has. */
  readonly from?: string;
  readonly port?: number;
}

// Only Linux has all of 127.0.0.0/8.
const skip = withoutNginx === false && process.platform !== "linux" ? "needs the loopback of Linux" : withoutNginx;

suite("docs/operate/proxy.md: the gateway behind its nginx", { skip }, () => {
  const seen: string[] = [];
  const limits: RateLimits = {
    ...noRateLimits,
    consume({ clientIp }) {
      seen.push(clientIp);
      return { ok: true, headers: [] };
    },
  };
  let anvil: TestAnvil;
  let subscriptions: Subscriptions;
  let rig: RelayRig;
  let nginx: AsyncDisposable;
  const ports = { gateway: 0, http1: 0, http2: 0 };

  async function send(body: string | Buffer, way: Sent = {}) {
    const { host = FREE_HOST, path = "/", headers = {}, from = "127.0.0.2", port = ports.http1 } = way;
    const to = { host: "127.0.0.1", port, localAddress: from, path, method: "POST", agent: false } as const;
    const req = request({ ...to, headers: { host, "content-type": "application/json", ...headers } });
    req.end(body);
    const [res] = (await once(req, "response")) as [IncomingMessage];
    return { status: res.statusCode ?? 0, headers: res.headers, text: await text(res) };
  }

  before(async () => {
    anvil = await openTestAnvil();
    const catalogue = createCatalogue({ overrides: { eth: { evmChainId: LOCAL_CHAIN_ID } } });
    subscriptions = createSubscriptions(
      {
        connectTimeoutMs: PATIENCE_MS,
        callTimeoutMs: PATIENCE_MS,
        recoveryTimeoutMs: PATIENCE_MS,
        subscribeTimeoutMs: PATIENCE_MS,
        suppliers: { eth: [{ operator: "op0", url: anvil.url.replace("http", "ws") }] },
      },
      {
        catalogue: catalogue.services,
        clock: systemClock,
        log: silentLog,
        metrics: new PrometheusMetrics({ processMetrics: false }),
        random: Math.random,
      },
    );
    rig = await startRelay(
      { eth: rpcAt(anvil.url) },
      {
        chainId: LOCAL_CHAIN_ID,
        timeoutMs: PATIENCE_MS,
        gateway: { relayDomain: "relay.example.org", trustedProxies: ["127.0.0.1"] },
        modules: { subscriptions, limits },
      },
    );
    ports.gateway = rig.port;
    ports.http1 = await freePort();
    ports.http2 = await freePort();
    nginx = await startNginx(placed(ports), [ports.http1, ports.http2]);
  });
  after(async () => {
    await nginx?.[Symbol.asyncDispose]();
    await rig?.[Symbol.asyncDispose]();
    await subscriptions?.[Symbol.asyncDispose]();
    await anvil?.[Symbol.asyncDispose]();
  });

  const chainId = `0x${LOCAL_CHAIN_ID.toString(16)}`;

  test("a network's host, and the paid host's alias, lead to the relay, ids byte for byte", async () => {
    const id = "1.0e0";
    const wanted = `{"jsonrpc":"2.0","id":${id},"result":"${chainId}"}`;
    for (const way of [{}, { host: PAID_HOST, path: "/relay/eth" }]) {
      const answer = await send(rpc(id, "eth_chainId"), way);
      assert.deepEqual([answer.status, answer.text], [200, wanted]);
      assert.equal(answer.headers["access-control-allow-origin"], "*");
    }
    const unknown = await send(rpc("7", "eth_chainId"), { host: "nope.relay.example.org" });
    assert.deepEqual([unknown.status, (JSON.parse(unknown.text) as { id: number }).id], [404, 7]);
  });

  test("terms come whole, and a head of nearly 32 KiB passes", async () => {
    const terms = await send(rpc("1", "eth_blockNumber"), { host: PAID_HOST, path: "/v1/eth" });
    assert.equal(terms.status, 402);
    const header = Buffer.from(String(terms.headers["payment-required"]), "base64").toString();
    assert.deepEqual(JSON.parse(header), JSON.parse(terms.text));
    const headers = { "payment-signature": "A".repeat(30_000) };
    const refused = await send(rpc("1", "eth_blockNumber"), { host: PAID_HOST, path: "/v1/eth", headers });
    assert.equal((JSON.parse(refused.text) as { code: string }).code, "PAYMENT_MALFORMED");
  });

  test("the client's address is the one that nginx sees, whatever the client says", async () => {
    seen.length = 0;
    await send(rpc("1", "eth_chainId"), { headers: { "x-forwarded-for": "203.0.113.9" } });
    await send(rpc("1", "eth_chainId"), {
      headers: { "x-forwarded-for": "203.0.113.9, 127.0.0.1" },
      from: "127.0.0.3",
    });
    assert.deepEqual(seen, ["127.0.0.2", "127.0.0.3"]);
  });

  test("paths come undecoded", async () => {
    const answer = await send("{}", { host: PAID_HOST, path: "/relay/%65th" });
    assert.equal(answer.status, 404, answer.text);
  });

  test("a body that is too large gets the gateway's answer, not nginx's", async () => {
    const answer = await send(Buffer.alloc(1_048_577, 0x20));
    assert.equal(answer.status, 413);
    assert.equal((JSON.parse(answer.text) as { jsonrpc: string }).jsonrpc, "2.0");
  });

  test("a WebSocket: calls, and heads as they are mined", async () => {
    await using client = await openSocket(`ws://127.0.0.1:${ports.http1}/`, { host: FREE_HOST });
    assert.equal((await client.call(1, "eth_chainId")).result, chainId);
    const { result } = await client.call(2, "eth_subscribe", ["newHeads"]);
    // A transaction is a block.
    await sendMined(anvil.url, { to: `0x${"11".repeat(20)}` });
    const head = await client.find((one) => one.includes("eth_subscription"));
    assert.equal((JSON.parse(head) as { params: { subscription: string } }).params.subscription, result);
  });

  test("HTTP/2 at the edge", async () => {
    const session = connect(`http://127.0.0.1:${ports.http2}`);
    const call = session.request({ ":method": "POST", ":path": "/", ":authority": FREE_HOST });
    call.end(rpc("9", "eth_chainId"));
    const [headers] = (await once(call, "response")) as [{ ":status": number }];
    assert.equal(headers[":status"], 200);
    assert.equal(await text(call), `{"jsonrpc":"2.0","id":9,"result":"${chainId}"}`);
    session.close();
  });

  test("health and readiness answer on the paid host", async () => {
    for (const path of ["/health", "/ready", "/ready/eth"]) {
      const response = await fetch(`http://127.0.0.1:${ports.http1}${path}`);
      assert.equal(response.status, 200, `${path}: ${await response.text()}`);
    }
  });

  test("without a gateway nginx answers as the relay would", async () => {
    const own = { gateway: await freePort(), http1: await freePort(), http2: await freePort() };
    await using _ = await startNginx(placed(own), [own.http1]);
    const answer = await send(rpc("1", "eth_chainId"), { port: own.http1 });
    assert.equal(answer.status, 503);
    assert.equal(answer.headers["retry-after"], "1");
    assert.equal((JSON.parse(answer.text) as { error: { code: number } }).error.code, -32503);
  });
});
