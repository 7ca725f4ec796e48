import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import { chainHome, makeSnapshot, SnapshotFolder } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { loadConfig } from "@turnpike/config";
import { runCommand, startTestChain } from "../../../../test/chain-part.ts";
import { startChain } from "../../../wiring/chain.ts";

interface Shown {
  readonly height: string;
  readonly chunks: number;
  readonly entries: number;
  readonly hash: string;
  readonly appHash: string;
  readonly isNew?: boolean;
}

suite("turnpike chain snapshot", { timeout: 180_000 }, () => {
  test("makes one of a node that is stopped, shows them, and says what to do where it cannot", async () => {
    const chain = await startTestChain();
    const { home } = chain;
    await using _ = chain;
    const snapshot = (...args: string[]) => runCommand(["chain", "snapshot", ...args, "--home", home, "--json"]);
    const refusal = async (...args: string[]): Promise<string> => {
      const { error } = await snapshot(...args);
      assert.ok(isAppError(error), String(error));
      return `${error.code} ${error.message}`;
    };
    assert.match(await refusal(), /^CHAIN_HOME .* has no block yet/);
    assert.match(await refusal("--height", "0"), /^USAGE --height: expected a height/);
    {
      await using busy = await openChainStore({ folder: chainHome(home).storeFolder });
      assert.match(await refusal(), /^CHAIN_STORE_BUSY .*set chain\.snapshots\.everyBlocks\.$/);
      await busy.commit({ heightBlocks: 0n, changes: [], records: [] });
    }
    const none = JSON.parse((await snapshot("list")).out) as { snapshots: Shown[] };
    assert.deepEqual(none.snapshots, []);
    const nowhere = join(home, "nowhere");
    for (const words of [[], ["list"]]) {
      const { error } = await runCommand(["chain", "snapshot", ...words, "--home", nowhere]);
      assert.ok(isAppError(error, "CHAIN_HOME"), String(error));
      assert.match(error.message, /nowhere\/config\/genesis\.json is missing: .*nowhere is no folder of a node\.$/);
    }
    mkdirSync(nowhere);
    writeFileSync(join(nowhere, "testnet.json"), "{}");
    for (const words of [[], ["list"]]) {
      const { error } = await runCommand(["chain", "snapshot", ...words, "--home", nowhere]);
      assert.ok(isAppError(error, "CHAIN_HOME"), String(error));
      assert.ok(error.message.endsWith(`is a testnet's; name a node of it, such as --home ${join(nowhere, "node0")}.`));
    }
  });

  test("the embedded engine warns that it makes none by itself", async () => {
    await using chain = await startTestChain();
    const warned: string[] = [];
    const log: Log = { ...silentLog, warn: (_fields: object, text: string) => warned.push(text) };
    const free = { port: 0 };
    for (const everyBlocks of [0, 5]) {
      const overrides = { chain: { rpc: free, rest: free, grpc: free, snapshots: { everyBlocks } } };
      await using _ = await startChain(loadConfig({ env: {}, overrides }), chain.home, { log });
      const found = warned.filter((text) => /everyBlocks has no effect; npx turnpike chain snapshot makes/.test(text));
      assert.equal(found.length, everyBlocks === 0 ? 0 : 1, warned.join("; "));
    }
  });

  test("a snapshot that is there is shown as it is, by list as well", async () => {
    await using chain = await startTestChain();
    const { home } = chain;
    const { snapshotsFolder } = chainHome(home);
    const folder = new SnapshotFolder({ folder: snapshotsFolder }, { log: silentLog });
    await using store = await openChainStore({ folder: `${home}/other` });
    await store.commit({ heightBlocks: 1n, changes: [[Buffer.from("a"), Buffer.from("b")]], records: [] });
    const made = await makeSnapshot({ heightBlocks: 1n }, { store, folder });
    const { out, error } = await runCommand(["chain", "snapshot", "list", "--home", home]);
    assert.equal(error, undefined);
    const appHash = Buffer.from(made.appHash).toString("hex");
    assert.match(out, new RegExp(`^height 1 {2}1 entries {2}[0-9.]+ kB in 1 chunk {2}app hash ${appHash}\n$`));
  });
});
