import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { freePort } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { ADDRESSES, balanceQuery, sendTx } from "../../test/abci/chain.ts";
import { withoutComet } from "../../test/abci/comet.ts";
import { makeJoiner, makeValidator, SNAPSHOT_EVERY, type SyncNode, startNode } from "../../test/abci/sync.ts";

const newest = ({ store }: SyncNode): bigint => store.latestHeightBlocks() ?? 0n;

/** Sends a transaction for each block until it is stopped; gives how many. */
function sendAll(node: SyncNode): { stop(): Promise<bigint> } {
  let isOver = false;
  const sending = (async () => {
    let sequence = 0n;
    while (!isOver) {
      const sent = await node.source.submit(sendTx(sequence, 1n, { memo: `number ${sequence}` }));
      if (sent.kind === "checked" && sent.result.code === 0) sequence++;
      const height = newest(node);
      await eventually("another block", () => isOver || newest(node) > height);
    }
    return sequence;
  })();
  return {
    stop() {
      isOver = true;
      return sending;
    },
  };
}

/** The app hashes of all heights that both have are equal; how many there were. */
function compare(a: SyncNode, b: SyncNode): bigint {
  let compared = 0n;
  for (let height = b.store.earliestHeightBlocks(); height <= newest(a) && height <= newest(b); height++) {
    const [ours, theirs] = [a, b].map(({ store }) => bytesToHex(must(store.appHash(height))));
    assert.equal(theirs, ours, `app hash after block ${height}`);
    compared++;
  }
  return compared;
}

async function answer(node: SyncNode, address: string, heightBlocks: bigint): Promise<unknown> {
  const { path, data } = balanceQuery(address);
  const params = { path, data: bytesToHex(data), height: `${heightBlocks}` };
  const asked = await node.rpc.call("abci_query", params);
  assert.ok(asked.ok);
  const { response } = asked.result as { response: { code: number; value: string; height: string } };
  assert.equal(response.code, 0);
  return response;
}

suite("state sync under CometBFT", { skip: withoutComet, timeout: 240_000 }, () => {
  test("a node joins by a snapshot, goes on with the same app hashes, and survives a restart", async (t) => {
    await using scratch = await scratchFolder();
    const [first, second] = [join(scratch.path, "first"), join(scratch.path, "second")];
    for (const folder of [first, second]) mkdirSync(folder);
    const p2pPort = await freePort();
    const { peer } = makeValidator(first, p2pPort);
    await using a = await startNode(first, p2pPort);
    const txs = sendAll(a);
    try {
      await eventually("a snapshot", async () => (await a.snapshots.list()).length > 0);
      const trusted = await a.rpc.call("commit", { height: "2" });
      assert.ok(trusted.ok);
      const { signed_header: header } = trusted.result as { signed_header: { commit: { block_id: { hash: string } } } };
      makeJoiner(second, first, { heightBlocks: 2n, hash: header.commit.block_id.hash, rpcUrl: a.url, peer });
      {
        const began = newest(a);
        await using b = await startNode(second);
        await eventually("the state of the snapshot", () => b.store.latestHeightBlocks() !== undefined);
        const restored = b.store.earliestHeightBlocks();
        // Not from the first block on: the state came as a snapshot.
        assert.ok(restored >= began - SNAPSHOT_EVERY && restored % SNAPSHOT_EVERY === 0n, `${restored}`);
        const { chunks = 0 } = (await a.snapshots.find(restored)) ?? {};
        t.diagnostic(`snapshot of height ${restored}, ${chunks} chunks, while the chain was at ${newest(a)}`);
        const goal = newest(a) + 3n;
        await eventually("three blocks more", () => newest(b) >= goal);
        assert.ok(compare(a, b) > 3n);
        for (const address of ADDRESSES) {
          const [ours, theirs] = await Promise.all([answer(a, address, goal), answer(b, address, goal)]);
          assert.deepEqual(theirs, ours);
        }
        assert.equal(b.application.chainId, a.application.chainId);
        await b.store.verify();
      }
      await using b = await startNode(second);
      assert.ok(newest(b) > 0n);
      const goal = newest(a) + 3n;
      await eventually("three blocks more", () => newest(b) >= goal);
      t.diagnostic(`after the restart ${compare(a, b)} app hashes are equal`);
      const sent = await txs.stop();
      assert.ok(sent > 5n, `${sent}`);
      // It makes snapshots of its own, which are the same.
      const [own, theirs] = await eventually("a height of which both have a snapshot", async () => {
        for (const one of await b.snapshots.list()) {
          const other = await a.snapshots.find(one.heightBlocks);
          if (other !== undefined) return [one, other] as const;
        }
        return undefined;
      });
      assert.equal(bytesToHex(own.hash), bytesToHex(theirs.hash));
    } finally {
      await txs.stop();
    }
  });
});
