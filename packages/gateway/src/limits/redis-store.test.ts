import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@redis/client";
import { noMetrics, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { startRedis, withoutRedis } from "@turnpike/testkit";
import { createRateLimits, type LimitRule, type RateLimitsOptions } from "./rate-limits.ts";
import { createRedisStore } from "./redis-store.ts";
import type { LimitStore } from "./store.ts";
import type { RateLimits } from "./types.ts";

const rule = (requests: number, windowSeconds: number, change: Partial<LimitRule> = {}): LimitRule => ({
  requests,
  windowSeconds,
  onStoreFailure: "local",
  ...change,
});

/** Time for a store to notice something; far more than it needs. */
const PATIENCE_MS = 15_000;

async function until(what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!holds()) {
    assert.ok(performance.now() < end, what);
    await delay(5);
  }
}

const storeOf = (url: string, timeoutMs = 200): LimitStore =>
  createRedisStore({ url, keyPrefix: "t", timeoutMs }, { log: silentLog, metrics: noMetrics });

const limitsOf = (store: LimitStore, change: Partial<RateLimitsOptions> = {}): RateLimits =>
  createRateLimits(
    { perClient: rule(2_000, 60), perEndpoint: rule(10_000, 1), maxClients: 1_000, hashSeed: 1, ...change },
    { clock: systemClock, metrics: noMetrics, store },
  );

const ask = (clientIp: string, items = 1) => ({ clientIp, serviceId: "eth" as ServiceId, items });

