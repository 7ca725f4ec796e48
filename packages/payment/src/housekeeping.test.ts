import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, silentLog } from "@turnpike/base";
import { startHousekeeping } from "./housekeeping.ts";
import type { Ledger } from "./ledger-types.ts";

test("a pass releases orphans and deletes what is past its retention; what fails does not keep the rest from it", async () => {
  const calls: string[] = [];
  const { promise: pruned, resolve: prune } = Promise.withResolvers<void>();
  const fails = async (name: string): Promise<number> => {
    calls.push(name);
    throw new AppError("LEDGER_UNAVAILABLE");
  };
  const ledger: Partial<Ledger> = {
    releaseOrphans: () => fails("releaseOrphans"),
    expireAnswers: () => fails("expireAnswers"),
    async pruneReleased() {
      calls.push("pruneReleased");
      prune();
      return 0;
    },
  };
  await using _ = startHousekeeping({ everyMs: 3_600_000 }, { ledger: ledger as Ledger, log: silentLog });
  await pruned;
  assert.deepEqual(calls, ["releaseOrphans", "expireAnswers", "pruneReleased"]);
});
