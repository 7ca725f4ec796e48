import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, isAppError } from "@turnpike/base";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { ADDRESSES, openTestNode, sendTx } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import type { EmbeddedEngine } from "./embedded-engine.ts";

const SENT = `transfer.recipient='${ADDRESSES[1]}'`;
const PAGE = { order: "asc", skip: 0, take: 100 } as const;

/** A store whose records beside blocks cannot be written while `isBroken` says so. */
function breakable(store: ChainStore, isBroken: () => boolean): ChainStore {
  return new Proxy(store, {
    get(target, name) {
      if (name === "writeRecords" && isBroken()) return () => Promise.reject(new AppError("CHAIN_STORE_FULL"));
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

async function sendAndProduce(node: EmbeddedEngine, sequence: bigint): Promise<void> {
  assert.equal(node.submit(sendTx({ from: 0, sequence })).kind, "checked");
  await node.produceBlock();
}

const found = async (node: EmbeddedEngine): Promise<number> => (await node.blocks.searchTxs(SENT, PAGE)).total;

suite("indexes of events", () => {
  test("are written after the block; a search waits for them", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const writes: string[] = [];
    const watched = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name === "commit" || name === "writeRecords") writes.push(name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await using node = await openTestNode({ folder: folder.path }, watched);
    writes.length = 0;
    await sendAndProduce(node, 0n);
    assert.equal(await found(node), 1);
    assert.deepEqual(writes, ["commit", "writeRecords"]);
    assert.equal((await node.blocks.searchBlocks("block.height=1", PAGE)).total, 1);
  });

  test("that a crash kept from being written are made when the node starts again", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    let isBroken = false;
    const crashed = breakable(store, () => isBroken);
    {
      await using node = await openTestNode({ folder: folder.path }, crashed);
      await sendAndProduce(node, 0n);
      assert.equal(await found(node), 1);
      isBroken = true;
      for (let sequence = 1n; sequence < 4n; sequence++) await sendAndProduce(node, sequence);
    }
    isBroken = false;
    await using node = await openTestNode({ folder: folder.path }, crashed);
    assert.equal(await found(node), 4);
    await sendAndProduce(node, 4n);
    assert.equal(await found(node), 5);
  });

  test("that cannot be written stop no block; a search says so, and is right once they can", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    let isBroken = false;
    await using node = await openTestNode(
      { folder: folder.path },
      breakable(store, () => isBroken),
    );
    isBroken = true;
    await sendAndProduce(node, 0n);
    await sendAndProduce(node, 1n);
    await assert.rejects(found(node), (error) => isAppError(error, "CHAIN_STORE_FULL"));
    isBroken = false;
    assert.equal(await found(node), 2);
  });

  test("of a store that an earlier version indexed with its blocks are not made again", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    {
      await using node = await openTestNode({ folder: folder.path }, store);
      await sendAndProduce(node, 0n);
      assert.equal(await found(node), 1);
    }
    let written = 0;
    const counting = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name === "record") {
          // As there was none before.
          return (table: string, key: Uint8Array) => (table === "index-height" ? undefined : target.record(table, key));
        }
        if (name === "writeRecords") written++;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await using node = await openTestNode({ folder: folder.path }, counting);
    assert.equal(await found(node), 1);
    assert.equal(written, 1);
  });
});
