import assert from "node:assert/strict";
import { test } from "node:test";
import { fuzz } from "../test/fuzz.ts";

const SEED = Number(process.env.FUZZ_SEED ?? 17);
const REQUESTS = 8_000;

for (const isDeferred of [true, false]) {
  test(`streams meet the same fate as at node:http alone, responses ${isDeferred ? "deferred" : "at once"}`, async (t) => {
    const { differences, ...figures } = await fuzz(SEED * 1_000_000, REQUESTS, { isDeferred });
    t.diagnostic(JSON.stringify(figures));
    assert.deepEqual(differences, []);
    assert.ok(figures.handled > REQUESTS / 4 && figures.handedOver > 100 && figures.refusals > 100);
  });
}
