import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { storage } from "./storage.ts";

suite("storage", { timeout }, () => {
  test("full disks, damaged pages and missing blocks are refused with what to do, and no answer is wrong", {
    timeout,
  }, async (t) => {
    await runShort(storage, t);
  });
});
