import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { CHAIN_FAULT_POINTS } from "../../../packages/chain-node/src/fault-points.ts";
import { files } from "../../../tools/sources.ts";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { kills } from "./kills.ts";

suite("kills", { timeout }, () => {
  test("every fault point that the chain's sources reach has a name, and every name is reached", () => {
    const sources = files("packages/{chain,chain-node,chain-store}/src/**/*.ts").filter(
      (path) => !path.endsWith(".test.ts"),
    );
    const named = sources.flatMap((path) =>
      Array.from(readFileSync(path, "utf8").matchAll(/aults(?:\?)?\.reach\(\s*["`]([^"`]+)["`]/g), ([, name]) => name),
    );
    assert.deepEqual(new Set(named), new Set<string>(CHAIN_FAULT_POINTS));
  });

  test("kills at random moments and at every fault point lose nothing and fork nothing", { timeout }, async (t) => {
    await runShort(kills, t);
  });
});
