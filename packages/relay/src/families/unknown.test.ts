import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, type RequestId, type ServiceId, type SettlementId, silentLog } from "@turnpike/base";
import { createCatalogue, type Service, withRegistered } from "@turnpike/catalogue";
import {
  type BackendCall,
  type FreeRequest,
  mintFree,
  mintPaid,
  mintParsed,
  type PaidRequest,
} from "@turnpike/protocol";
import { eventually, rpcAnswer, startUpstream, type Upstream, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import type { RelayEngine } from "../engine/relay-engine.ts";
import type { RelayOutcome } from "../types.ts";
import { type FreeRpc, parseFreePath, parseFreeRpc, takesPaths } from "./free-call.ts";
import { parsePaid } from "./registry.ts";

const ID = "my-api" as ServiceId;
const clock = virtualClock();

const registered = withRegistered(createCatalogue({}), [{ id: ID, ownerAddress: "pokt1owner" }]);
const found = registered.get(ID);
assert.ok(found !== undefined);
const service: Service = found;

const declared = createCatalogue({
  added: [
    {
      id: "my-rpc",
      name: "Mine",
      description: "What it answers.",
      category: "web",
      families: [],
      operations: [{ name: "thing_read", rpcType: "json_rpc", description: "", read: true }],
    },
  ],
});

function rpc(method: string): FreeRpc {
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method }));
  const at = body.indexOf('"id":') + 5;
  const text = { bodyText: body.toString(), rawId: "1", isPlain: true, paramsSpan: undefined };
  return { method, params: undefined, body, id: { start: at, end: at + 1 }, ...text };
}

function parsed(made: ReturnType<typeof parseFreeRpc>): BackendCall {
  assert.ok(made.ok, JSON.stringify(made));
  return made.call;
}

const path = (verb: "GET" | "POST", at: string) =>
  parseFreePath(service, { verb, path: at, query: "?a=1", body: Buffer.from("{}") });

function free(call: BackendCall): FreeRequest {
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: ID, requestHash: new Uint8Array(0) };
  return mintFree({ request: mintParsed({ ...facts, call }), deadlineMs: clock.monotonicMs() + 180_000 });
}

function paidRead(): PaidRequest {
  const sold = declared.get("my-rpc");
  assert.ok(sold !== undefined);
  const body = Buffer.from('{"method":"thing_read"}');
  const call = parsed(parsePaid(sold, { verb: "POST", appendedPath: "", query: "", body }));
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: sold.id, requestHash: new Uint8Array(32) };
  const deadlineMs = clock.monotonicMs() + 180_000;
  return mintPaid({ settlementId: "s" as SettlementId, request: mintParsed({ ...facts, call }), deadlineMs });
}

function relayTo(upstreams: readonly Upstream[], catalogue = registered, id: string = ID): RelayEngine {
  const endpoints = upstreams.map(({ url }, at) => ({ operator: `op${at}`, urls: { json_rpc: url, rest: url } }));
  return createRelayEngine(
    {
      ...engineOptions,
      suppliers: { [id]: { endpoints, timeoutMs: 60_000, maxAttempts: 3 } },
      probeIntervalMs: 60_000,
      connectTimeoutMs: 60_000,
    },
    { catalogue: catalogue.services, clock, log: silentLog, metrics: noMetrics, random: () => 0 },
  );
}

const show = (outcome: RelayOutcome): string =>
  outcome.ok
    ? `${outcome.operator} ${Buffer.from(outcome.body).toString()}`
    : `${outcome.code} after ${outcome.attempts}`;

test("a service without a family takes any method and any path of good form, and none counts as a read", () => {
  const made = parsed(parseFreeRpc(service, rpc("eth_getBalance")));
  assert.deepEqual([made.rpcType, made.operation, made.isRead], ["json_rpc", "undeclared", undefined]);
  assert.ok(takesPaths(service));
  for (const verb of ["GET", "POST"] as const) {
    const call = parsed(path(verb, "/v1/things/7"));
    assert.deepEqual([call.rpcType, call.path, call.isRead], ["rest", "/v1/things/7?a=1", undefined]);
  }
  assert.deepEqual(path("GET", "/v1/%2e%2e/admin"), { ok: false, code: "BAD_PATH" });
});

