import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Metrics, noMetrics } from "@turnpike/base";
import { openTestNode, sendTx, type TestNodeOptions } from "@turnpike/testkit/embedded-node";
import { KeptMetrics, ManualTime, scratchFolder } from "@turnpike/testkit/fixtures";
import { chainBlockPartsFailedTotal } from "../metrics.ts";
import { PART_KINDS } from "../state/block-parts.ts";
import { BlockMeter } from "./block-meter.ts";

const NS = 1_000_000_000n;

/** A block of this height, so many seconds after the first. */
const block = (heightBlocks: bigint, seconds: bigint) => ({ heightBlocks, timeNanos: seconds * NS });

async function openNode(folder: string, metrics: KeptMetrics, mempool: TestNodeOptions["mempool"] = {}) {
  const meter = new BlockMeter({ metrics });
  const node = await openTestNode({ folder, mempool, metrics, meter });
  return { node, meter, [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() };
}

suite("block meter", { timeout: 180_000 }, () => {
  test("a node's blocks, transactions and checks are counted, and known again after a restart", async () => {
    await using folder = await scratchFolder();
    const metrics = new KeptMetrics();
    {
      await using opened = await openNode(folder.path, metrics);
      const { node } = opened;
      assert.deepEqual(metrics.read("height", "mempool_txs", "mempool_bytes"), [0, 0, 0]);
      const good = sendTx({ from: 0, sequence: 0n });
      node.submit(good);
      node.submit(sendTx({ from: 1, sequence: 7n }));
      // Pays its fee and then has not enough.
      const failing = sendTx({ from: 2, sequence: 0n, amount: 10_000_000n });
      node.submit(failing);
      assert.deepEqual(metrics.read("mempool_txs", "mempool_bytes"), [2, good.length + failing.length]);
      await node.produceBlock();
      assert.deepEqual(metrics.read("checks_total new ok", "checks_total new failed"), [2, 1]);
      assert.deepEqual(metrics.read("txs_total ok", "txs_total failed"), [1, 1]);
      assert.deepEqual(metrics.read("height", "mempool_txs", "mempool_bytes"), [1, 0, 0]);
      node.submit(sendTx({ from: 0, sequence: 1n, timeoutHeight: 1n }));
      node.submit(sendTx({ from: 1, sequence: 0n }));
      await node.produceBlock();
      await node.produceBlock();
      const { block } = await node.produceBlock();
      const [height, timestamp] = metrics.read("height", "block_timestamp_seconds");
      assert.deepEqual([height, timestamp], [4, Number(block.header.timeNs) / 1e9]);
      // The first block has the genesis' time as the genesis has.
      assert.equal(metrics.observed.get("block_interval_seconds")?.length, 4);
      for (const stage of ["run", "hash", "write"]) {
        const times = metrics.observed.get(`block_stage_seconds ${stage}`) ?? [];
        assert.equal(times.length, 4, stage);
        assert.ok(
          times.every((seconds) => seconds > 0 && seconds < 60),
          `${stage}: ${times.join(" ")}`,
        );
      }
    }
    const later = new KeptMetrics();
    await using opened = await openNode(folder.path, later);
    assert.deepEqual(later.read("height", "earliest_height"), [4, 0]);
    assert.ok((opened.meter.usualIntervalMs() ?? 0) > 0, "the pace is that of the blocks before");
    assert.equal(later.observed.get("block_interval_seconds"), undefined, "old intervals are not counted again");
  });

  test("a mempool that is full refuses, and counts what it refuses", async () => {
    await using folder = await scratchFolder();
    const metrics = new KeptMetrics();
    const mempool = { maxTxs: 1, maxTxBytes: 1000 };
    await using opened = await openNode(folder.path, metrics, mempool);
    const { node } = opened;
    assert.equal(node.submit(new Uint8Array(1001)).kind, "refused");
    node.submit(sendTx({ from: 0, sequence: 0n }));
    assert.equal(node.submit(sendTx({ from: 1, sequence: 0n })).kind, "refused");
    const reasons = ["full", "too_large"].map((reason) => `mempool_refused_total ${reason}`);
    assert.deepEqual(metrics.read(...reasons, "mempool_txs"), [1, 1, 1]);
  });

  test("one long pause does not change the usual interval, and a gap of heights is no interval", () => {
    const metrics = new KeptMetrics();
    const meter = new BlockMeter({ metrics, clock: new ManualTime() });
    assert.equal(meter.usualIntervalMs(), undefined);
    meter.before([block(1n, 0n), block(2n, 2n), block(3n, 4n)]);
    meter.stands(block(4n, 3604n), 1n);
    assert.equal(meter.usualIntervalMs(), 2000);
    meter.stands(block(100n, 9000n), 90n);
    meter.committed();
    assert.equal(meter.usualIntervalMs(), 2000);
    assert.equal(metrics.observed.size, 0);
    for (let height = 101n; height < 121n; height++) meter.stands(block(height, 9000n + (height - 100n) * 5n), 90n);
    assert.equal(meter.usualIntervalMs(), 5000);
    assert.deepEqual(metrics.read("height", "earliest_height"), [120, 90]);
  });

  test("parts that fail are counted from zero: an alert sees no increase in a counter that begins with one", () => {
    const counted: [part: unknown, by: number][] = [];
    const count: Metrics["count"] = (spec, labels, by = 1) => {
      if (spec === chainBlockPartsFailedTotal) counted.push([labels?.part, by]);
    };
    const meter = new BlockMeter({ metrics: { ...noMetrics, count } });
    assert.deepEqual(
      counted.splice(0),
      PART_KINDS.map((part) => [part, 0]),
    );
    meter.ran([], [{ part: "settlement" }]);
    meter.committed();
    assert.deepEqual(counted, [["settlement", 1]]);
  });

  test("a block that was run and not written does not count", () => {
    const metrics = new KeptMetrics();
    const meter = new BlockMeter({ metrics });
    meter.ran([{ code: 0 }, { code: 5 }]);
    meter.ran([{ code: 0 }]);
    meter.committed();
    assert.deepEqual(metrics.read("txs_total ok", "txs_total failed"), [1, 0]);
  });
});
