import { test } from "node:test";
import { withoutNginx } from "../../support/nginx.ts";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { besideNginx } from "./nginx.ts";

test("what the fast way takes for requests is what nginx forwards", { timeout, skip: withoutNginx }, async (t) => {
  await runShort(besideNginx, t);
});
