import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { clock } from "./clock.ts";

const timeout = 600_000;

suite("clock", { timeout }, () => {
  test("clocks that jump get into no block, and the operator is told once", { timeout }, async (t) => {
    const { figures, skipped = [] } = await clock({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
