import assert from "node:assert/strict";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { chainHome } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { runCommand, startTestChain } from "../../../../test/chain-part.ts";

const verify = (home: string, ...args: string[]) => runCommand(["chain", "verify", "--home", home, ...args]);

async function refusal(home: string): Promise<string> {
  const { out, error } = await verify(home);
  assert.ok(isAppError(error), `${String(error)} ${out}`);
  return `${error.code} ${error.message}`;
}

suite("turnpike chain verify", { timeout: 240_000 }, () => {
  test("a sound store, one that a node has, a damaged one, and none", async () => {
    await using chain = await startTestChain();
    const { home } = chain;
    const { storeFolder } = chainHome(home);
    // The test's node has its store elsewhere.
    assert.match(await refusal(home), /^CHAIN_HOME .* is missing: no chain ever ran in/);
    {
      await using busy = await openChainStore({ folder: storeFolder });
      assert.match(await refusal(home), /^CHAIN_STORE_BUSY /);
      assert.equal(busy.latestHeightBlocks(), undefined);
    }
    const { out, error } = await verify(home, "--json");
    assert.equal(error, undefined);
    assert.deepEqual(JSON.parse(out), { sound: true, home, height: "0", appHash: "", blocks: 0, txs: 0 });

    const file = join(storeFolder, "chain.mdb");
    const bytes = await readFile(file);
    bytes.fill(0, 2 * 4_096);
    await writeFile(file, bytes);
    assert.match(await refusal(home), /^CHAIN_STORE_DAMAGED .*Nothing of it was changed\.$/);
    assert.ok(bytes.equals(await readFile(file)), "it stays as it is");

    await rm(file);
    assert.match(await refusal(home), /^CHAIN_STORE .*chain\.mdb is missing.*restore it from a copy/);
    await assert.rejects(stat(file), { code: "ENOENT" }, "no empty one is made in its place");
  });
});
