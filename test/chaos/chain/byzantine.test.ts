import { test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { byzantine } from "./byzantine.ts";
import { whyNoTestnet } from "./validators-net.ts";

const skip = await whyNoTestnet();

test("no block of a byzantine proposer stops a validator", { timeout, skip }, async (t) => {
  await runShort(byzantine, t);
});
