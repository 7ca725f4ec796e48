import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { MAX_BUS_MESSAGE_BYTES, noMetrics, silentLog } from "@turnpike/base";
import { UnpaidLimit, UnpaidSharing } from "@turnpike/payment";
import { eventually, virtualClock } from "@turnpike/testkit";
import { startRedis, withoutRedis } from "@turnpike/testkit/servers";
import { RedisBus } from "./redis-bus.ts";

function busOf(url: string, id: string, group?: string) {
  const outcomes: string[] = [];
  const metrics = {
    ...noMetrics,
    count: (_: unknown, labels = {}) => void outcomes.push(...Object.values(labels).map(String)),
  };
  const clock = virtualClock();
  const opts = { url, keyPrefix: "t", id, timeoutMs: 500, ...(group === undefined ? {} : { group }) };
  const bus = new RedisBus(opts, { log: silentLog, metrics, clock });
  const heard: unknown[] = [];
  bus.subscribe("news", (message, from) => heard.push([from, message]));
  return { bus, clock, heard, outcomes };
}

const areUp = (...buses: readonly RedisBus[]) =>
  eventually("the buses connect", () => buses.every((bus) => bus.isUp()));

suite("the bus through Redis", { skip: withoutRedis() }, () => {
  test("attack: a client that spends its unpaid tokens at one machine has none at the next", async () => {
    await using redis = await startRedis();
    await using stack = new AsyncDisposableStack();
    const buses = [stack.use(busOf(redis.url, "a").bus), stack.use(busOf(redis.url, "b").bus)];
    await areUp(...buses);
    const limits = buses.map((bus) => {
      const sharing = stack.use(new UnpaidSharing({ group: bus.id, workers: 1 }, { bus }));
      const rule = { burst: 5, perSecond: 0.001 };
      return new UnpaidLimit(() => rule, { clock: virtualClock(), shared: sharing.limit("client") });
    });
    for (let times = 0; times < 5; times++) {
      const attempt = limits[0]?.begin("192.0.2.1");
      assert.ok(attempt?.ok);
      attempt.unpaid();
    }
    await eventually("it has none there", () => (limits[1]?.waitSeconds("192.0.2.1") ?? 0) > 0);
    assert.equal(limits[1]?.begin("192.0.2.2").ok, true);
  });

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
    await eventually("b hears", () => b.heard.length === 2);
    b.bus.publish("news", null);
    await eventually("a and c hear", () => a.heard.length === 1 && c.heard.length === 1);
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

  test("it goes on after Redis was away, and never throws", async () => {
    const redis = await startRedis();
    const a = busOf(redis.url, "a");
    const b = busOf(redis.url, "b");
    await using stack = new AsyncDisposableStack();
    for (const { bus } of [a, b]) stack.use(bus);
    a.bus.publish("news", "before it is connected");
    assert.deepEqual(a.outcomes, ["dropped"]);
    await areUp(a.bus, b.bus);
    await redis.kill();
    await eventually("it is found out", () => !a.bus.isUp() && !b.bus.isUp());
    a.bus.publish("news", "lost");
    assert.deepEqual(a.outcomes, ["dropped", "dropped"]);
    await using _again = await startRedis(redis.port);
    await areUp(a.bus, b.bus);
    a.bus.publish("news", "after");
    await eventually("b hears", () => b.heard.length === 1);
    assert.deepEqual(b.heard, [["a", "after"]]);
  });

  test("a Redis that hangs is found out by beats that are not heard, and one that answers is kept", async (context) => {
    // The beats alone come by a timer that repeats, so the test says when.
    context.mock.timers.enable({ apis: ["setInterval"] });
    await using redis = await startRedis();
    const a = busOf(redis.url, "a");
    const b = busOf(redis.url, "b");
    await using stack = new AsyncDisposableStack();
    for (const { bus } of [a, b]) stack.use(bus);
    await areUp(a.bus, b.bus);
    const beat = async (afterMs: number): Promise<void> => {
      for (const { clock } of [a, b]) clock.advance(afterMs);
      context.mock.timers.tick(2_000);
      await turn();
    };
    for (let round = 1; round <= 3; round++) {
      await beat(4_500);
      // Each hears its own beat before what the other says after it heard the first.
      a.bus.publish("news", round);
      await eventually("b hears a", () => b.heard.length === round * 2 - 1);
      b.bus.publish("news", round);
      await eventually("a hears b", () => a.heard.length === round);
      a.bus.publish("news", round);
      await eventually("b hears a again", () => b.heard.length === round * 2);
      assert.ok(
        a.bus.isUp() && b.bus.isUp(),
        "two beats and the time-out have not passed since the last one was heard",
      );
    }
    redis.hang();
    await beat(4_500);
    assert.ok(a.bus.isUp() && b.bus.isUp());
    a.outcomes.length = 0;
    for (let at = 0; at < 3_000; at++) a.bus.publish("news", at);
    const sent = a.outcomes.filter((outcome) => outcome === "sent").length;
    assert.ok(sent > 0 && sent < 1_000, `${sent} and the beat wait`);
    assert.equal(a.outcomes.filter((outcome) => outcome === "dropped").length, 3_000 - sent);
    await beat(1);
    assert.ok(!a.bus.isUp() && !b.bus.isUp());
    redis.resume();
    await areUp(a.bus, b.bus);
    a.bus.publish("news", "again");
    await eventually("b hears again", () => b.heard.some((one) => JSON.stringify(one).includes("again")));
  });

  test("one that is never there ends when it is told to", async () => {
    const { bus } = busOf("redis://127.0.0.1:1", "a");
    await bus[Symbol.asyncDispose]();
    assert.equal(bus.isUp(), false);
  });
});
