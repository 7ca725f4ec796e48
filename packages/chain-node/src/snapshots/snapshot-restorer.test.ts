import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { AppError, silentLog } from "@turnpike/base";
import type { ChainStore, StateRestore } from "@turnpike/chain-store";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import { applyAll, forge, GENESIS, openNode, startNode, type TestNode } from "../../test/snapshots/snapshots.ts";
import { makeSnapshot } from "./make-snapshot.ts";
import { SnapshotRestorer } from "./snapshot-restorer.ts";

/** A node with a snapshot of block 2, and an empty one. */
async function withTwo(use: (from: TestNode, to: TestNode) => Promise<void>): Promise<void> {
  await using scratch = await scratchFolder();
  await using from = await startNode(join(scratch.path, "from"), 2);
  await using to = await openNode(join(scratch.path, "to"));
  await use(from, to);
}

const made = (node: TestNode) => makeSnapshot({ heightBlocks: 2n, chunkBytes: 300 }, node);

test("a chunk that a dead CometBFT left under way does not disturb the next offer", async () => {
  await withTwo(async (from, to) => {
    const snapshot = await made(from);
    const first = must(await from.folder.load(2n, 1, 0));
    await to.restorer.offer(snapshot, snapshot.appHash);
    const left = to.restorer.apply(0, first, "peer");
    assert.equal(await to.restorer.offer(snapshot, snapshot.appHash), "accept");
    await left;
    assert.deepEqual(new Set(await applyAll(from, snapshot, to)), new Set(["accept"]));
    assert.equal(to.application.latestHeightBlocks(), 2n);
  });
});

test("of one chunk that comes twice at once one is taken", async () => {
  await withTwo(async (from, to) => {
    const snapshot = await made(from);
    const first = must(await from.folder.load(2n, 1, 0));
    await to.restorer.offer(snapshot, snapshot.appHash);
    const both = await Promise.all([to.restorer.apply(0, first, "a"), to.restorer.apply(0, first, "b")]);
    assert.deepEqual(
      both.map(({ result }) => result),
      ["accept", "abort"],
    );
  });
});

test("whoever sent a snapshot whose state is not the chain's is asked for nothing more", async () => {
  await withTwo(async (from, to) => {
    const { appHash } = await made(from);
    const { offer, packed } = await forge(2n, [Buffer.of(0, 1, 0, 0), Buffer.of(0, 1, 7, 7)]);
    await to.restorer.offer(offer, appHash);
    assert.deepEqual(await to.restorer.apply(0, must(packed[0]), "one"), { result: "accept" });
    assert.deepEqual(await to.restorer.apply(1, must(packed[1]), "two"), {
      result: "reject-snapshot",
      rejectedSenders: ["one", "two"],
    });
  });
});

test("a disk that a snapshot filled ends that snapshot, not state sync; other faults do", async () => {
  await withTwo(async (from, to) => {
    const snapshot = await made(from);
    const first = must(await from.folder.load(2n, 1, 0));
    for (const [code, offered, applied] of [
      ["CHAIN_STORE_FULL", "reject", "reject-snapshot"],
      ["CHAIN_STORE", "abort", "abort"],
    ] as const) {
      const fails = (): never => {
        throw new AppError(code, { message: "as told" });
      };
      const verdicts = async (store: Pick<ChainStore, "restore">) => {
        const { application } = to;
        await using restorer = new SnapshotRestorer({ genesis: GENESIS }, { store, application, log: silentLog });
        const offer = await restorer.offer(snapshot, snapshot.appHash);
        return [offer, offer === "accept" ? await restorer.apply(0, first, "peer") : undefined];
      };
      const restoring: StateRestore = {
        heightBlocks: 2n,
        add: async () => fails(),
        finish: async () => fails(),
        [Symbol.asyncDispose]: async () => fails(),
      };
      assert.deepEqual(await verdicts({ restore: async () => fails() }), [offered, undefined]);
      assert.deepEqual(await verdicts({ restore: async () => restoring }), ["accept", { result: applied }]);
    }
  });
});
