import assert from "node:assert/strict";
import { request } from "node:http";
import { suite, test } from "node:test";
import { noMetrics } from "@turnpike/base";
import type { RelayOutcome } from "@turnpike/relay";
import { eventually, virtualClock } from "@turnpike/testkit";
import { startTestGateway, type TestGateway } from "../../test/stand-ins.ts";
import { FreeRateLimits, type RateLimitsOptions } from "./rate-limits.ts";

const OPTIONS: RateLimitsOptions = {
  perClient: { requests: 5, windowSeconds: 60, onStoreFailure: "local" },
  perEndpoint: { requests: 1_000, windowSeconds: 60, onStoreFailure: "local" },
  maxClients: 1_000,
  hashSeed: 1,
};

const start = (trustedProxies: readonly string[]): Promise<TestGateway> =>
  startTestGateway(
    { trustedProxies },
    { limits: new FreeRateLimits(OPTIONS, { clock: virtualClock(), metrics: noMetrics, store: undefined }) },
  );

const call = (id: number): string => JSON.stringify({ jsonrpc: "2.0", id, method: "eth_blockNumber" });

async function post(
  to: TestGateway,
  body: string,
  forwarded?: string,
  localAddress = "127.0.0.1",
  path = "/relay/eth",
) {
  const headers = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  const { promise, resolve, reject } = Promise.withResolvers<{
    status: number;
    headers: NodeJS.Dict<string[]>;
    text: string;
  }>();
  const sent = request(`${to.url}${path}`, { method: "POST", headers, localAddress, agent: false }, (res) => {
    const parts: Buffer[] = [];
    res.on("data", (part: Buffer) => parts.push(part));
    res.on("end", () =>
      resolve({ status: res.statusCode ?? 0, headers: res.headersDistinct, text: Buffer.concat(parts).toString() }),
    );
  });
  sent.on("error", reject);
  sent.end(body);
  return promise;
}

suite("limits at the free door", () => {
  test("429 is a JSON-RPC error with the id, one Retry-After and the limit's headers, for that client alone", async () => {
    await using to = await start([]);
    for (let id = 0; id < 5; id++) {
      const answer = await post(to, call(id), undefined, "127.0.0.9");
      assert.notEqual(answer.status, 429);
      assert.deepEqual(answer.headers.ratelimit, [`"client";r=${4 - id};t=60`]);
    }
    // A header from a peer that is not trusted changes no client's identity.
    const refused = await post(to, call(77), "1.2.3.4", "127.0.0.9", "/relay/pocket");
    assert.equal(refused.status, 429);
    const body = JSON.parse(refused.text) as { id: unknown; error: { code: unknown } };
    assert.deepEqual([body.id, body.error.code], [77, -32005]);
    assert.deepEqual(refused.headers["retry-after"], ["60"]);
    assert.deepEqual(refused.headers["ratelimit-policy"], ['"client";q=5;w=60, "endpoint";q=1000;w=60']);
    assert.deepEqual(refused.headers.ratelimit, ['"client";r=0;t=60']);
    assert.match(refused.headers["access-control-expose-headers"]?.[0] ?? "", /RateLimit, RateLimit-Policy/);
    assert.notEqual((await post(to, call(1), undefined, "127.0.0.10")).status, 429);
  });

  test("behind a trusted proxy each forwarded client has its own count; a batch counts its items", async () => {
    await using to = await start(["127.0.0.1"]);
    const batch = (items: number): string => `[${Array.from({ length: items }, (_, id) => call(id)).join()}]`;
    assert.equal((await post(to, batch(6), "198.51.100.1")).status, 429);
    assert.notEqual((await post(to, batch(4), "198.51.100.1")).status, 429);
    assert.equal((await post(to, batch(2), "198.51.100.1")).status, 429);
    assert.notEqual((await post(to, call(1), "6.6.6.6, 198.51.100.1")).status, 429);
    assert.equal((await post(to, call(1), "7.7.7.7, 198.51.100.1")).status, 429);
    assert.notEqual((await post(to, call(1), "198.51.100.2")).status, 429);
  });

  test("slow calls of one client take so many places and no more; calls of others go on", async () => {
    await using to = await startTestGateway({ maxConcurrentPerClient: 2, trustedProxies: ["127.0.0.1"] });
    const slow = Promise.withResolvers<RelayOutcome>();
    to.relay.answer = () => slow.promise;
    const client = "198.51.100.1";
    const held = [post(to, call(1), client), post(to, `[${call(2)},${call(3)}]`, client)];
    await eventually("they are under way", () => to.relay.runs === 3);
    to.relay.answer = () => '{"jsonrpc":"2.0","id":1,"result":"0x10"}';
    const refused = await post(to, call(77), client);
    assert.equal(refused.status, 429);
    assert.match(refused.text, /"id":77,"error":\{"code":-32005,.*under way/);
    assert.deepEqual(refused.headers["retry-after"], ["1"]);
    assert.equal((await post(to, call(4), "198.51.100.2")).status, 200);
    assert.equal((await fetch(`${to.url}/v1/eth`, { method: "POST" })).status, 402);
    slow.resolve({ ok: false, code: "SUPPLIERS_FAILED", attempts: 1 });
    assert.deepEqual(
      (await Promise.all(held)).map(({ status }) => status),
      [502, 502],
    );
    assert.equal((await post(to, call(5), client)).status, 200);
  });

  test("requests of the paid routes are not counted", async () => {
    await using to = await start([]);
    for (let at = 0; at < 8; at++)
      assert.equal((await post(to, call(at), undefined, "127.0.0.9", "/v1/eth")).status, 402);
    assert.notEqual((await post(to, call(1), undefined, "127.0.0.9")).status, 429);
  });

  test("a batch that is too long counts as one request, so that reading one is not free", async () => {
    await using to = await startTestGateway(
      { maxBatchItems: 2 },
      { limits: new FreeRateLimits(OPTIONS, { clock: virtualClock(), metrics: noMetrics, store: undefined }) },
    );
    const long = `[${call(1)},${call(2)},${call(3)}]`;
    for (let left = 4; left >= 0; left--) {
      const answer = await post(to, long);
      assert.equal(answer.status, 413);
      assert.deepEqual(answer.headers.ratelimit, [`"client";r=${left};t=60`]);
    }
    assert.equal((await post(to, long)).status, 429);
  });
});
