import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultLogThrottle } from "./fault-log-throttle.ts";

test("a lasting fault is logged when it starts and once a minute, its end once", () => {
  let nowMs = 5;
  const throttle = new FaultLogThrottle({ monotonicMs: () => nowMs });
  assert.equal(throttle.onRecovery(), false);
  const logged: number[] = [];
  for (; nowMs < 130_000; nowMs += 200) if (throttle.onFailure()) logged.push(nowMs);
  assert.deepEqual(logged, [5, 60_005, 120_005]);
  assert.equal(throttle.onRecovery(), true);
  assert.equal(throttle.onRecovery(), false);
  assert.equal(throttle.onFailure(), true);
});
