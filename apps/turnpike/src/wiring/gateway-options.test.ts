import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "@turnpike/config";
import { gatewayOptions } from "./gateway.ts";

test("no connection counts as stalled while a paid call may still be waiting for its answer", () => {
  const stallOf = (overrides: Record<string, unknown>): number =>
    gatewayOptions(loadConfig({ env: {}, overrides })).stallTimeoutMs;
  assert.equal(stallOf({}), 120_000);
  const slow = { gateway: { upstreamTimeoutMs: 120_000 }, payment: { settleWaitMs: 300_000 } };
  assert.ok(stallOf(slow) > 420_000);
});
