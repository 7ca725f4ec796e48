import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient } from "@redis/client";
import { noMetrics, silentLog } from "@turnpike/base";
import { RedisStore } from "@turnpike/gateway";
import { eventually } from "@turnpike/testkit";
import { startRedis, withoutRedis } from "@turnpike/testkit/servers";

// Time of these windows is the Redis server's own, which no test can move: the rest of what the script does is tested
// at times of the test, beside it.
test("limits through Redis: the window slides by the server's own time", { skip: withoutRedis() }, async () => {
  await using redis = await startRedis();
  const modules = { log: silentLog, metrics: noMetrics };
  await using store = new RedisStore({ url: redis.url, keyPrefix: "t", timeoutMs: 60_000 }, modules);
  await eventually("the store connects", () => store.isUp());
  const raw = await createClient({ url: redis.url }).connect();
  const serverMs = async (): Promise<number> => {
    const [seconds = "0", micros = "0"] = await raw.sendCommand<string[]>(["TIME"]);
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  };
  const windowMs = 1_000;
  const limits = [{ key: "c", requests: 10, windowMs }];
  const take = () => store.consume(limits, 10);
  const startMs = await serverMs();
  // In one write, so that the server runs them one after the other.
  const [first, second] = await Promise.all([take(), take()]);
  assert.deepEqual([first?.refusedBy, second?.refusedBy, second?.standings[0]?.used], [-1, 0, 10]);
  assert.ok(second !== undefined && second.waitMs > 0 && second.waitMs <= windowMs + 1, String(second?.waitMs));
  await eventually("there is room again", async () => (await take())?.refusedBy === -1);
  assert.ok((await serverMs()) - startMs >= windowMs, "not before the first have left the window");
  raw.destroy();
});
