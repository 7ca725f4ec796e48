import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { figureText } from "../chaos.ts";
import { validators } from "./validators.ts";
import { whyNoTestnet } from "./validators-net.ts";

// Named for the test, too: the runner's own time for a test holds where only its suite has one.
const timeout = 600_000;

suite("four validators", { timeout, skip: await whyNoTestnet() }, () => {
  test("killed, cut off, halted and brought back, they have one history, and a fifth joins by a snapshot", {
    timeout,
  }, async (t) => {
    const { figures, skipped } = await validators({ size: "short", progress: (text) => t.diagnostic(text) });
    assert.equal(skipped, undefined);
    for (const figure of figures) t.diagnostic(figureText(figure));
  });
});
