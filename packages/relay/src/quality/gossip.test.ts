import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Bus, type ServiceId, silentLog } from "@turnpike/base";
import { connectBuses } from "../../test/buses.ts";
import { ChainView } from "../chain-view/chain-view.ts";
import { Gossip, gossipDefaults, type SharedQuality } from "./gossip.ts";
import { DEFAULT_QUALITY, SupplierQuality } from "./supplier-quality.ts";

const eth = "eth" as ServiceId;

const keyOf = (operator: string): string => JSON.stringify(["eth", operator]);

/** One process: its suppliers' qualities, its view of one chain, and its gossip, on the test's clock. */
function processOf(bus: Bus, clock: { nowMs: number }, operators: readonly string[] = ["a", "b"]) {
  const qualities = new Map(operators.map((name) => [name, new SupplierQuality(DEFAULT_QUALITY)]));
  const chain = new ChainView();
  const shared: SharedQuality[] = [...qualities].map(([name, quality]) => ({
    key: keyOf(name),
    snapshot: (nowMs) => quality.snapshot(nowMs),
    absorb: (snapshot, from, nowMs) => quality.absorb(snapshot, from, nowMs),
  }));
  const heights = [
    {
      serviceId: eth,
      served: (nowMs: number) => chain.served(nowMs),
      wasServed: (heightBlocks: number, nowMs: number) => chain.wasServed(heightBlocks, nowMs),
    },
  ];
  const gossip = new Gossip(gossipDefaults, {
    bus,
    clock: { nowMs: () => clock.nowMs, monotonicMs: () => clock.nowMs },
    log: silentLog,
    source: { qualities: () => shared, heights: () => heights },
  });
  gossip.start();
  const quality = (name: string): SupplierQuality => {
    const found = qualities.get(name);
    assert.ok(found !== undefined);
    return found;
  };
  return { gossip, chain, quality };
}

/** The test's own time: timers and clock go together. */
function ownTime(t: TestContext) {
  t.mock.timers.enable({ apis: ["setInterval", "setImmediate"] });
  const clock = { nowMs: 100_000 };
  return {
    clock,
    pass: (ms: number): void => {
      clock.nowMs += ms;
      t.mock.timers.tick(ms);
    },
  };
}

test("what one process holds against a supplier, the other soon does too; an unknown supplier harms nobody", async (t) => {
  const { clock } = ownTime(t);
  const { buses, said } = connectBuses(2);
  const [first, second] = buses;
  assert.ok(first !== undefined && second !== undefined);
  const one = processOf(first, clock, ["a", "b", "only-here"]);
  const two = processOf(second, clock);
  for (let at = 0; at < 30; at++) {
    one.quality("a").failed(clock.nowMs, "timeout", 10);
    one.quality("only-here").failed(clock.nowMs, "timeout", 10);
    one.quality("b").good(clock.nowMs, 10);
  }
  assert.equal(one.quality("a").state(clock.nowMs), "open");
  const before = two.quality("a").score(clock.nowMs);
  one.gossip.publishSoon();
  t.mock.timers.tick(0);
  assert.ok(two.quality("a").score(clock.nowMs) < before, "the score went down");
  assert.notEqual(two.quality("a").state(clock.nowMs), "closed");
  assert.equal(two.quality("b").state(clock.nowMs), "closed");
  // What was heard is not passed on as one's own.
  assert.ok(!said.some(({ channel, from }) => channel === "relay.quality" && from === second.id));
  await one.gossip[Symbol.asyncDispose]();
  await two.gossip[Symbol.asyncDispose]();
});

