import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { clientKey, type Labels, type MetricSpec, noMetrics, type ServiceId } from "@turnpike/base";
import { FreeRateLimits, type LimitRule, type RateLimitsOptions } from "./rate-limits.ts";
import type { LimitStore, RateVerdict, StoreVerdict } from "./types.ts";

const rule = (requests: number, windowSeconds: number, change: Partial<LimitRule> = {}): LimitRule => ({
  requests,
  windowSeconds,
  onStoreFailure: "local",
  ...change,
});

function rig(change: Partial<RateLimitsOptions> = {}, store?: LimitStore) {
  let nowMs = 1_000;
  const counted: (Labels | undefined)[] = [];
  const limits = new FreeRateLimits(
    { perClient: rule(2_000, 60), perEndpoint: rule(10_000, 1), maxClients: 1_000, hashSeed: 1, ...change },
    {
      clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
      metrics: { ...noMetrics, count: (_: MetricSpec, labels?: Labels) => void counted.push(labels) },
      store,
    },
  );
  return {
    counted,
    pass(ms: number): void {
      nowMs += ms;
    },
    limits,
    consume: (clientIp: string, items = 1, service = "eth") =>
      limits.consume({ clientIp, serviceId: service as ServiceId, items }),
    /** Of limits in memory, which answer at once. */
    now(clientIp: string, items = 1, service = "eth"): RateVerdict {
      const verdict = this.consume(clientIp, items, service);
      assert.ok(!(verdict instanceof Promise));
      return verdict;
    },
  };
}

const waitOf = (verdict: RateVerdict): number | undefined => (verdict.ok ? undefined : verdict.retryAfterSeconds);

