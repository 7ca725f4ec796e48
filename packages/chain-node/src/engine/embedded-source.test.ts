import assert from "node:assert/strict";
import { test } from "node:test";
import type { BlockReads, EmbeddedNode, StoredTx } from "../types.ts";
import { EmbeddedSource } from "./embedded-source.ts";

const LATEST = 1833n;

test("the embedded node's blocks: no height is the newest block, and the validators of the next", async () => {
  const stored = { heightBlocks: 1n, index: 0 } as StoredTx;
  const asked: unknown[] = [];
  const at = (heightBlocks: bigint): undefined => {
    asked.push(heightBlocks);
  };
  const blocks: BlockReads = {
    latestHeightBlocks: () => LATEST,
    baseHeightBlocks: () => 1n,
    block: at,
    blockByHash: () => undefined,
    results: at,
    commit: at,
    validators: at,
    tx: () => stored,
    searchTxs: async (_, { take }) => ({ items: Array.from({ length: take }, () => stored), total: 9 }),
    searchBlocks: async () => ({ items: [], total: 0 }),
  };
  const known = { kind: "known", hash: new Uint8Array(32) } as const;
  const application = { chainId: "pocket" };
  const node = { application, blocks, nodeId: "ab", moniker: "m", submit: () => known } as unknown as EmbeddedNode;
  const embedded = new EmbeddedSource({ listenAddr: "tcp://a:1", rpcAddr: () => "tcp://a:2" }, node);
  assert.equal(await embedded.latestHeightBlocks(), LATEST);
  await embedded.block();
  await embedded.block(5n);
  await embedded.validators();
  await embedded.validators(6n);
  await embedded.results(7n);
  assert.deepEqual(asked, [LATEST, 5n, LATEST + 1n, 6n, 7n]);
  assert.equal(await embedded.submit(new Uint8Array()), known);
  assert.equal(await embedded.tx(new Uint8Array()), stored);
  assert.equal((await embedded.searchTxs("x", { order: "asc", skip: 0, take: 2 })).items.length, 2);
  assert.deepEqual(await embedded.nodeInfo(), {
    nodeId: "ab",
    moniker: "m",
    network: "pocket",
    version: "0.38.19",
    listenAddr: "tcp://a:1",
    rpcAddr: "tcp://a:2",
  });
});
