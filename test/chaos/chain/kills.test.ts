import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { CHAIN_FAULT_POINTS } from "../../../packages/chain/src/fault-points.ts";
import { files } from "../../../tools/sources.ts";
import { figureText } from "../chaos.ts";
import { kills } from "./kills.ts";

const timeout = 600_000;

suite("kills", { timeout }, () => {
  test("every fault point that the chain's sources reach has a name, and every name is reached", () => {
    const sources = files("packages/chain/src/**/*.ts").filter((path) => !/(\.test\.ts$|\/testing-)/.test(path));
    const named = sources.flatMap((path) =>
      Array.from(readFileSync(path, "utf8").matchAll(/aults(?:\?)?\.reach\(\s*["`]([^"`]+)["`]/g), ([, name]) => name),
    );
    assert.deepEqual(new Set(named), new Set<string>(CHAIN_FAULT_POINTS));
  });

  test("kills at random moments and at every fault point lose nothing and fork nothing", { timeout }, async (t) => {
    const { figures, skipped = [] } = await kills({ size: "short", progress: (text) => t.diagnostic(text) });
    for (const figure of figures) t.diagnostic(figureText(figure));
    for (const text of skipped) t.diagnostic(`skipped: ${text}`);
  });
});
