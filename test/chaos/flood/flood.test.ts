import { suite, test } from "node:test";
import { runShort, SHORT_TIMEOUT_MS as timeout } from "../run-short.ts";
import { FLOOD_PARTS } from "./parts.ts";

suite("floods of connections from one address, at every server", () => {
  for (const [attack, part] of Object.entries(FLOOD_PARTS)) {
    test(`${attack}: another address is answered, and the attacker is cut off`, { timeout }, async (t) => {
      await runShort(part, t);
    });
  }
});
