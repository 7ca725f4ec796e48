import assert from "node:assert/strict";
import { test } from "node:test";
import { fuzz } from "../test/fuzz.ts";

const SEED = Number(process.env.FUZZ_SEED ?? 17);
const REQUESTS = 16_000;

test("streams meet the same fate as at node:http alone", async (t) => {
  const { differences, ...figures } = await fuzz(SEED * 1_000_000, REQUESTS);
  t.diagnostic(JSON.stringify(figures));
  assert.deepEqual(differences, []);
  assert.ok(figures.handled > REQUESTS / 4 && figures.handedOver > 100 && figures.refusals > 100);
});
