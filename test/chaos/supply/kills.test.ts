import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { SUPPLIER_FAULT_POINTS } from "../../../packages/supplier/src/fault-points.ts";
import { files } from "../../../tools/sources.ts";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { gatewayKills } from "./gateway-kills.ts";
import { kills } from "./kills.ts";

suite("kills of a supplier", { timeout }, () => {
  test("every fault point that the supplier's sources reach has a name", () => {
    const sources = files("packages/supplier/src/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
    const named = sources.flatMap((path) =>
      Array.from(readFileSync(path, "utf8").matchAll(/"(supplier\.[a-z.]+)"/g), ([, name]) => name),
    );
    assert.deepEqual(new Set(named), new Set<string>(SUPPLIER_FAULT_POINTS));
  });

  test("kills at every fault point forfeit no relay whose answer left", { timeout }, async (t) => {
    await runShort(kills, t);
  });
});

suite("kills of a gateway", { timeout }, () => {
  test("what suppliers served is settled, and the next gateway serves at once", { timeout }, async (t) => {
    await runShort(gatewayKills, t);
  });
});
