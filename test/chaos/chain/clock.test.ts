import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { clock } from "./clock.ts";

suite("clock", { timeout }, () => {
  test("clocks that jump get into no block, and the operator is told once", { timeout }, async (t) => {
    await runShort(clock, t);
  });
});
