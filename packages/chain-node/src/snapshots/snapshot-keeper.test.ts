import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Log, silentLog } from "@turnpike/base";
import { type StateChange, StatePruner } from "@turnpike/chain-store";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { openNode } from "../../test/snapshots/snapshots.ts";
import { makeSnapshot } from "./make-snapshot.ts";
import { SnapshotFolder } from "./snapshot-folder.ts";
import { SnapshotKeeper } from "./snapshot-keeper.ts";

/** Enough that many blocks come while a snapshot is made. */
const ENTRIES = 20_000;

const changesAt = (height: number): StateChange[] =>
  Array.from({ length: height === 0 ? ENTRIES : 20 }, (_, n): StateChange => {
    const key = Buffer.from(`key ${String((n * (height + 1)) % ENTRIES).padStart(6, "0")}`);
    return [key, Buffer.from(`value ${height} ${n} ${"x".repeat(40)}`)];
  });

const heights = async (folder: SnapshotFolder): Promise<bigint[]> =>
  (await folder.list()).map(({ heightBlocks }) => heightBlocks);

function hearing(): { readonly log: Log; readonly said: string[] } {
  const said: string[] = [];
  const hear = (_: unknown, text: string): void => void said.push(text);
  return { log: { ...silentLog, info: hear, warn: hear, error: hear }, said };
}

test("every so many blocks there is a snapshot, the newest are kept, and pruning waits for what is being read", async () => {
  await using scratch = await scratchFolder();
  await using node = await openNode(scratch.path);
  const { store } = node;
  const { log, said } = hearing();
  const folder = new SnapshotFolder({ folder: join(scratch.path, "snapshots") }, { log });
  await using pruner = new StatePruner({ keepStatesBlocks: 1 }, { store, log });
  const hold = (height: bigint): Disposable => pruner.hold(height);
  await using keeper = new SnapshotKeeper({ everyBlocks: 15, keep: 2 }, { store, folder, log, hold });
  for (let height = 0; height <= 75; height++) {
    await store.commit({ heightBlocks: BigInt(height), changes: changesAt(height), records: [] });
    if (height === 0) continue;
    keeper.committed(BigInt(height));
    pruner.committed(BigInt(height));
    await nextTurn();
  }
  await keeper.settled();
  const kept = await heights(folder);
  assert.ok(kept.length >= 1 && kept.length <= 2, kept.join());
  assert.ok(kept.every((height) => height % 15n === 0n));
  assert.ok(said.includes("snapshot made"));
  assert.ok(!said.some((text) => text.startsWith("snapshot given up")), said.join());
  // Held as long as it was needed, not longer.
  for (let height = 76; height <= 100; height++) {
    await store.commit({ heightBlocks: BigInt(height), changes: changesAt(height), records: [] });
    pruner.committed(BigInt(height));
    await nextTurn();
  }
  await pruner[Symbol.asyncDispose]();
  assert.ok(store.earliestHeightBlocks() > 75n, `${store.earliestHeightBlocks()}`);
});

test("a state that is pruned while it is read gives no snapshot, and says so", async () => {
  await using scratch = await scratchFolder();
  await using node = await openNode(scratch.path);
  const { store } = node;
  for (let height = 0; height <= 10; height++)
    await store.commit({ heightBlocks: BigInt(height), changes: changesAt(height), records: [] });
  const { log, said } = hearing();
  const folder = new SnapshotFolder({ folder: join(scratch.path, "snapshots") }, { log });
  await using keeper = new SnapshotKeeper({ everyBlocks: 5, keep: 2 }, { store, folder, log });
  keeper.committed(4n);
  keeper.committed(5n);
  keeper.committed(10n);
  await store.prune(10n);
  await keeper.settled();
  assert.deepEqual(said, [
    "no snapshot: the one before is not done yet",
    "snapshot given up: its state was pruned meanwhile",
  ]);
  assert.deepEqual(await heights(folder), []);
});

test("making a snapshot lets others have the thread, and ends when it is told to", async () => {
  await using scratch = await scratchFolder();
  await using node = await openNode(scratch.path);
  await node.store.commit({ heightBlocks: 1n, changes: changesAt(0), records: [] });
  let turns = 0;
  let isOver = false;
  const count = async (): Promise<void> => {
    while (!isOver) {
      await nextTurn();
      turns++;
    }
  };
  const counting = count();
  await makeSnapshot({ heightBlocks: 1n }, node);
  isOver = true;
  await counting;
  assert.ok(turns >= Math.floor(ENTRIES / 256), `${turns}`);
  const keeper = new SnapshotKeeper(
    { everyBlocks: 1, keep: 1 },
    { store: node.store, folder: node.folder, log: silentLog },
  );
  keeper.committed(1n);
  await keeper[Symbol.asyncDispose]();
  assert.deepEqual(await heights(node.folder), [1n]);
});
