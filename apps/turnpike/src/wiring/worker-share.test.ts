import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { loadConfig } from "@turnpike/config";
import { shareOf, workersOf } from "./worker-share.ts";

const configOf = (overrides: Readonly<Record<string, unknown>> = {}) => loadConfig({ env: {}, overrides });

test("0 workers are one for each core; the default is one", () => {
  assert.equal(workersOf(configOf()), 1);
  assert.equal(workersOf(configOf({ gateway: { workers: 3 } })), 3);
  assert.equal(workersOf(configOf({ gateway: { workers: 0 } })), Math.min(64, availableParallelism()));
  assert.throws(() => configOf({ gateway: { workers: 65 } }), /gateway\.workers/);
});

test("bounds are shared, but for a least that a worker can work with, and nothing is given out that was not there", () => {
  const config = configOf();
  const four = shareOf(config, 4, 1_234);
  assert.equal(four.gateway.port, 1_234);
  assert.equal(four.gateway.maxConnections, 5_000);
  assert.equal(four.gateway.webSockets.max, 2_500);
  assert.equal(four.gateway.webSockets.maxPerClient, config.gateway.webSockets.maxPerClient);
  assert.equal(four.relay.maxCacheBytes, config.relay.maxCacheBytes / 4);
  assert.equal(four.ledger.poolSize, 4);
  assert.deepEqual(four.limits.unpaid.perClient, { burst: 125, perSecond: 1.25 });
  assert.ok(four.limits.unpaid.perClient.burst < four.gateway.maxConcurrentRequests);
  assert.deepEqual(four.limits.perClient, config.limits.perClient);
  assert.deepEqual(four.suppliers, config.suppliers);
  const tight = configOf({
    gateway: { maxBufferedBytes: 1_048_576, maxConnections: 10, webSockets: { max: 9 } },
    ledger: { poolSize: 2 },
  });
  const part = shareOf(tight, 64, 1);
  assert.equal(part.gateway.maxBufferedBytes, 1_048_576);
  assert.ok(part.gateway.webSockets.max < part.gateway.maxConnections);
  assert.equal(part.ledger.poolSize, 2);
});
