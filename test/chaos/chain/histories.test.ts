import { test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { histories } from "./histories.ts";

test("generated histories, changed geneses and messages at their limits", { timeout }, async (t) => {
  await runShort(histories, t);
});
