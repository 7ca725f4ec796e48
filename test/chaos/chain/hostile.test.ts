import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { hostile } from "./hostile.ts";

suite("hostile transactions and queries", { timeout }, () => {
  test("no crash, no stall, memory flat, and an honest transaction lands within two blocks", { timeout }, async (t) => {
    await runShort(hostile, t);
  });
});
