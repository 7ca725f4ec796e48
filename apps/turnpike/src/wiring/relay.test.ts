import assert from "node:assert/strict";
import { test } from "node:test";
import { noFaults, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { loadConfig } from "@turnpike/config";
import { evmTopic } from "@turnpike/relay";
import { FakeChain, startSocketNode, virtualClock } from "@turnpike/testkit";
import { createRelay, createSockets } from "./relay.ts";

const ETH = "eth" as ServiceId;

test("a WebSocket supplier is held against the height that the relay has learned", async () => {
  const chain = new FakeChain();
  chain.mine(20);
  await using stale = await startSocketNode(chain);
  await using good = await startSocketNode(chain);
  stale.lagBlocks = 10;
  const endpoints = [stale, good].map(({ url }, at) => ({ operator: `op${at}`, urls: { websocket: url } }));
  const config = loadConfig({ env: {}, overrides: { suppliers: { eth: { endpoints } } } });
  const catalogue = createCatalogue();
  const metrics = { count() {}, set() {}, observe() {} };
  const clock = virtualClock();
  const modules = { clock, log: silentLog, metrics, faults: noFaults };
  const service = catalogue.get("eth");
  const topic = evmTopic(["newHeads"]);
  assert.ok(service && topic);
  await using relay = createRelay(config, catalogue, modules);
  relay.memory.of(service).view.reported("http", 20, clock.monotonicMs());
  // The order is random: each time the stale one may come first.
  for (let i = 0; i < 20; i++) {
    await using sockets = createSockets(config, catalogue, modules, relay);
    const held = await sockets.subscribe(ETH, topic, { event() {}, ended() {} });
    assert.ok(held.ok);
  }
  assert.equal(stale.calls.includes("eth_subscribe"), false);
  assert.ok(stale.calls.includes("eth_blockNumber"));
});
