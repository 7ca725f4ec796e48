import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, type RequestId, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { type BackendCall, type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import { rpcAnswer, startEvmUpstream, startUpstream, type Upstream, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import { parseFreePath, parseFreeRpc } from "../families/free-call.ts";
import type { RelayEngine } from "./relay-engine.ts";

const { services } = createCatalogue({});
const clock = virtualClock();
const serviceOf = (id: string) => {
  const service = services.get(id as ServiceId);
  assert.ok(service !== undefined);
  return service;
};

function request(id: string, call: BackendCall): FreeRequest {
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: id as ServiceId, call };
  return mintFree({
    request: mintParsed({ ...facts, requestHash: new Uint8Array(0) }),
    deadlineMs: clock.monotonicMs() + 180_000,
  });
}

function relayTo(id: string, rpcType: "json_rpc" | "comet_bft", upstreams: readonly Upstream[]): RelayEngine {
  const endpoints = upstreams.map(({ url }, at) => ({ operator: `op${at}`, urls: { [rpcType]: url } }));
  return createRelayEngine(
    {
      ...engineOptions,
      connectTimeoutMs: 60_000,
      suppliers: { [id]: { endpoints, timeoutMs: 60_000, maxAttempts: 3 } },
    },
    { catalogue: services, clock, log: silentLog, metrics: noMetrics, random: () => 0 },
  );
}

test("that a supplier lacks an invented method says nothing about others that the catalogue does not declare", async () => {
  const unknown = '"error":{"code":-32601,"message":"the method does not exist/is not available"}';
  const known = '"result":"0x5"';
  const starting = ["", "own_method"].map((own) =>
    startEvmUpstream((call, response) => response.end(rpcAnswer(call, call.method === own ? known : unknown))),
  );
  const [without, having] = await Promise.all(starting);
  assert.ok(without !== undefined && having !== undefined);
  await using _first = without;
  await using _second = having;
  await using relay = relayTo("eth", "json_rpc", [without, having]);
  const ask = async (method: string): Promise<string> => {
    const bodyText = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`;
    const body = Buffer.from(bodyText);
    const id = { start: 22, end: 23 };
    const rpc = { method, params: [], body, bodyText, id, rawId: "1", paramsSpan: undefined, isPlain: true };
    const parsed = parseFreeRpc(serviceOf("eth"), rpc);
    assert.ok(parsed.ok);
    const call = { ...parsed.call, isRead: true };
    const result = await relay.send(request("eth", call));
    return result.ok ? Buffer.from(result.body).toString() : result.code;
  };
  const asked = (): number => without.paid().filter(({ method }) => method === "own_method").length;
  assert.match(await ask("own_method"), /"result":"0x5"/);
  assert.equal(asked(), 1);
  assert.match(await ask("foo_bar"), /-32601/);
  assert.match(await ask("own_method"), /"result":"0x5"/);
  assert.equal(asked(), 1, "the supplier that lacks it is not asked again");
});

test("a query with question marks reaches the supplier whole", async () => {
  await using upstream = await startUpstream((_call, response) => response.writeHead(404).end());
  const service = [...services.values()].find(({ families }) => families.includes("cosmos"));
  assert.ok(service !== undefined);
  await using relay = relayTo(service.id, "comet_bft", [upstream]);
  const path = {
    verb: "GET",
    path: "/abci_query",
    query: '?path="/store/a?b"&height=5',
    body: new Uint8Array(0),
  } as const;
  const parsed = parseFreePath(service, path);
  assert.ok(parsed.ok, JSON.stringify(parsed));
  await relay.start();
  await relay.send(request(service.id, parsed.call));
  const sent = upstream.calls
    .map((call) => decodeURIComponent(call.path))
    .filter((one) => one.startsWith("/abci_query?"));
  assert.deepEqual([...new Set(sent)], ['/abci_query?path="/store/a?b"&height=5']);
});