test("nothing of it is sold: no method, no path, whatever it is called", () => {
  assert.equal(service.paid, false);
  for (const method of ["eth_getBalance", "GET /v1/things", "POST /"]) {
    const body = Buffer.from(JSON.stringify({ method }));
    const refused = parsePaid(service, { verb: "POST", appendedPath: "", query: "", body });
    assert.equal(refused.ok, false, method);
  }
});

for (const [name, call] of [
  ["JSON-RPC", parsed(parseFreeRpc(service, rpc("eth_chainId")))],
  ["GET", parsed(path("GET", "/v1/things"))],
] as const) {
  test(`${name}: what failed is not asked again, and equal calls are neither kept nor joined`, async () => {
    await using bad = await startUpstream((_, response) => response.writeHead(500).end());
    await using other = await startUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x1"')));
    await using relay = relayTo([bad, other]);
    await relay.start();
    assert.equal(show(await relay.send(free(call))), "SUPPLIERS_FAILED after 1");
    assert.deepEqual([bad.calls.length, other.calls.length], [1, 0], "no probe, no retry");

    await using alone = relayTo([other]);
    const outcomes = await Promise.all([1, 2, 3].map(() => alone.send(free(call))));
    assert.ok(outcomes.every(({ ok }) => ok));
    await alone.send(free(call));
    assert.equal(other.calls.length, 4);
  });
}

test("a slow supplier gets no hedge beside it", async () => {
  const waiting = Promise.withResolvers<void>();
  await using slow = await startUpstream((asked, response) => {
    void waiting.promise.then(() => response.end(rpcAnswer(asked, '"result":"slow"')));
  });
  await using other = await startUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"quick"')));
  await using relay = relayTo([slow, other]);
  const sent = relay.send(free(parsed(parseFreeRpc(service, rpc("eth_chainId")))));
  await eventually("the call at the slow supplier", () => Promise.resolve(slow.calls.length === 1));
  clock.advance(20_000);
  waiting.resolve();
  assert.match(show(await sent), /slow/);
  assert.equal(other.calls.length, 0);
});

test("an error of a back-end reaches a free client, is not held against the supplier, and is never sold", async () => {
  await using upstream = await startUpstream((asked, response) => {
    response.end(rpcAnswer(asked, '"error":{"code":-32000,"message":"no such thing"}'));
  });
  await using relay = relayTo([upstream]);
  for (let i = 0; i < 10; i++) {
    assert.match(show(await relay.send(free(parsed(parseFreeRpc(service, rpc("x_y")))))), /no such thing/);
  }
  assert.equal(relay.inspect(ID)[0]?.suppliers[0]?.breaker, "closed");

  await using seller = relayTo([upstream], declared, "my-rpc");
  assert.equal(show(await seller.send(paidRead())), "SUPPLIERS_FAILED after 1");
});

test("a declared read is sold by its form, and is neither kept, joined nor asked again", async () => {
  await using bad = await startUpstream((_, response) => response.writeHead(500).end());
  await using other = await startUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x1"')));
  await using relay = relayTo([bad, other], declared, "my-rpc");
  assert.equal(show(await relay.send(paidRead())), "SUPPLIERS_FAILED after 1");
  assert.equal(other.calls.length, 0, "no second supplier");

  await using alone = relayTo([other], declared, "my-rpc");
  const call = paidRead().request.call;
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: "my-rpc" as ServiceId };
  const request = mintParsed({ ...facts, requestHash: new Uint8Array(0), call });
  const read = mintFree({ request, deadlineMs: clock.monotonicMs() + 180_000 });
  await Promise.all([1, 2, 3].map(() => alone.send(read)));
  await alone.send(read);
  assert.equal(other.calls.length, 4);
});
