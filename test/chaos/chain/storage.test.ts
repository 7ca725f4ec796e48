import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { storage } from "./storage.ts";

suite("storage", { timeout: 400_000 }, () => {
  test("full disks, damaged pages and missing blocks are refused with what to do, and no answer is wrong", async (t) => {
    const { figures, skipped = [] } = await storage({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
