import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { KeptMetrics, scratchFolder } from "@turnpike/testkit/fixtures";
import { startNode } from "../../test/snapshots/snapshots.ts";
import { SnapshotKeeper } from "./snapshot-keeper.ts";
import { SnapshotMeter } from "./snapshot-meter.ts";

suite("snapshot meter", { timeout: 180_000 }, () => {
  test("snapshots that are made and that fail are counted, and the newest height is reported", async () => {
    await using scratch = await scratchFolder();
    await using node = await startNode(scratch.path, 4);
    const { store, folder } = node;
    const metrics = new KeptMetrics();
    const meter = new SnapshotMeter({ metrics });
    const samples = ["snapshots_total made", "snapshots_total failed", "snapshot_height"];
    assert.deepEqual(metrics.read(...samples), [undefined, 0, undefined], "failures count from 0");
    await using keeper = new SnapshotKeeper({ everyBlocks: 2, keep: 2 }, { store, folder, log: silentLog, meter });
    for (const height of [2n, 4n]) {
      keeper.committed(height);
      await keeper.settled();
    }
    assert.deepEqual(metrics.read(...samples), [2, 0, 4]);
    keeper.committed(6n);
    await keeper.settled();
    assert.deepEqual(metrics.read(...samples), [2, 1, 4], "there is no such state");
  });
});
