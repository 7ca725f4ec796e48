import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { isAlive, isAppError, isRecord, silentLog } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { type Anvil, startAnvil } from "./anvil.ts";
import { StateKeeper, saveChainState, trimChainState } from "./chain-state.ts";
import { devRpc } from "./rpc.ts";
import { fundGas } from "./token.ts";

const ACCOUNT = "0x1111111111111111111111111111111111111111";
const balanceOf = async (url: string): Promise<bigint> =>
  BigInt(String(await devRpc(url, "eth_getBalance", [ACCOUNT, "latest"])));

suite("anvil", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-test-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test("answers with its chain id, and is gone after it was stopped", async () => {
    let pid = 0;
    {
      await using anvil = await startAnvil();
      pid = anvil.pid;
      assert.equal(await devRpc(anvil.url, "eth_chainId"), "0x14a34");
      assert.ok(isAlive(pid));
    }
    assert.ok(!isAlive(pid));
  });

  test("says which port is in use", async () => {
    await using anvil = await startAnvil({ accounts: 0 });
    await assert.rejects(startAnvil({ port: anvil.port }), (error) => isAppError(error, "PORT_IN_USE"));
  });

  test("a saved state outlives kill -9: blocks, transactions and balances", async () => {
    const stateFile = join(folder, "state.json");
    let hash: unknown;
    {
      const anvil: Anvil = await startAnvil({ stateFile });
      await fundGas(anvil.url, ACCOUNT, 5n);
      await devRpc(anvil.url, "anvil_mine", ["0x5"]);
      const [from] = (await devRpc(anvil.url, "eth_accounts")) as string[];
      // sync: it answers when the transaction is in a block, not before
      const mined = await devRpc(anvil.url, "eth_sendTransactionSync", [{ from, to: ACCOUNT, value: "0x2" }]);
      assert.ok(isRecord(mined));
      hash = mined.transactionHash;
      await saveChainState(anvil.url, stateFile);
      await anvil.kill();
      assert.deepEqual(await anvil.exited, { code: null, signal: "SIGKILL" });
    }
    await using again = await startAnvil({ stateFile });
    assert.equal(await balanceOf(again.url), 7n);
    assert.equal(await devRpc(again.url, "eth_blockNumber"), "0x6");
    const receipt = await devRpc(again.url, "eth_getTransactionReceipt", [hash]);
    assert.ok(isRecord(receipt));
    assert.equal(receipt.status, "0x1");
  });

  test("the state keeper saves soon after a block", async () => {
    const stateFile = join(folder, "kept.json");
    await using anvil = await startAnvil({ accounts: 0 });
    const keeper = new StateKeeper({ url: anvil.url, file: stateFile, intervalMs: 20 }, { log: silentLog });
    await fundGas(anvil.url, ACCOUNT, 9n);
    await devRpc(anvil.url, "anvil_mine", ["0x3"]);
    const saved = async (): Promise<boolean> => {
      const text = await readFile(stateFile, "utf8").catch(() => "{}");
      const state: unknown = JSON.parse(text);
      return isRecord(state) && Number(state.best_block_number) === 3;
    };
    await eventually("the state of the newest block is saved", saved);
    await keeper[Symbol.asyncDispose]();
  });

  test("a trimmed state keeps balances and the newest blocks", async () => {
    const stateFile = join(folder, "long.json");
    {
      await using anvil = await startAnvil({ noMining: true });
      await fundGas(anvil.url, ACCOUNT, 3n);
      const [from] = (await devRpc(anvil.url, "eth_accounts")) as string[];
      const send = (): Promise<unknown> =>
        devRpc(anvil.url, "eth_sendTransaction", [{ from, to: ACCOUNT, value: "0x1" }]);
      await send();
      await devRpc(anvil.url, "anvil_mine", ["0x1e"]);
      await send();
      await devRpc(anvil.url, "anvil_mine", ["0x5"]);
      await saveChainState(anvil.url, stateFile);
    }
    assert.equal(await trimChainState(stateFile, 10), true);
    const state: unknown = JSON.parse(await readFile(stateFile, "utf8"));
    assert.ok(isRecord(state) && Array.isArray(state.blocks) && Array.isArray(state.transactions));
    assert.equal(state.blocks.length, 11);
    assert.equal(state.transactions.length, 1);
    assert.equal(await trimChainState(stateFile, 10_000), false);
    await using again = await startAnvil({ stateFile });
    assert.equal(await balanceOf(again.url), 5n);
    assert.equal(await devRpc(again.url, "eth_blockNumber"), "0x23");
    assert.ok(isRecord(await devRpc(again.url, "eth_getBlockByNumber", ["0x20", true])));
    await devRpc(again.url, "anvil_mine", ["0x1"]);
    assert.equal(await devRpc(again.url, "eth_blockNumber"), "0x24");
  });

  test("a state file that is no state is named in the error", async () => {
    const stateFile = join(folder, "bad.json");
    await writeFile(stateFile, "{");
    await assert.rejects(startAnvil({ stateFile }), /did not start.*/s);
  });
});
