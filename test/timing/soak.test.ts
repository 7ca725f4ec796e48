import assert from "node:assert/strict";
import test from "node:test";
import { runSoak } from "../soak/soak.ts";

// A real load of ten seconds on a gateway and suppliers in processes of their own: the suppliers' faults come by the
// machine's clock.
test("suppliers die, slow down and lie for ten seconds: no wrong answer, no crossed id, hardly an error", async (t) => {
  const summary = await runSoak({
    durationMs: 10_000,
    seed: 4,
    suppliers: 6,
    singlesPerSecond: 40,
    batchesPerSecond: 6,
    maxBatchItems: 30,
    progress: () => undefined,
    signal: t.signal,
  });
  assert.deepEqual(summary.tally.samples, []);
  assert.deepEqual(summary.faults, []);
  assert.ok(summary.tally.batchItems > 300, `${summary.tally.batchItems} items of batches`);
  // What was survived was there.
  const { good, ...bad } = summary.suppliers.answers;
  assert.ok((good ?? 0) > 0);
  assert.ok(Object.keys(bad).length >= 3, Object.keys(bad).join());
});
