import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { clock } from "./clock.ts";

suite("clock", { timeout: 400_000 }, () => {
  test("clocks that jump get into no block, and the operator is told once", async (t) => {
    const { figures, skipped = [] } = await clock({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
