import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noMetrics, type ServiceId } from "@turnpike/base";
import { eventually, openSocket, refusedUpgrade, virtualClock } from "@turnpike/testkit";
import { startSocketGateway } from "../../test/socket-gateway.ts";
import { startSocketStub } from "../../test/socket-stub.ts";
import { startTestGateway } from "../../test/stand-ins.ts";
import { FreeRateLimits } from "../limits/rate-limits.ts";
import { noRateLimits, type RateLimits, type RateRequest } from "../limits/types.ts";
import { CallQuotas, type CallRequest, type CallVerdict } from "./call-quotas.ts";
import type { Applications, KeyedApplication } from "./types.ts";

interface Ledger {
  served: number;
  refused: number;
  failed: number;
  taken: number;
}

/** An application of so many calls that is found by the key `good`. */
function one(quota = Number.POSITIVE_INFINITY, perSecond?: number): { applications: Applications; ledger: Ledger } {
  const ledger = { served: 0, refused: 0, failed: 0, taken: 0 };
  const application: KeyedApplication = {
    id: "app",
    accountId: "account",
    perSecond,
    accountPerSecond: undefined,
    consume(items) {
      const standing = { limit: quota, used: ledger.taken, windowSeconds: 60, resetSeconds: 30 };
      if (ledger.taken + items > quota) return { ok: false, standing };
      ledger.taken += items;
      return {
        ok: true,
        standing: quota === Number.POSITIVE_INFINITY ? undefined : { ...standing, used: ledger.taken },
      };
    },
    served(_service, items) {
      ledger.served += items;
    },
    refused(_service, items, taken) {
      ledger.refused += items;
      if (taken) ledger.taken -= items;
    },
    failed(_service, items) {
      ledger.failed += items;
    },
  };
  const find: Applications["find"] = (key) =>
    key === "good" ? application : key === "down" ? "unavailable" : "unknown";
  return { applications: { find }, ledger };
}

const quotasOf = (applications: Applications | undefined): CallQuotas =>
  new CallQuotas({ hashSeed: 1 }, { applications, clock: virtualClock(), metrics: noMetrics });
const consumer = (applications: Applications | undefined, limits: RateLimits) => {
  const quotas = quotasOf(applications);
  return (asked: CallRequest): CallVerdict | Promise<CallVerdict> => quotas.consume(limits, asked);
};

const request = (key: string | undefined, items = 1) => ({
  key,
  clientIp: "192.0.2.1",
  serviceId: "eth" as ServiceId,
  items,
});
const limitsOf = (perClient: number, perEndpoint = 100): RateLimits =>
  new FreeRateLimits(
    {
      perClient: { requests: perClient, windowSeconds: 60, onStoreFailure: "local" },
      perEndpoint: { requests: perEndpoint, windowSeconds: 60, onStoreFailure: "local" },
      maxClients: 10,
      hashSeed: 1,
    },
    { clock: virtualClock(), metrics: noMetrics, store: undefined },
  );

const call = (id: number): string => JSON.stringify({ jsonrpc: "2.0", id, method: "eth_blockNumber" });