suite("rate limits", () => {
  test("2,000 a minute a client over all services, and the next client is not touched", () => {
    const to = rig();
    for (let at = 0; at < 2_000; at++) assert.ok(to.now("127.0.0.9", 1, at % 2 ? "eth" : "base").ok);
    const refused = to.now("127.0.0.9", 1, "near");
    assert.deepEqual(refused, {
      ok: false,
      retryAfterSeconds: 60,
      headers: ["RateLimit-Policy", '"client";q=2000;w=60, "endpoint";q=10000;w=1', "RateLimit", '"client";r=0;t=60'],
    });
    assert.ok(to.now("127.0.0.10").ok);
    assert.deepEqual(to.counted, [{ limit: "client" }]);
    to.pass(59_999);
    assert.equal(waitOf(to.now("127.0.0.9")), 1);
    to.pass(1);
    assert.deepEqual(to.now("127.0.0.9").headers.slice(2), ["RateLimit", '"client";r=1999;t=60']);
  });

  test("a batch counts its items; one that is too large is refused whole and takes nothing", () => {
    const to = rig();
    assert.ok(to.now("1.1.1.1", 1_990).ok);
    assert.equal(waitOf(to.now("1.1.1.1", 11)), 60);
    assert.deepEqual(to.now("1.1.1.1", 10).headers.slice(2), ["RateLimit", '"client";r=0;t=60']);
    assert.equal(waitOf(to.now("1.1.1.2", 2_001)), 60);
    assert.ok(to.now("1.1.1.2", 2_000).ok);
  });

  test("events count against the client alone, who has nothing left when they go beyond its limit", () => {
    const to = rig({ perClient: rule(10, 60), perEndpoint: rule(1, 1) });
    assert.equal(to.limits.consumeEvents("2001:db8::1", 6), true);
    assert.ok(to.now("2001:db8::2", 1).ok, "the endpoint's limit is not touched");
    assert.equal(to.limits.consumeEvents("2001:db8::3", 4), false, "10 of the /64 with the call");
    assert.equal(waitOf(to.now("2001:db8::2", 1, "base")), 60);
    assert.equal(to.limits.consumeEvents("2001:db8:0:1::1", 10), true, "another /64");
    assert.deepEqual(to.counted, [{ limit: "client" }, { limit: "client" }]);
    to.pass(60_000);
    assert.equal(to.limits.consumeEvents("2001:db8::1", 10), true);
  });

  test("10,000 a second an endpoint; what it refuses is not the client's", () => {
    const to = rig();
    for (let at = 0; at < 5; at++) assert.ok(to.now(`9.9.9.${at}`, 2_000, "eth").ok);
    const refused = to.now("1.1.1.1", 1, "eth");
    assert.equal(waitOf(refused), 1);
    assert.equal(refused.headers[3], '"endpoint";r=0;t=1');
    assert.equal(to.now("1.1.1.1", 1, "base").headers[3], '"client";r=1999;t=60');
    to.pass(1_000);
    assert.ok(to.now("1.1.1.1", 1, "eth").ok);
    assert.deepEqual(to.counted, [{ limit: "endpoint" }]);
  });

  test("a client is an IPv4 address, however written, or a /64 of IPv6; loopback is one like others", () => {
    const alike = [
      ["1.2.3.4", "::ffff:1.2.3.4", "::FFFF:102:304", "0:0:0:0:0:ffff:1.2.3.4"],
      ["2001:db8::1", "2001:DB8:0:0:ffff::2", "2001:db8::"],
      ["fe80::1%eth0", "fe80::2"],
      ["::1", "::2"],
      ["", "unknown", "a:b", "a text that is far too long for an address"],
    ];
    const keys = alike.map((group) => new Set(group.map(clientKey)));
    for (const group of keys) assert.equal(group.size, 1, [...group].join());
    assert.equal(new Set(keys.flatMap((group) => [...group])).size, alike.length);
    assert.notEqual(clientKey("2001:db8:0:1::1"), clientKey("2001:db8::1"));
    const to = rig({ perClient: rule(1, 60) });
    assert.ok(to.now("127.0.0.1").ok);
    assert.ok(!to.now("::ffff:127.0.0.1").ok);
  });

  suite("with a store", () => {
    const good: StoreVerdict = {
      refusedBy: -1,
      waitMs: 0,
      standings: [
        { used: 4, oldestLeavesMs: 30_500 },
        { used: 7, oldestLeavesMs: 400 },
      ],
    };
    function standIn() {
      const asked: { keys: string[]; items: number }[] = [];
      const store = {
        asked,
        up: true,
        answer: good as StoreVerdict | undefined,
        isUp: () => store.up,
        async consume(limits: readonly { key: string }[], items: number) {
          asked.push({ keys: limits.map(({ key }) => key), items });
          return store.answer;
        },
        async [Symbol.asyncDispose]() {},
      };
      return store;
    }

    test("the store decides, for client and endpoint at once", async () => {
      const store = standIn();
      const to = rig({}, store);
      assert.deepEqual((await to.consume("1.1.1.1", 3)).headers.slice(2), ["RateLimit", '"client";r=1993;t=31']);
      assert.deepEqual(store.asked, [{ keys: ["c:1.1.1.1", "s:eth"], items: 3 }]);
    });

    test("what it refuses is not asked again until it may fit", async () => {
      const store = standIn();
      const to = rig({}, store);
      store.answer = { ...good, refusedBy: 0, waitMs: 5_000, standings: [{ used: 1_999, oldestLeavesMs: 1 }] };
      assert.equal(waitOf(await to.consume("1.1.1.1", 2)), 5);
      store.answer = good;
      to.pass(4_000);
      assert.equal(waitOf(await to.consume("1.1.1.1", 3)), 1);
      assert.equal(store.asked.length, 1);
      assert.ok((await to.consume("1.1.1.1", 1)).ok, "fewer may fit");
      assert.ok((await to.consume("1.1.1.2", 2)).ok);
      to.pass(1_000);
      assert.ok((await to.consume("1.1.1.1", 2)).ok);
    });

    test("events that the store refuses use up what is left there", async () => {
      const store = standIn();
      const to = rig({ perClient: rule(10, 60) }, store);
      assert.equal(await to.limits.consumeEvents("1.1.1.1", 3), true);
      store.answer = { refusedBy: 0, waitMs: 5_000, standings: [{ used: 8, oldestLeavesMs: 1 }] };
      assert.equal(await to.limits.consumeEvents("1.1.1.1", 3), false);
      assert.deepEqual(
        store.asked.map(({ keys, items }) => [...keys, items]),
        [
          ["c:1.1.1.1", 3],
          ["c:1.1.1.1", 3],
          ["c:1.1.1.1", 2],
        ],
      );
      store.answer = undefined;
      assert.equal(await to.limits.consumeEvents("1.1.1.1", 7), true, "3 were served by this process");
      assert.equal(await to.limits.consumeEvents("1.1.1.1", 1), false);
      store.up = false;
      const closed = rig({ perClient: rule(10, 60, { onStoreFailure: "closed" }) }, store);
      assert.equal(closed.limits.consumeEvents("1.1.1.1", 1), false);
      const open = rig({ perClient: rule(10, 60, { onStoreFailure: "open" }) }, store);
      assert.equal(open.limits.consumeEvents("1.1.1.1", 11), true);
    });

    test("when it fails: `local` goes on with what this process has served", async () => {
      const store = standIn();
      const to = rig({ perClient: rule(5, 60) }, store);
      for (let at = 0; at < 3; at++) assert.ok((await to.consume("1.1.1.1")).ok);
      store.answer = undefined;
      assert.ok((await to.consume("1.1.1.1")).ok);
      store.up = false;
      assert.ok(to.now("1.1.1.1").ok);
      assert.ok(!to.now("1.1.1.1").ok);
      assert.equal(store.asked.length, 4);
      store.up = true;
      store.answer = good;
      assert.ok(!(await to.consume("1.1.1.1")).ok, "what was served without the store still counts");
    });

    test("when it fails: `open` refuses nothing, `closed` everything", () => {
      const store = standIn();
      store.up = false;
      const open = rig({ perClient: rule(1, 60, { onStoreFailure: "open" }) }, store);
      for (let at = 0; at < 3; at++) assert.ok(open.now("1.1.1.1").ok);
      const closed = rig({ perEndpoint: rule(9, 1, { onStoreFailure: "closed" }) }, store);
      assert.equal(waitOf(closed.now("1.1.1.1")), 1);
      assert.deepEqual(closed.counted, [{ limit: "endpoint" }]);
    });
  });
});
