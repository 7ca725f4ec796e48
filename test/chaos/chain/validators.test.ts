import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { validators } from "./validators.ts";
import { whyNoTestnet } from "./validators-net.ts";

suite("four validators", { timeout: 600_000, skip: await whyNoTestnet() }, () => {
  test("killed, cut off, halted and brought back, they have one history, and a fifth joins by a snapshot", async (t) => {
    const { figures, skipped } = await validators({ size: "short", progress: (text) => t.diagnostic(text) });
    assert.equal(skipped, undefined);
    for (const figure of figures) t.diagnostic(figureText(figure));
  });
});
