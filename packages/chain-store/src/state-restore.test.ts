import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { blockOf } from "../test/model.ts";
import { LmdbChainStore } from "./chain-store.ts";
import { openChainStore } from "./open-chain-store.ts";
import { openFolder } from "./store-folder.ts";

const entry = [Buffer.from("key"), Buffer.from("value")] as const;

test("what could not be cleared away is never taken for the state of a genesis", async () => {
  await using scratch = await scratchFolder();
  {
    const file = await openFolder({ folder: scratch.path, mapSizeBytes: 1_048_576 });
    const { tables } = file;
    const write = tables.write.bind(tables);
    let writes = Number.POSITIVE_INFINITY;
    tables.write = (action) => {
      if (writes-- <= 0) throw Object.assign(new TypeError("no space"), { code: 28 });
      write(action);
    };
    await using store = new LmdbChainStore({ folder: scratch.path }, { file, log: silentLog });
    {
      await using restore = await store.restore(7n);
      await restore.add([entry]);
      const { appHash } = await peek(entry);
      assert.equal(await restore.finish(appHash, []), true);
    }
    assert.equal(store.latestHeightBlocks(), 7n);
    // Another snapshot: the store stands nowhere, and then there is no room to clear it.
    writes = 1;
    await assert.rejects(store.restore(8n), (error) => isAppError(error, "CHAIN_STORE_FULL"));
    writes = Number.POSITIVE_INFINITY;
    assert.equal(store.latestHeightBlocks(), undefined);
    const genesis = blockOf(0n, [[Buffer.from("other"), Buffer.from("value")]]);
    await assert.rejects(store.commit(genesis), (error) => isAppError(error, "CHAIN_STORE"));
    assert.throws(
      () => store.appHashOf(genesis),
      (error) => isAppError(error, "CHAIN_STORE"),
    );
  }
  await using again = await openChainStore({ folder: scratch.path });
  await again.commit(blockOf(0n, [[Buffer.from("other"), Buffer.from("value")]]));
  await again.verify();
  assert.equal(again.at(0n).get(entry[0]), undefined);
});

/** App hash of a state with one entry. */
async function peek([key, value]: readonly [Buffer, Buffer]): Promise<{ readonly appHash: Uint8Array }> {
  await using scratch = await scratchFolder();
  await using store = await openChainStore({ folder: scratch.path });
  return { appHash: await store.commit(blockOf(0n, [[key, value]])) };
}
