import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createClient } from "@redis/client";
import { noMetrics, type ServiceId, silentLog } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import { startRedis, type TestRedis, withoutRedis } from "@turnpike/testkit/servers";
import { FreeRateLimits, type LimitRule, type RateLimitsOptions } from "./rate-limits.ts";
import { RedisStore } from "./redis-store.ts";
import type { LimitStore, RateLimits } from "./types.ts";

const rule = (requests: number, windowSeconds: number, change: Partial<LimitRule> = {}): LimitRule => ({
  requests,
  windowSeconds,
  onStoreFailure: "local",
  ...change,
});

/** Longer than any answer takes; where it is to pass, it passes by mocked timers. */
const TIMEOUT_MS = 60_000;

/** First rest before a store connects again. */
const BACKOFF_MS = 100;

const storeOf = (url: string, keyPrefix = "t"): LimitStore =>
  new RedisStore({ url, keyPrefix, timeoutMs: TIMEOUT_MS }, { log: silentLog, metrics: noMetrics });

const connected = (...stores: readonly LimitStore[]) =>
  eventually("the stores connect", () => stores.every((store) => store.isUp()));

const limitsOf = (store: LimitStore, change: Partial<RateLimitsOptions> = {}): RateLimits =>
  new FreeRateLimits(
    { perClient: rule(2_000, 600), perEndpoint: rule(10_000, 600), maxClients: 1_000, hashSeed: 1, ...change },
    { clock: virtualClock(), metrics: noMetrics, store },
  );

const ask = (clientIp: string, items = 1) => ({ clientIp, serviceId: "eth" as ServiceId, items });

suite("limits through Redis", { skip: withoutRedis() }, () => {
  let shared: TestRedis;

  before(async () => {
    shared = await startRedis();
  });
  after(() => shared?.[Symbol.asyncDispose]());

  test("two gateways have one count, and 2,000 of 2,400 at once are served", async () => {
    await using a = storeOf(shared.url, "two");
    await using b = storeOf(shared.url, "two");
    await connected(a, b);
    const gateways = [limitsOf(a), limitsOf(b)];
    const verdicts = await Promise.all(
      Array.from({ length: 2_400 }, async (_, at) => await gateways[at % 2]?.consume(ask("1.1.1.1"))),
    );
    assert.equal(verdicts.filter((verdict) => verdict?.ok === true).length, 2_000);
    const last = await gateways[0]?.consume(ask("1.1.1.1"));
    assert.ok(last?.ok === false && last.retryAfterSeconds > 500 && last.retryAfterSeconds <= 600);
    assert.ok((await gateways[1]?.consume(ask("1.1.1.2")))?.ok);
  });

  test("batches, the endpoint's limit, and that refused requests take nothing", async () => {
    await using store = storeOf(shared.url, "batches");
    await connected(store);
    const limits = [
      { key: "c", requests: 10, windowMs: 600_000 },
      { key: "s", requests: 12, windowMs: 600_000 },
    ];
    const other = limits.map((limit) => (limit.key === "c" ? { ...limit, key: "d" } : limit));
    const usedOf = async (items: number, of = limits) => {
      const verdict = await store.consume(of, items);
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

  test("what is not used any more goes away, and a server without the script is given it again", async () => {
    await using store = storeOf(shared.url, "keys");
    await connected(store);
    const limits = [{ key: "long", requests: 10, windowMs: 600_000 }];
    await store.consume(limits, 1);
    const raw = await createClient({ url: shared.url }).connect();
    const leftMs = await raw.pTTL("keys:long");
    assert.ok(leftMs > 0 && leftMs <= 601_000, String(leftMs));
    await raw.flushAll();
    await raw.scriptFlush();
    raw.destroy();
    assert.equal((await store.consume(limits, 1))?.standings[0]?.used, 0);
    assert.equal((await store.consume(limits, 1))?.standings[0]?.used, 1);
  });

  test("Redis killed in the middle: nothing fails, no request waits, and the counts go on", async () => {
    const redis = await startRedis();
    await using store = storeOf(redis.url);
    await connected(store);
    const limits = limitsOf(store, { perClient: rule(100, 600) });
    for (let at = 0; at < 60; at++) assert.ok((await limits.consume(ask("1.1.1.1"))).ok);
    const inFlight = Array.from({ length: 20 }, async () => await limits.consume(ask("1.1.1.1")));
    await redis.kill();
    assert.ok((await Promise.all(inFlight)).every(({ ok }) => ok));
    await eventually("it is found out", () => !store.isUp());
    let served = 0;
    for (let at = 0; at < 1_000; at++) {
      const verdict = limits.consume(ask("1.1.1.1"));
      assert.ok(!(verdict instanceof Promise), "without the store the answer is there at once");
      if (verdict.ok) served++;
    }
    assert.ok(served <= 20, `${served} beyond the 80 before`);
    await using again = await startRedis(redis.port);
    await connected(store);
    assert.equal(again.port, redis.port);
    assert.ok(!(await limits.consume(ask("1.1.1.1"))).ok, "an emptied Redis resets no client's quota");
    assert.ok((await limits.consume(ask("1.1.1.2"))).ok);
  });

  test("a Redis that hangs costs a few requests their time-out, and the rest nothing", async (context) => {
    await using redis = await startRedis();
    await using store = storeOf(redis.url);
    await connected(store);
    const limits = limitsOf(store, { perEndpoint: rule(10_000, 1, { onStoreFailure: "closed" }) });
    context.mock.timers.enable({ apis: ["setTimeout"] });
    redis.hang();
    let answered = 0;
    const verdicts = [1, 2, 3, 4].map(async () => {
      const verdict = await limits.consume(ask("1.1.1.1"));
      answered++;
      return verdict;
    });
    context.mock.timers.tick(TIMEOUT_MS - 1);
    await turn();
    await turn();
    assert.deepEqual([answered, store.isUp()], [0, true]);
    context.mock.timers.tick(1);
    const refused = await Promise.all(verdicts);
    assert.ok(
      refused.every(({ ok }) => !ok),
      "`closed` refuses what could not be counted",
    );
    assert.equal(store.isUp(), false);
    assert.ok(!(limits.consume(ask("1.1.1.1")) instanceof Promise));
    await turn();
    context.mock.timers.tick(BACKOFF_MS);
    context.mock.timers.reset();
    redis.resume();
    await connected(store);
    assert.ok((await limits.consume(ask("1.1.1.1"))).ok);
  });

  test("a store that is never there ends when it is told to", async () => {
    const store = storeOf("redis://127.0.0.1:1");
    assert.equal(store.isUp(), false);
    assert.equal(await store.consume([], 1), undefined);
    await store[Symbol.asyncDispose]();
  });
});
