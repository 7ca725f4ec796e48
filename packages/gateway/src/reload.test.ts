import assert from "node:assert/strict";
import { Agent, type IncomingMessage, request } from "node:http";
import { test } from "node:test";
import { isAppError, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { Relay, RelayOutcome, Subscriptions } from "@turnpike/relay";
import { eventually, openSocket, refusedUpgrade } from "@turnpike/testkit";
import { gatewayOptions } from "../test/options.ts";
import { option, paymentHeader, service, standInRelay, startTestGateway } from "../test/stand-ins.ts";
import { noSubscriptions } from "./generation.ts";
import type { GatewayOptions, GatewayParts } from "./types.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}';
const OPTIONS: GatewayOptions = { ...gatewayOptions, shutdownTimeoutMs: 60_000 };

function partsOf(services: readonly Service[], relay: Relay, change: Partial<GatewayParts> = {}): GatewayParts {
  const byId = new Map(services.map((item) => [item.id, item]));
  return {
    catalogue: { services: byId, get: (id) => byId.get(id as ServiceId) },
    relay,
    options: [option],
    ...change,
  };
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

function post(port: number, path: string, agent: Agent, headers: Record<string, string> = {}): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const sent = request({ port, path, method: "POST", agent, headers }, (res: IncomingMessage) => {
    let text = "";
    res.setEncoding("utf8");
    res.on("data", (part: string) => {
      text += part;
    });
    res.on("error", reject);
    res.on("end", () => resolve({ status: res.statusCode ?? 0, text }));
  });
  sent.on("error", reject);
  sent.end(CALL);
  return promise;
}

test("constant load over kept connections across 20 reloads: no request fails", { timeout: 300_000 }, async () => {
  await using to = await startTestGateway({}, {});
  const agent = new Agent({ keepAlive: true, maxSockets: 24 });
  const kinds = [
    { path: "/relay/eth", headers: {}, status: 200 },
    { path: "/v1/eth", headers: {}, status: 402 },
    { path: "/v1/eth", headers: { "payment-signature": paymentHeader() }, status: 200 },
  ];
  let isOver = false;
  const counts = new Map<string, number>();
  const client = async (at: number): Promise<void> => {
    const kind = kinds[at % kinds.length] ?? assert.fail();
    while (!isOver) {
      const { status, text } = await post(to.port, kind.path, agent, kind.headers);
      const key = status === kind.status ? "good" : `${kind.path}: ${status} ${text}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  };
  const clients = Array.from({ length: 24 }, (_, at) => client(at));
  const relays = [];
  for (let round = 1; round <= 20; round++) {
    const served = counts.get("good") ?? 0;
    const relay = standInRelay(["eth"]);
    relays.push(relay);
    const { released } = to.gateway.replace({ ...OPTIONS, maxBatchItems: round }, partsOf([service("eth")], relay));
    await released;
    // Each configuration must have served something.
    await eventually("it serves", () => (counts.get("good") ?? 0) >= served + 50);
    assert.ok(relay.runs > 0);
  }
  isOver = true;
  await Promise.all(clients);
  agent.destroy();
  assert.deepEqual([...counts.keys()], ["good"], JSON.stringify([...counts]));
  const metrics = await (await fetch(`${to.metricsUrl}/metrics`)).text();
  const unpaid = /^turnpike_gateway_requests_total\{door="paid",service="eth",status="402".*\} (\d+)$/m.exec(metrics);
  assert.ok(Number(unpaid?.[1]) > 100, "what the routes counted is not lost with them");
  assert.match(metrics, /^turnpike_gateway_config_old 0$/m);
});

test("a request in flight ends on what it began with; only then the old parts are released", async () => {
  await using to = await startTestGateway();
  const inside = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const { answer: make } = to.relay;
  to.relay.answer = (call) => {
    inside.resolve();
    return answer.promise.then((): Promise<RelayOutcome> => {
      to.relay.answer = make;
      return to.relay.send({ request: { call } } as never);
    });
  };
  const slow = fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL });
  await inside.promise;
  let isReleased = false;
  const { released } = to.gateway.replace(OPTIONS, partsOf([service("base")], standInRelay(["base"])));
  void released.then(() => {
    isReleased = true;
  });
  // The new configuration is in effect at once, and has no eth.
  assert.equal((await fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL })).status, 404);
  assert.equal((await fetch(`${to.url}/v1/eth`, { method: "POST", body: CALL })).status, 404);
  assert.equal((await fetch(`${to.url}/relay/base`, { method: "POST", body: CALL })).status, 200);
  assert.equal((await fetch(`${to.url}/ready/eth`)).status, 404);
  assert.match(await (await fetch(`${to.metricsUrl}/metrics`)).text(), /^turnpike_gateway_config_old 1$/m);
  assert.equal(isReleased, false);
  answer.resolve();
  assert.equal((await slow).status, 200);
  await released;
  const metrics = await (await fetch(`${to.metricsUrl}/metrics`)).text();
  assert.match(metrics, /^turnpike_gateway_service_ready\{service="base"\} 1$/m);
});

test("a service that was taken away is no longer ready, in metrics too", async () => {
  await using to = await startTestGateway();
  const ready = async (): Promise<string> => await (await fetch(`${to.metricsUrl}/metrics`)).text();
  assert.match(await ready(), /^turnpike_gateway_service_ready\{service="pocket"\} 1$/m);
  await to.gateway.replace(OPTIONS, partsOf([service("eth")], standInRelay(["eth"]))).released;
  assert.match(await ready(), /^turnpike_gateway_service_ready\{service="pocket"\} 0$/m);
});

test("changed options take effect for new requests: batches, bodies, places", async () => {
  await using to = await startTestGateway();
  const batch = `[${CALL},${CALL}]`;
  const send = () => fetch(`${to.url}/relay/eth`, { method: "POST", body: batch });
  assert.equal((await send()).status, 200);
  const parts = partsOf([service("eth")], to.relay);
  to.gateway.replace({ ...OPTIONS, maxBatchItems: 1 }, parts);
  assert.equal((await send()).status, 413);
  to.gateway.replace({ ...OPTIONS, maxBufferedBytes: 10 }, parts);
  assert.equal((await send()).status, 503);
  to.gateway.replace({ ...OPTIONS, maxConcurrentRequests: 0 }, parts);
  assert.equal((await send()).status, 503);
  to.gateway.replace(OPTIONS, parts);
  assert.equal((await send()).status, 200);
});

test("options that are wrong change nothing", async () => {
  await using to = await startTestGateway();
  const parts = partsOf([], standInRelay([]));
  assert.throws(
    () => to.gateway.replace({ ...OPTIONS, trustedProxies: ["nowhere"] }, parts),
    (error) => isAppError(error, "CONFIG_INVALID"),
  );
  assert.equal((await fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL })).status, 200);
});

const withSockets: Subscriptions = { ...noSubscriptions, offers: () => true };

test("WebSockets stay while nothing of theirs changes, and speak to the new relay; else they end with 1012", async () => {
  const first = partsOf([service("eth")], standInRelay(["eth"]), { subscriptions: withSockets });
  await using to = await startTestGateway({}, first);
  await using client = await openSocket(`${to.url.replace("http", "ws")}/relay/eth`);
  const number = async (): Promise<unknown> => (await client.call(1, "eth_blockNumber")).result;
  assert.equal(await number(), "0x10");
  const relay = standInRelay(["eth"]);
  relay.answer = () => '{"jsonrpc":"2.0","id":1,"result":"0x20"}';
  await to.gateway.replace({ ...OPTIONS, maxBatchItems: 7 }, { ...first, relay }).released;
  client.texts.length = 0;
  assert.equal(await number(), "0x20");
  await using second = await openSocket(`${to.url.replace("http", "ws")}/relay/eth`);
  const metrics = async (): Promise<string> => await (await fetch(`${to.metricsUrl}/metrics`)).text();
  assert.match(await metrics(), /^turnpike_gateway_websocket_connections\{service="eth"\} 2$/m);

  await to.gateway.replace(OPTIONS, { ...first, subscriptions: { ...withSockets } }).released;
  assert.equal((await client.closed).code, 1012);
  assert.equal((await second.closed).code, 1012);
  await using again = await openSocket(`${to.url.replace("http", "ws")}/relay/eth`);
  assert.equal((await again.call(1, "eth_blockNumber")).result, "0x10");
  assert.match(await metrics(), /^turnpike_gateway_websocket_connections\{service="eth"\} 1$/m);
});

test("WebSockets stay when a service that only the chain has comes or goes, and when what is sold changes", async () => {
  const eth = service("eth");
  const first = partsOf([eth], standInRelay(["eth"]), { subscriptions: withSockets });
  await using to = await startTestGateway({}, first);
  const address = to.url.replace("http", "ws");
  await using client = await openSocket(`${address}/relay/eth`);
  const served = (...services: readonly Service[]) => partsOf(services, first.relay, { subscriptions: withSockets });
  const registered = service("my-api", { families: [], paid: false, operations: new Map() });
  await to.gateway.replace(OPTIONS, served(eth, registered)).released;
  assert.equal((await refusedUpgrade(`${address}/relay/my-api`)).status, 404);
  const unsold = { ...eth, paid: false };
  await to.gateway.replace(OPTIONS, served(registered, unsold)).released;
  await to.gateway.replace(OPTIONS, served(unsold)).released;
  const answer = await Promise.race([client.call(1, "eth_blockNumber"), client.closed]);
  assert.equal("result" in answer && answer.result, "0x10");
  await to.gateway.replace(OPTIONS, served({ ...unsold, free: false })).released;
  assert.equal((await client.closed).code, 1012);
});

test("a gateway that stops during a reload ends both configurations", async () => {
  const to = await startTestGateway({ shutdownTimeoutMs: 50 });
  const inside = Promise.withResolvers<void>();
  to.relay.answer = () => {
    inside.resolve();
    return new Promise<RelayOutcome>(() => {});
  };
  const slow = fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL });
  await inside.promise;
  const { released } = to.gateway.replace({ ...OPTIONS, shutdownTimeoutMs: 50 }, partsOf([], standInRelay([])));
  const stopped = to[Symbol.asyncDispose]();
  assert.throws(
    () => to.gateway.replace(OPTIONS, partsOf([], standInRelay([]))),
    (error) => isAppError(error, "SHUTTING_DOWN"),
  );
  await stopped;
  assert.equal((await slow).status, 503);
  await released;
});

test("an answer that is still arriving keeps its supplier until its end, and takes no other request's place meanwhile", async () => {
  await using to = await startTestGateway({ maxConcurrentRequests: 1 });
  const more = Promise.withResolvers<void>();
  async function* arriving(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('{"jsonrpc":"2.0","id":1,');
    await more.promise;
    yield Buffer.from('"result":"0x10"}');
  }
  const send = to.relay.send.bind(to.relay);
  to.relay.send = async (...call) => {
    to.relay.send = send;
    const result = await send(...call);
    return result.ok ? { ...result, stream: arriving() } : result;
  };
  const slow = await fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL });
  let isReleased = false;
  const { released } = to.gateway.replace(OPTIONS, partsOf([service("eth")], to.relay));
  void released.then(() => {
    isReleased = true;
  });
  assert.equal((await fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL })).status, 200);
  assert.equal(isReleased, false);
  more.resolve();
  assert.deepEqual(await slow.json(), { jsonrpc: "2.0", id: 1, result: "0x10" });
  await released;
});
