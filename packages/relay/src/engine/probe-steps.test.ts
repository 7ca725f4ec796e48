import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import {
  probeResult,
  rpcAnswer,
  startUpstream,
  type Upstream,
  type UpstreamCall,
  virtualClock,
} from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { createRelayEngine } from "../create-relay-engine.ts";

const clock = virtualClock();

/** Probes a supplier once, and tells what it was asked and whether it counts as healthy. */
async function probed(answer: (call: UpstreamCall) => string): Promise<readonly [asked: string, missing: string]> {
  await using upstream: Upstream = await startUpstream((call, response) => response.end(rpcAnswer(call, answer(call))));
  const suppliers = {
    eth: { endpoints: [{ operator: "one", urls: { json_rpc: upstream.url } }], timeoutMs: 60_000, maxAttempts: 1 },
  };
  await using relay = createRelayEngine(
    { ...engineOptions, connectTimeoutMs: 60_000, suppliers, probeIntervalMs: 60_000 },
    {
      catalogue: createCatalogue({}).services,
      clock,
      log: silentLog,
      metrics: noMetrics,
      random: () => 0.5,
    },
  );
  await relay.start();
  const asked = upstream.calls.map(({ method, params }) => [method, ...(params as readonly unknown[])].join(" "));
  return [asked.join(", "), relay.missing("eth" as ServiceId)?.join() ?? "not served"];
}

const NO_METHOD = '"error":{"code":-32601,"message":"the method does not exist"}';
const node = (call: UpstreamCall): string => probeResult(call, "0x1", "0x64");
const isBlock = ({ method }: UpstreamCall): boolean => method === "eth_getBlockByNumber";
const isFinal = ({ params }: UpstreamCall): boolean => JSON.stringify(params).includes("finalized");
const ALL = "eth_chainId, eth_getBlockByNumber latest false, eth_getBlockByNumber finalized false";

test("a supplier that does not tell what is final is healthy", async () => {
  assert.deepEqual(await probed(node), [ALL, ""]);
  assert.deepEqual(await probed((call) => (isFinal(call) ? NO_METHOD : node(call))), [ALL, ""]);
  assert.deepEqual(await probed((call) => (isFinal(call) ? '"result":null' : node(call))), [ALL, ""]);
});

test("a supplier that gives no newest block is asked for its height", async () => {
  const asked = "eth_chainId, eth_getBlockByNumber latest false, eth_blockNumber, eth_getBlockByNumber finalized false";
  assert.deepEqual(await probed((call) => (isBlock(call) ? NO_METHOD : node(call))), [asked, ""]);
  assert.deepEqual(await probed((call) => (isBlock(call) ? '"result":"0x64"' : node(call))), [asked, ""]);
});

test("a supplier that knows neither is down", async () => {
  const [asked, missing] = await probed((call) => (call.method === "eth_chainId" ? node(call) : NO_METHOD));
  assert.match(asked, /^eth_chainId, eth_getBlockByNumber latest false, eth_blockNumber\b/);
  assert.equal(missing, "a healthy supplier");
});