test("what has not changed is not said, but for a refresh; a process that starts later learns all at once", async (t) => {
  const { clock, pass } = ownTime(t);
  const buses = connectBuses(1);
  const [first] = buses.buses;
  assert.ok(first !== undefined);
  const one = processOf(first, clock);
  const messages = (): number => buses.said.filter(({ channel }) => channel === "relay.quality").length;
  pass(1_000);
  assert.equal(messages(), 0, "nothing is known, so nothing is said");
  for (let at = 0; at < 30; at++) one.quality("a").good(clock.nowMs, 20);
  pass(1_000);
  assert.equal(messages(), 1);
  pass(1_000);
  assert.equal(messages(), 1);
  const two = processOf(buses.join(), clock);
  pass(1_000);
  assert.equal(messages(), 2);
  assert.equal(two.quality("a").latencyMs, 20);
  await one.gossip[Symbol.asyncDispose]();
  await two.gossip[Symbol.asyncDispose]();
});

test("hundreds of suppliers go out in messages that a bus takes; nonsense is left out", async (t) => {
  const { clock } = ownTime(t);
  const { buses, said } = connectBuses(3);
  const [first, second, stranger] = buses;
  assert.ok(first !== undefined && second !== undefined && stranger !== undefined);
  const names = Array.from({ length: 450 }, (_, at) => `operator-${at}`);
  const one = processOf(first, clock, names);
  const two = processOf(second, clock, names);
  for (const name of names) for (let at = 0; at < 9; at++) one.quality(name).failed(clock.nowMs, "timeout", 33.3);
  one.gossip.publishSoon();
  t.mock.timers.tick(0);
  const sent = said.filter(({ channel }) => channel === "relay.quality");
  assert.equal(sent.length, 3);
  assert.ok(sent.every(({ message }) => JSON.stringify(message).length < 65_536));
  assert.notEqual(two.quality("operator-449").state(clock.nowMs), "closed");

  const key = keyOf("operator-0");
  const before = two.quality("operator-0").view(clock.nowMs);
  const good = { fast: { bad: 0, all: 50 }, chronic: { bad: 0, all: 900 }, breaker: "closed", latencyMs: 1 };
  for (const nonsense of [
    null,
    [],
    { suppliers: 1 },
    { suppliers: [null, 1, {}, { key }] },
    { suppliers: [{ ...good, key, fast: { bad: 9, all: 1 } }] },
    { suppliers: [{ ...good, key, latencyMs: Number.NaN }] },
    { suppliers: [{ ...good, key, breaker: "ajar" }] },
    { suppliers: Array.from({ length: 201 }, () => ({ ...good, key })) },
  ]) {
    stranger.publish("relay.quality", nonsense);
  }
  assert.deepEqual(two.quality("operator-0").view(clock.nowMs), before);
  await one.gossip[Symbol.asyncDispose]();
  await two.gossip[Symbol.asyncDispose]();
});

test("a height that a client was shown is known elsewhere at once, and is not echoed; a lie is not believed", async (t) => {
  const { clock, pass } = ownTime(t);
  const { buses, said } = connectBuses(3);
  const [first, second, stranger] = buses;
  assert.ok(first !== undefined && second !== undefined && stranger !== undefined);
  const one = processOf(first, clock);
  const two = processOf(second, clock);
  for (const { chain } of [one, two]) {
    for (const name of ["a", "b", "c"]) chain.reported(name, 1_000, clock.nowMs);
  }
  one.chain.wasServed(1_001, clock.nowMs);
  one.gossip.heightServed(eth, 1_001);
  t.mock.timers.tick(0);
  assert.equal(two.chain.served(clock.nowMs), 1_001);
  pass(2_000);
  const heights = said.filter(({ channel }) => channel === "relay.heights");
  assert.deepEqual(heights, [{ channel: "relay.heights", message: { heights: { eth: 1_001 } }, from: first.id }]);

  for (const lie of [10 ** 9, -1, 1.5, "1002", null]) stranger.publish("relay.heights", { heights: { eth: lie } });
  stranger.publish("relay.heights", { heights: { __proto__: 1_002, toString: 1_002 } });
  stranger.publish("relay.heights", "eth");
  assert.equal(two.chain.served(clock.nowMs), 1_001);
  await one.gossip[Symbol.asyncDispose]();
  await two.gossip[Symbol.asyncDispose]();
});
