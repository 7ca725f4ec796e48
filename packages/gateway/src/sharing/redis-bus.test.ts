import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { MAX_BUS_MESSAGE_BYTES, noMetrics, silentLog } from "@turnpike/base";
import { startRedis, withoutRedis } from "@turnpike/testkit";
import { createRedisBus, type RedisBus } from "./redis-bus.ts";

async function until(what: string, condition: () => boolean): Promise<void> {
  for (const end = performance.now() + 15_000; !condition(); ) {
    assert.ok(performance.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function busOf(url: string, id: string, group?: string) {
  const outcomes: string[] = [];
  const metrics = {
    ...noMetrics,
    count: (_: unknown, labels = {}) => void outcomes.push(...Object.values(labels).map(String)),
  };
  const opts = { url, keyPrefix: "t", id, timeoutMs: 500, ...(group === undefined ? {} : { group }) };
  const bus = createRedisBus(opts, { log: silentLog, metrics });
  const heard: unknown[] = [];
  bus.subscribe("news", (message, from) => heard.push([from, message]));
  return { bus, heard, outcomes };
}

const areUp = (...buses: readonly RedisBus[]) => until("the buses connect", () => buses.every((bus) => bus.isUp()));

suite("the bus through Redis", { skip: withoutRedis(), concurrency: true }, () => {
  test("the others hear it once, the sender and its own group do not; too much is dropped", async () => {
    await using redis = await startRedis();
    const a = busOf(redis.url, "a", "g");
    const b = busOf(redis.url, "b");
    const c = busOf(redis.url, "c", "g");
    await using stack = new AsyncDisposableStack();
    for (const { bus } of [a, b, c]) stack.use(bus);
    await areUp(a.bus, b.bus, c.bus);
    a.bus.publish("other", 1);
    a.bus.publish("news", "x".repeat(MAX_BUS_MESSAGE_BYTES * 2));
    a.bus.publish("news", { n: 1 });
    a.bus.publish("news", [2]);
    await until("b hears", () => b.heard.length === 2);
    b.bus.publish("news", null);
    await until("a and c hear", () => a.heard.length === 1 && c.heard.length === 1);
    assert.deepEqual(
      [a.heard, b.heard, c.heard],
      [
        [["b", null]],
        [
          ["a", { n: 1 }],
          ["a", [2]],
        ],
        [["b", null]],
      ],
    );
    assert.deepEqual(a.outcomes, ["sent", "dropped", "sent", "sent", "received"]);
  });

  test("it goes on after Redis was away or hung, and never throws", async () => {
    const redis = await startRedis();
    const a = busOf(redis.url, "a");
    const b = busOf(redis.url, "b");
    await using stack = new AsyncDisposableStack();
    for (const { bus } of [a, b]) stack.use(bus);
    a.bus.publish("news", "before it is connected");
    assert.deepEqual(a.outcomes, ["dropped"]);
    await areUp(a.bus, b.bus);
    await redis.kill();
    await until("it is found out", () => !a.bus.isUp() && !b.bus.isUp());
    a.bus.publish("news", "lost");
    await using again = await startRedis(redis.port);
    await areUp(a.bus, b.bus);
    a.bus.publish("news", "after");
    await until("b hears", () => b.heard.length === 1);
    assert.deepEqual(b.heard, [["a", "after"]]);
    again.hang();
    await until("a Redis that hangs is found out", () => !a.bus.isUp() && !b.bus.isUp());
    for (let at = 0; at < 3_000; at++) a.bus.publish("news", at);
    again.resume();
    await areUp(a.bus, b.bus);
    a.bus.publish("news", "again");
    await until("b hears again", () => b.heard.some((one) => JSON.stringify(one).includes("again")));
  });

  test("one that is never there ends when it is told to", async () => {
    const { bus } = busOf("redis://127.0.0.1:1", "a");
    await bus[Symbol.asyncDispose]();
    assert.equal(bus.isUp(), false);
  });
});
