import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { growthOf, large } from "./large.ts";

suite("a large state", { timeout }, () => {
  test("what blocks write grows no faster than the state", { timeout }, async (t) => {
    await runShort(large, t);
  });

  test("growth is the exponent", () => {
    for (const exponent of [0, 0.5, 1, 2]) {
      const points = [10, 20, 40].map((x) => [x, 3 * x ** exponent] as const);
      assert.ok(Math.abs(growthOf(points) - exponent) < 1e-9);
    }
  });
});