suite("limits through Redis", { skip: withoutRedis() }, () => {
  test("two gateways have one count, and 2,000 of 2,400 at once are served", async () => {
    await using redis = await startRedis();
    await using a = storeOf(redis.url, 10_000);
    await using b = storeOf(redis.url, 10_000);
    await until("both connect", () => a.isUp() && b.isUp());
    const gateways = [limitsOf(a), limitsOf(b)];
    const verdicts = await Promise.all(
      Array.from({ length: 2_400 }, async (_, at) => await gateways[at % 2]?.take(ask("1.1.1.1"))),
    );
    assert.equal(verdicts.filter((verdict) => verdict?.ok === true).length, 2_000);
    const last = await gateways[0]?.take(ask("1.1.1.1"));
    assert.ok(last?.ok === false && last.retryAfterSeconds > 50 && last.retryAfterSeconds <= 60);
    assert.ok((await gateways[1]?.take(ask("1.1.1.2")))?.ok);
  });

  test("batches, the endpoint's limit, and that refused requests take nothing", async () => {
    await using redis = await startRedis();
    await using store = storeOf(redis.url, 10_000);
    await until("it connects", () => store.isUp());
    const limits = [
      { key: "c", requests: 10, windowMs: 60_000 },
      { key: "s", requests: 12, windowMs: 60_000 },
    ];
    const other = limits.map((limit) => (limit.key === "c" ? { ...limit, key: "d" } : limit));
    const usedOf = async (items: number, of = limits) => {
      const verdict = await store.take(of, items);
      return [verdict?.refusedBy, ...(verdict?.standings.map(({ used }) => used) ?? [])];
    };
    assert.deepEqual(await usedOf(9), [-1, 0, 0]);
    assert.deepEqual(await usedOf(2), [0, 9, 9]);
    assert.deepEqual(await usedOf(11), [0, 9, 9]);
    assert.deepEqual(await usedOf(1), [-1, 9, 9]);
    assert.deepEqual(await usedOf(3, other), [1, 0, 10]);
    assert.deepEqual(await usedOf(2, other), [-1, 0, 10]);
    assert.deepEqual(await usedOf(1, other), [1, 2, 12]);
  });

  test("the wait of a batch is that of the last item that must leave first", async () => {
    await using redis = await startRedis();
    await using store = storeOf(redis.url, 10_000);
    await until("it connects", () => store.isUp());
    const windowMs = 60_000;
    const limits = [{ key: "c", requests: 10, windowMs }];
    /** A take, and between which two times of this process the server made it. */
    const take = async (items: number) => {
      const sentMs = performance.now();
      const waitMs = (await store.take(limits, items))?.waitMs ?? 0;
      return { sentMs, waitMs, gotMs: performance.now() };
    };
    const taken: Awaited<ReturnType<typeof take>>[] = [];
    for (let at = 0; at < 4; at++) {
      taken.push(await take(2));
      await delay(30);
    }
    // Room for 3 needs the first two to leave, for 5 the next two, and so on. The server counts whole milliseconds.
    for (const [at, items] of [3, 4, 5, 6, 7, 8, 9, 10].entries()) {
      const { sentMs, waitMs, gotMs } = await take(items);
      const last = taken[Math.floor(at / 2)];
      assert.ok(last !== undefined);
      const what = `${items}: ${waitMs}`;
      assert.ok(gotMs + waitMs >= last.sentMs + windowMs - 3 && sentMs + waitMs <= last.gotMs + windowMs + 3, what);
    }
  });

  test("the window slides: what has left it makes room, and the wait says when", async () => {
    await using redis = await startRedis();
    await using store = storeOf(redis.url, 10_000);
    await until("it connects", () => store.isUp());
    const windowMs = 600;
    const limits = [{ key: "c", requests: 10, windowMs }];
    const served: { readonly sentMs: number; readonly gotMs: number }[] = [];
    let early = 0;
    while (served.length < 15) {
      const sentMs = performance.now();
      const verdict = await store.take(limits, 2);
      assert.ok(verdict !== undefined);
      if (verdict.refusedBy === -1) served.push({ sentMs, gotMs: performance.now() });
      else {
        early++;
        assert.ok(verdict.waitMs > 0 && verdict.waitMs <= windowMs + 1, String(verdict.waitMs));
        await delay(verdict.waitMs + 2);
        const late = performance.now();
        assert.equal((await store.take(limits, 2))?.refusedBy, -1, `not after ${verdict.waitMs} ms`);
        served.push({ sentMs: late, gotMs: performance.now() });
      }
      await delay(7);
    }
    assert.ok(early > 0);
    for (const { sentMs } of served) {
      // From sending the first to hearing of the last: what is longer on a busy machine than at the server, never shorter.
      const inWindow = served.filter((other) => other.sentMs >= sentMs && other.gotMs < sentMs + windowMs - 3).length;
      assert.ok(inWindow <= 5, `${inWindow * 2} within a window`);
    }
    await store.take([{ key: "long", requests: 10, windowMs: 60_000 }], 1);
    const raw = createClient({ url: redis.url });
    await raw.connect();
    assert.ok((await raw.pTTL("t:long")) > 0, "what nobody uses goes away");
    assert.ok((await raw.lLen("t:c")) <= 10);
    await raw.flushAll();
    await raw.scriptFlush();
    raw.destroy();
    assert.equal((await store.take(limits, 1))?.standings[0]?.used, 0, "a server without the script is given it again");
  });

  test("Redis killed in the middle: nothing fails, no request waits, and the counts go on", async () => {
    const redis = await startRedis();
    await using store = storeOf(redis.url);
    await until("it connects", () => store.isUp());
    const limits = limitsOf(store, { perClient: rule(100, 60) });
    for (let at = 0; at < 60; at++) assert.ok((await limits.take(ask("1.1.1.1"))).ok);
    const inFlight = Array.from({ length: 20 }, async () => await limits.take(ask("1.1.1.1")));
    await redis.kill();
    assert.ok((await Promise.all(inFlight)).every(({ ok }) => ok));
    await until("it is found out", () => !store.isUp());
    let served = 0;
    for (let at = 0; at < 1_000; at++) {
      const verdict = limits.take(ask("1.1.1.1"));
      assert.ok(!(verdict instanceof Promise), "without the store the answer is there at once");
      if (verdict.ok) served++;
    }
    assert.ok(served <= 20, `${served} beyond the 80 before`);
    await using again = await startRedis(redis.port);
    await until("it is used again", () => store.isUp());
    assert.equal(again.port, redis.port);
    assert.ok(!(await limits.take(ask("1.1.1.1"))).ok, "an empty Redis gives nobody a second quota");
    assert.ok((await limits.take(ask("1.1.1.2"))).ok);
  });

  test("a Redis that hangs costs a few requests their time-out, and the rest nothing", async () => {
    await using redis = await startRedis();
    await using store = storeOf(redis.url);
    await until("it connects", () => store.isUp());
    const limits = limitsOf(store, { perEndpoint: rule(10_000, 1, { onStoreFailure: "closed" }) });
    redis.hang();
    const start = performance.now();
    const verdicts = await Promise.all([1, 2, 3, 4].map(async () => await limits.take(ask("1.1.1.1"))));
    assert.ok(performance.now() - start < 2_000);
    assert.ok(
      verdicts.every(({ ok }) => !ok),
      "`closed` refuses what could not be counted",
    );
    assert.equal(store.isUp(), false);
    assert.ok(!(limits.take(ask("1.1.1.1")) instanceof Promise));
    redis.resume();
    await until("it is used again", () => store.isUp());
    assert.ok((await limits.take(ask("1.1.1.1"))).ok);
  });

  test("a store that is never there ends when it is told to", async () => {
    const store = storeOf("redis://127.0.0.1:1");
    assert.equal(store.isUp(), false);
    assert.equal(await store.take([], 1), undefined);
    await store[Symbol.asyncDispose]();
  });
});
