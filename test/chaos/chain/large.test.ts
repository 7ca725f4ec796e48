import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { growthOf, large } from "./large.ts";

const timeout = 600_000;

suite("a large state", { timeout }, () => {
  test("what blocks write grows no faster than the state", { timeout }, async (t) => {
    const { figures } = await large({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
  });

  test("growth is the exponent", () => {
    for (const exponent of [0, 0.5, 1, 2]) {
      const points = [10, 20, 40].map((x) => [x, 3 * x ** exponent] as const);
      assert.ok(Math.abs(growthOf(points) - exponent) < 1e-9);
    }
  });
});
