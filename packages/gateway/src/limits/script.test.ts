import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { createClient } from "@redis/client";
import { fc } from "@turnpike/testkit/property";
import { startRedis, type TestRedis, withoutRedis } from "@turnpike/testkit/servers";
import { CONSUME_SCRIPT } from "./script.ts";
import { SlidingWindow, tickMsOf } from "./sliding-window.ts";

const SERVER_TIME = "redis.call('TIME')";
/** The script, with the test's time (seconds and microseconds, the last two arguments) in place of the server's. */
const SCRIPT = CONSUME_SCRIPT.replace(SERVER_TIME, "{ ARGV[#ARGV - 1], ARGV[#ARGV] }");
/** So long that no key expires by the server's own time while a test runs. */
const WINDOW_MS = 60_000;
const START_MS = 1_700_000_000_000;

const connect = async (url: string) => await createClient({ url, RESP: 2 }).connect();

suite("the script of the limits, at times of the test", { skip: withoutRedis() }, () => {
  let redis: TestRedis;
  let client: Awaited<ReturnType<typeof connect>>;
  let keys = 0;

  before(async () => {
    assert.ok(CONSUME_SCRIPT.includes(SERVER_TIME));
    redis = await startRedis();
    client = await connect(redis.url);
  });
  after(async () => {
    client.destroy();
    await redis?.[Symbol.asyncDispose]();
  });

  /** One key's window: asks for items at a time, in milliseconds from an arbitrary start. */
  const windowOf = (requests: number, windowMs = WINDOW_MS) => {
    const key = `w${keys++}`;
    const consume = async (items: number, atMs: number) => {
      const micros = Math.round((START_MS + atMs) * 1_000);
      const time = [Math.floor(micros / 1_000_000), micros % 1_000_000];
      const args = [items, requests, windowMs, tickMsOf(windowMs), ...time].map(String);
      const reply = await client.eval(SCRIPT, { keys: [key], arguments: args });
      assert.ok(Array.isArray(reply));
      const [refusedBy, waitMs, used, oldestLeavesMs] = reply.map(Number);
      return { isServed: refusedBy === 0, waitMs: waitMs ?? 0, used, oldestLeavesMs };
    };
    return { key, consume };
  };

  test("the wait of a batch is that of the last item that must leave first", async () => {
    const { consume } = windowOf(10);
    for (let at = 0; at < 4; at++) assert.ok((await consume(2, at * 30)).isServed);
    // Room for 3 needs the first two to leave, for 5 the next two, and so on.
    for (const [at, items] of [3, 4, 5, 6, 7, 8, 9, 10].entries()) {
      const { isServed, waitMs } = await consume(items, 120);
      assert.deepEqual([isServed, waitMs], [false, Math.floor(at / 2) * 30 + WINDOW_MS - 120], `${items} items`);
    }
  });

  test("a place is free again to the millisecond, and not a microsecond before", async () => {
    const { consume } = windowOf(10);
    assert.ok((await consume(10, 0)).isServed);
    assert.deepEqual(await consume(1, WINDOW_MS - 0.001), { isServed: false, waitMs: 1, used: 10, oldestLeavesMs: 1 });
    assert.deepEqual(await consume(1, WINDOW_MS), { isServed: true, waitMs: 0, used: 0, oldestLeavesMs: WINDOW_MS });
  });

  test("property: what the window of one process says, for use, refusals and waits", async () => {
    const step = fc.record({
      items: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 14 })),
      afterMs: fc.oneof(
        fc.constant(0),
        fc.integer({ min: 0, max: 2_000 }),
        fc.integer({ min: 0, max: WINDOW_MS * 1.2 }),
      ),
    });
    const steps = fc.array(step, { minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 12 }), async (all, requests) => {
        const { consume, key } = windowOf(requests);
        const model = new SlidingWindow({ requests, windowMs: WINDOW_MS, maxKeys: 10, hashSeed: 7 });
        let nowMs = 5;
        const asked = all.map(async ({ items, afterMs }) => {
          nowMs += afterMs;
          const used = model.used(key, nowMs);
          const waitMs = model.waitMs(key, items, nowMs);
          if (waitMs === 0) model.add(key, items, nowMs);
          const verdict = await consume(items, nowMs);
          assert.deepEqual([verdict.used, verdict.isServed, verdict.waitMs], [used, waitMs === 0, waitMs]);
        });
        await Promise.all(asked);
        assert.ok((await client.lLen(key)) <= requests);
      }),
      { numRuns: 60 },
    );
  });

  test("property: never more than the limit in any window, whatever the time's fractions, and the wait is enough", async () => {
    const step = fc.record({
      items: fc.integer({ min: 1, max: 4 }),
      afterMicros: fc.integer({ min: 0, max: (WINDOW_MS * 1_000) / 8 }),
      waits: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const requests = 6;
        const { consume } = windowOf(requests);
        const served: { readonly atMs: number; readonly items: number }[] = [];
        let atMs = 0;
        for (const { items, afterMicros, waits } of steps) {
          atMs += afterMicros / 1_000;
          let verdict = await consume(items, atMs);
          if (!verdict.isServed) {
            assert.ok(verdict.waitMs > 0 && verdict.waitMs <= WINDOW_MS + 1, String(verdict.waitMs));
            if (!waits) continue;
            atMs += verdict.waitMs;
            verdict = await consume(items, atMs);
            assert.ok(verdict.isServed);
          }
          served.push({ atMs, items });
        }
        for (const first of served) {
          // A microsecond is the smallest step of the server's time, to which the sums here are rounded.
          const endMs = first.atMs + WINDOW_MS - 0.001;
          const inWindow = served.filter((other) => other.atMs >= first.atMs && other.atMs < endMs);
          assert.ok(inWindow.reduce((sum, { items }) => sum + items, 0) <= requests);
        }
      }),
      { numRuns: 40 },
    );
  });
});
