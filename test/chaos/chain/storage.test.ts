import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { storage } from "./storage.ts";

const timeout = 600_000;

suite("storage", { timeout }, () => {
  test("full disks, damaged pages and missing blocks are refused with what to do, and no answer is wrong", {
    timeout,
  }, async (t) => {
    const { figures, skipped = [] } = await storage({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
