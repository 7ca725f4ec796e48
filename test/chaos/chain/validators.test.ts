import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { validators } from "./validators.ts";
import { whyNoTestnet } from "./validators-net.ts";

suite("four validators", { timeout, skip: await whyNoTestnet() }, () => {
  test("killed, cut off, halted and brought back, they have one history, and a fifth joins by a snapshot", {
    timeout,
  }, async (t) => {
    const { skipped } = await runShort(validators, t);
    assert.equal(skipped, undefined);
  });
});
