import assert from "node:assert/strict";
import { test } from "node:test";
import { noMetrics, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { connectBuses } from "../test/buses.ts";
import { RelayMemory } from "./memory.ts";
import { Gossip, gossipDefaults } from "./quality/gossip.ts";

test("two memories tell each other what clients were shown and which breaker has opened, at once", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "setImmediate"] });
  const nowMs = 100_000;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  const service = createCatalogue({}).get("eth");
  assert.ok(service !== undefined);
  const { buses, said } = connectBuses(2);
  const processes = buses.map((bus) => {
    const modules = { clock, log: silentLog, metrics: noMetrics };
    const memory = new RelayMemory({ maxCacheBytes: 0, maxHeadAgeMs: 0 }, modules);
    const gossip = new Gossip(gossipDefaults, { ...modules, bus, source: memory });
    memory.listener = gossip;
    gossip.start();
    const quality = memory.quality(service, "bad", "json_rpc");
    const { view } = memory.of(service);
    for (const operator of ["bad", "good"]) view.reported(operator, 1_000, nowMs);
    return { memory, gossip, quality, view };
  });
  const [one, two] = processes;
  assert.ok(one !== undefined && two !== undefined);

  one.view.wasServed(1_000, nowMs);
  t.mock.timers.tick(0);
  assert.equal(two.view.served(nowMs), 1_000);
  assert.equal(two.view.mayServe(999, nowMs), false, "the next client of the other process sees no older block");

  for (let at = 0; at < 10; at++) one.quality.failed(nowMs, "timeout", 10);
  t.mock.timers.tick(0);
  assert.equal(one.quality.state(nowMs), "open");
  assert.notEqual(two.quality.state(nowMs), "closed");
  const echoed = said.filter(({ channel, from }) => from === "p1" && channel === "relay.heights");
  assert.deepEqual(echoed, []);

  one.memory.keepOnly(new Map());
  assert.deepEqual([...one.memory.qualities(), ...one.memory.heights()], []);
  for (const { gossip } of processes) await gossip[Symbol.asyncDispose]();
});
