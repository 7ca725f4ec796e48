import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ChainApp } from "../src/app/chain-app.ts";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { rfc3339ToNs } from "../src/comet/time.ts";
import { openChainStore } from "../src/store/open-chain-store.ts";
import { ACTION, BLOCKS, txOf } from "./random-actions.ts";
import { GENESIS, History } from "./random-history.ts";
import { scratchFolder } from "./store/model.ts";

const HAPPENS = ["accepted", "refused", "pocket.tokenomics.EventClaimSettled"];

test("in random histories every answer of a past height is what it was when it was the newest, and no money is lost", async () => {
  const seen = new Map<string, number>();
  const count = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1);
  await fc.assert(
    fc.asyncProperty(fc.array(ACTION, { minLength: 60, maxLength: 140 }), async (actions) => {
      await using folder = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      const { machine, modules } = pocketMachine({ gasPrices: [] });
      const app = new ChainApp({ version: "0.1.35" }, { machine, store });
      const timeNanos = rfc3339ToNs(GENESIS.genesis_time) ?? 0n;
      await app.start({ chainId: "pocket", initialHeightBlocks: 1n, timeNanos, appState: GENESIS.app_state });
      const history = new History(app, modules.flatMap(({ queries }) => Object.keys(queries ?? {})).sort());
      await history.block(1n, []);
      const answers = new Map([[1n, history.answers(0n)]]);
      for (let height = 2n; height <= BLOCKS; height++) {
        const bySigner = new Map<string, Uint8Array>();
        for (const action of actions.filter(({ atBlock }) => atBlock === height)) {
          const [signer, message] = txOf(history, action, height) ?? [];
          if (signer === undefined || message === undefined || bySigner.has(signer.address)) continue;
          bySigner.set(signer.address, history.sign(signer, message));
        }
        const { results, events } = await history.block(height, [...bySigner.values()]);
        for (const { code } of results) count(code === 0 ? "accepted" : "refused");
        for (const { type } of events) count(type);
        history.assertMoney();
        answers.set(height, history.answers(0n));
      }
      for (const [height, then] of answers) {
        const now = history.answers(height);
        for (const [what, said] of Object.entries(then)) assert.equal(now[what], said, `${what} at ${height}`);
      }
    }),
    // A shorter history with the same fault would take minutes to find.
    { numRuns: 3, endOnFailure: true },
  );
  // The histories are not idle.
  for (const what of HAPPENS) assert.ok(seen.has(what), what);
});
