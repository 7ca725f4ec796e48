import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { LOCAL_GENESIS } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { ChainApp } from "../src/app/chain-app.ts";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import type { BlockOutcome } from "../src/app/state-machine.ts";
import type { ChainStart } from "../src/app/types.ts";
import { consensusParamsOfGenesis } from "../src/modules/consensus/consensus-module.ts";
import { ACTION, type Action, BLOCKS, txOf } from "./random-actions.ts";
import { History } from "./random-history.ts";

const HAPPENS = ["accepted", "refused", "pocket.tokenomics.EventClaimSettled"];

/** Runs the actions, with a look at each block. */
async function runActions(
  history: History,
  actions: readonly Action[],
  look: (outcome: BlockOutcome, heightBlocks: bigint) => void,
): Promise<void> {
  look(await history.block(1n, []), 1n);
  for (let height = 2n; height <= BLOCKS; height++) {
    const bySigner = new Map<string, Uint8Array>();
    for (const action of actions.filter(({ atBlock }) => atBlock === height)) {
      const [signer, message] = txOf(history, action, height) ?? [];
      if (signer === undefined || message === undefined || bySigner.has(signer.address)) continue;
      bySigner.set(signer.address, history.sign(signer, message));
    }
    look(await history.block(height, [...bySigner.values()]), height);
  }
}

test("in random histories every answer of a past height is what it was when it was the newest, and no money is lost", async () => {
  const seen = new Map<string, number>();
  const count = (what: string): void => void seen.set(what, (seen.get(what) ?? 0) + 1);
  const property = fc.asyncProperty(fc.array(ACTION, { minLength: 60, maxLength: 140 }), async (actions) => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const { machine, modules } = pocketMachine({ gasPrices: [] });
    const app = new ChainApp({ version: "0.1.35" }, { machine, store });
    const timeNanos = rfc3339ToNs(LOCAL_GENESIS.genesis_time) ?? 0n;
    await app.start({ chainId: "pocket", initialHeightBlocks: 1n, timeNanos, appState: LOCAL_GENESIS.app_state });
    const history = new History(app, modules.flatMap(({ queries }) => Object.keys(queries ?? {})).sort());
    const answers = new Map<bigint, Readonly<Record<string, string>>>();
    await runActions(history, actions, ({ results, events }, height) => {
      for (const { code } of results) count(code === 0 ? "accepted" : "refused");
      for (const { type } of events) count(type);
      history.assertMoney();
      answers.set(height, history.answers(0n));
    });
    for (const [height, then] of answers) {
      const now = history.answers(height);
      for (const [what, said] of Object.entries(then)) assert.equal(now[what], said, `${what} at ${height}`);
    }
  });
  // A shorter history with the same fault would take minutes to find.
  await fc.assert(property, { numRuns: 3, endOnFailure: true });
  // Histories are drawn until none of this is missing: now and then three have no claim that is settled.
  for (let more = 0; more < 20 && !HAPPENS.every((what) => seen.has(what)); more++) {
    await fc.assert(property, { numRuns: 1, endOnFailure: true });
  }
  // The histories are not idle.
  for (const what of HAPPENS) assert.ok(seen.has(what), what);
});

// Hashes of blocks whose sessions are settled, what was drawn and is drawn again, and which block the state is of.
const LEFT_OUT = ["session/\u0002", "session/\u0003", "block"];

test("an exported state begins a chain that has the whole of it, and settles what was open as the old one does", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(ACTION, { minLength: 100, maxLength: 140 }), async (actions) => {
      await using folder = await scratchFolder();
      const open = async (name: string, start: Pick<ChainStart, "initialHeightBlocks" | "appState" | "timeNanos">) => {
        const store = await openChainStore({ folder: join(folder.path, name) });
        const { machine } = pocketMachine({ gasPrices: [], consensusParams });
        const app = new ChainApp({ version: "0.1.35" }, { machine, store });
        await app.start({ chainId: "pocket", ...start });
        return { store, history: new History(app, []) };
      };
      const consensusParams = consensusParamsOfGenesis(LOCAL_GENESIS.consensus.params);
      const timeNanos = rfc3339ToNs(LOCAL_GENESIS.genesis_time) ?? 0n;
      const old = await open("old", { initialHeightBlocks: 1n, timeNanos, appState: LOCAL_GENESIS.app_state });
      await using _old = old.store;
      await runActions(old.history, actions, () => {});
      const { heightBlocks, time, appState } = old.history.app.exportState();
      const read = JSON.parse(JSON.stringify(appState)) as Record<string, unknown>;
      const start = { initialHeightBlocks: heightBlocks + 1n, timeNanos: rfc3339ToNs(time) ?? 0n, appState: read };
      const fresh = await open("fresh", start);
      await using _fresh = fresh.store;
      const stateOf = ({ store }: typeof old): Map<string, string> => {
        const all = [...store.at(heightBlocks).range({ prefix: new Uint8Array(0) })];
        const shown = all.map(([key, value]) => [Buffer.from(key).toString("latin1"), bytesToHex(value)] as const);
        return new Map(shown.filter(([key]) => !LEFT_OUT.some((start) => key.startsWith(start))));
      };
      const [has, had] = [stateOf(fresh), stateOf(old)];
      const differ = [...new Set([...has.keys(), ...had.keys()])].filter((key) => has.get(key) !== had.get(key));
      assert.deepEqual(differ, []);
      for (let height = heightBlocks + 1n; height <= heightBlocks + 16n; height++) {
        const [now, then] = [await fresh.history.block(height, []), await old.history.block(height, [])];
        assert.deepEqual(now.events, then.events, `block ${height}`);
      }
    }),
    { numRuns: 2, endOnFailure: true },
  );
});