suite("calls with keys", { timeout: 300_000 }, () => {
  test("without applications a key is ignored, and the limits do not see it", async () => {
    const seen: RateRequest[] = [];
    const limits: RateLimits = {
      ...noRateLimits,
      consume(asked) {
        seen.push(asked);
        return { ok: true, headers: ["RateLimit", "x"] };
      },
    };
    const consume = consumer(undefined, limits);
    assert.deepEqual(await consume(request("good")), { ok: true, headers: ["RateLimit", "x"] });
    assert.equal(seen[0]?.application, undefined);
  });

  test("the client's limit is not used; the endpoint's is, and what it refuses is returned to the quota", async () => {
    const { applications, ledger } = one(10, 8);
    const limits = limitsOf(1, 5);
    const consume = consumer(applications, limits);
    const first = await consume(request("good", 4));
    assert.deepEqual(first.headers, [
      "RateLimit-Policy",
      '"application";q=8;w=1, "endpoint";q=5;w=60, "quota";q=10;w=60',
      "RateLimit",
      '"application";r=4;t=1, "quota";r=6;t=30',
    ]);
    const over = await consume(request("good", 2));
    assert.ok(!over.ok && over.code === "RATE_LIMITED");
    assert.deepEqual(ledger, { served: 4, refused: 2, failed: 0, taken: 4 });
    assert.equal(over.headers[3], '"endpoint";r=1;t=60', "the limit that refuses, and no other");
    assert.ok((await consume(request(undefined))).ok);
    assert.ok(!(await consume(request(undefined))).ok, "the client had one");
    assert.ok(!(await consume(request("good"))).ok, "the endpoint had five");
  });

  test("beyond the quota nothing is asked of the limits, and the wait is until its period ends", async () => {
    const { applications, ledger } = one(1);
    const consume = consumer(applications, limitsOf(9));
    assert.ok((await consume(request("good"))).ok);
    const over = await consume(request("good"));
    assert.ok(!over.ok);
    assert.deepEqual([over.code, over.retryAfterSeconds], ["RATE_LIMITED", 30]);
    assert.deepEqual(over.headers, ["RateLimit-Policy", '"quota";q=1;w=60', "RateLimit", '"quota";r=0;t=30']);
    assert.deepEqual(ledger, { served: 1, refused: 1, failed: 0, taken: 1 });
  });

  test("an application with a limit of nothing a second is refused", async () => {
    const { applications, ledger } = one(undefined, 0);
    const consume = consumer(applications, limitsOf(9));
    const over = await consume(request("good"));
    assert.ok(!over.ok && over.code === "RATE_LIMITED");
    assert.equal(ledger.taken, 0);
  });

  test("over HTTP: 401 and 503 are JSON-RPC errors with the call's id, and a wrong key is never keyless", async () => {
    const { applications, ledger } = one();
    await using to = await startTestGateway({}, { applications });
    const post = (key: string, path = "/relay/eth") =>
      fetch(`${to.url}${path}`, { method: "POST", body: call(5), headers: { "x-api-key": key } });
    for (const [key, status, code] of [
      ["bad", 401, -32401],
      ["down", 503, -32503],
    ] as const) {
      const answer = await post(key);
      const body = (await answer.json()) as { id: unknown; error: { code: unknown } };
      assert.deepEqual([answer.status, body.id, body.error.code], [status, 5, code]);
    }
    assert.equal(to.relay.runs, 0);
    assert.equal((await post("good")).status, 200);
    to.relay.answer = async () => ({ ok: false, code: "SUPPLIERS_FAILED", attempts: 1 });
    assert.equal((await post("good")).status, 502);
    assert.deepEqual(ledger, { served: 2, refused: 0, failed: 1, taken: 2 });
    assert.equal((await post("bad", "/v1/eth")).status, 402, "the paid routes read no keys");
    const preflight = await fetch(`${to.url}/relay/key/good/eth`, {
      method: "OPTIONS",
      headers: { "access-control-request-headers": "x-api-key" },
    });
    assert.deepEqual([preflight.status, preflight.headers.get("access-control-allow-headers")], [204, "x-api-key"]);
  });

  test("over a WebSocket each message counts for the application that opened it", async () => {
    const { applications, ledger } = one(3);
    await using stub = await startSocketStub(({ id }) => JSON.stringify({ jsonrpc: "2.0", id, result: "0x1" }));
    await using here = await startSocketGateway({ chainId: 1, socketUrls: [stub.url], modules: { applications } });
    assert.equal((await refusedUpgrade(here.url, { "x-api-key": "bad" })).status, 401);
    await using client = await openSocket(here.url.replace("/relay/", "/relay/key/good/"));
    assert.equal((await client.call(1, "eth_chainId")).result, "0x1");
    client.send(`[${call(2)},${call(3)}]`);
    await client.until(2);
    assert.match(client.texts[1] ?? "", /"id":2,"error":\{"code":-32005,.*used the calls of its plan/);
    assert.deepEqual(ledger, { served: 2, refused: 2, failed: 0, taken: 2 });
  });
});

suite("events of WebSockets", () => {
  const EVENT = '{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xs","result":"0x1"}}';
  const startStub = () =>
    startSocketStub(({ id, method }) => {
      const result = method === "eth_chainId" ? "0x1" : "0xs";
      return JSON.stringify({ jsonrpc: "2.0", id, result });
    });

  test("attack: without a key they count against the client's limit, a /64 of IPv6, over all its WebSockets", async (context) => {
    context.mock.timers.enable({ apis: ["setInterval"] });
    await using stub = await startStub();
    await using here = await startSocketGateway({
      chainId: 1,
      socketUrls: [stub.url],
      options: { trustedProxies: ["127.0.0.1"] },
      modules: { limits: limitsOf(250, 100_000) },
    });
    const from = (address: string) => ({ "x-forwarded-for": address });
    await using one = await openSocket(here.url, from("2001:db8:1:2::1"));
    await using two = await openSocket(here.url, from("2001:db8:1:2:ffff::9"));
    await using other = await openSocket(here.url, from("2001:db8:1:3::1"));
    const clients = [one, two, other];
    for (const client of clients) await client.call(1, "eth_subscribe", ["newPendingTransactions"]);
    // Each client had an upgrade and a call: 204 of the /64 after these, more than 250 after the next.
    for (const count of [101, 201]) {
      for (let left = 100; left > 0; left--) stub.broadcast(EVENT);
      await Promise.all(clients.map((client) => client.until(count)));
      context.mock.timers.tick(1_000);
    }
    for (const client of [one, two]) {
      await eventually("its WebSocket is closed", () => client.socket.readyState === 3);
      const reason = "the limit of this client is used by its calls and events";
      assert.deepEqual(await client.closed, { code: 1008, reason });
    }
    assert.equal((await refusedUpgrade(here.url, from("2001:db8:1:2::2"))).status, 429, "nothing of it is left");
    stub.broadcast(EVENT);
    await other.until(202);
    assert.equal(other.socket.readyState, 1);
  });

  test("few events count within a round of pings, and those of a WebSocket that ends before at its end", async (context) => {
    context.mock.timers.enable({ apis: ["setInterval"] });
    const counted: [string, number][] = [];
    const limits: RateLimits = {
      ...noRateLimits,
      consumeEvents(clientIp, events) {
        counted.push([clientIp, events]);
        return true;
      },
    };
    await using stub = await startStub();
    const { applications, ledger } = one();
    const modules = { applications, limits };
    await using here = await startSocketGateway({ chainId: 1, socketUrls: [stub.url], modules });
    await using client = await openSocket(here.url);
    await using keyed = await openSocket(here.url.replace("/relay/", "/relay/key/good/"));
    for (const to of [client, keyed]) await to.call(1, "eth_subscribe", ["newPendingTransactions"]);
    const { served } = ledger;
    for (const count of [2, 3]) {
      stub.broadcast(EVENT);
      await Promise.all([client.until(count), keyed.until(count)]);
      if (count === 2) context.mock.timers.tick(30_000);
    }
    await eventually("the first is counted", () => counted.length === 1 && ledger.served === served + 1);
    client.socket.close(1000);
    keyed.socket.close(1000);
    await eventually("the second is counted", () => counted.length === 2 && ledger.served === served + 2);
    assert.deepEqual(counted, [
      ["127.0.0.1", 1],
      ["127.0.0.1", 1],
    ]);
  });

  test("with a key they count against the quota and as served; beyond it, or without an application, they are refused", async () => {
    const { applications, ledger } = one(5, 1);
    const quotas = quotasOf(applications);
    const limits = limitsOf(0);
    const consume = (asked: CallRequest): Promise<boolean> => quotas.consumeEvents(limits, asked);
    assert.equal(await consume(request("good", 4)), true);
    assert.equal(await consume(request("good", 2)), false);
    assert.deepEqual([ledger.taken, ledger.served, ledger.refused], [4, 4, 2]);
    assert.equal(await consume(request("gone")), false);
    // Whether the key is good cannot be found out now.
    assert.equal(await consume(request("down")), true);
  });

  test("a connection whose application has used its quota is ended; one without a key goes on", async (context) => {
    context.mock.timers.enable({ apis: ["setInterval"] });
    await using stub = await startSocketStub(({ id, method }) => {
      const result = method === "eth_chainId" ? "0x1" : "0xs";
      return JSON.stringify({ jsonrpc: "2.0", id, result });
    });
    // The upgrade, the subscription, and three events.
    const { applications, ledger } = one(5);
    await using here = await startSocketGateway({ chainId: 1, socketUrls: [stub.url], modules: { applications } });
    const base = here.url.replace("/relay/eth", "/relay");
    await using keyed = await openSocket(`${base}/key/good/eth`);
    await using keyless = await openSocket(`${base}/eth`);
    for (const client of [keyed, keyless]) await client.call(1, "eth_subscribe", ["newPendingTransactions"]);
    const event = '{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xs","result":"0x1"}}';
    const tick = (): void => context.mock.timers.tick(1_000);
    for (let count = 2; count < 5; count++) {
      stub.broadcast(event);
      await Promise.all([keyed.until(count), keyless.until(count)]);
      tick();
      await eventually("the event is counted", () => ledger.served === count + 1);
    }
    stub.broadcast(event);
    await keyed.until(5);
    tick();
    assert.deepEqual(await keyed.closed, {
      code: 1008,
      reason: "the application's calls are used, or its key is gone",
    });
    stub.broadcast(event);
    await keyless.until(6);
    assert.equal(ledger.taken, 5);
  });
});
