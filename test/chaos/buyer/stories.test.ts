import { test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { stories } from "./stories.ts";

test("random stories of a buyer", { timeout }, async (t) => {
  await runShort(stories, t);
});
