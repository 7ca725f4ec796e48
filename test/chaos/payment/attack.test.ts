import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { attack } from "./attack.ts";

suite("attackers, all at once", { timeout }, () => {
  test("no call is served unpaid or charged in vain, no payment settles twice, and none is lost", {
    timeout,
  }, async (t) => {
    await runShort(attack, t);
  });
});
