import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { hostile } from "./hostile.ts";

const timeout = 600_000;

suite("hostile transactions and queries", { timeout }, () => {
  test("no crash, no stall, memory flat, and an honest transaction lands within two blocks", { timeout }, async (t) => {
    const { figures, skipped = [] } = await hostile({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
