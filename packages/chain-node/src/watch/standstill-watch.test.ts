import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { BlockMeter } from "@turnpike/chain";
import { KeptMetrics, keptLog, ManualTime } from "@turnpike/testkit/fixtures";
import type { CometFacts } from "./comet-watch.ts";
import { StandstillWatch } from "./standstill-watch.ts";

const WELL: CometFacts = { peers: 3, validators: 4, mempoolTxs: 0, mempoolBytes: 0, isCatchingUp: false };

interface Setting {
  readonly blockIntervalMs?: number;
  readonly comet?: { facts: CometFacts | undefined };
  /** Seconds between the headers of the blocks that are there. */
  readonly pace?: bigint;
}

function watchOf({ blockIntervalMs, comet, pace = 1n }: Setting) {
  const time = new ManualTime();
  const metrics = new KeptMetrics();
  const meter = new BlockMeter({ metrics, clock: time });
  const { log, lines } = keptLog();
  let height = 0n;
  const blocks = (count: number): void => {
    for (let i = 0; i < count; i++) {
      height++;
      meter.stands({ heightBlocks: height, timeNanos: height * pace * 1_000_000_000n }, 1n);
    }
  };
  blocks(3);
  const watch = new StandstillWatch({ blockIntervalMs }, { meter, comet, metrics, log, clock: time, wait: time.wait });
  return { time, metrics, lines, blocks, watch, halted: () => metrics.values.get("halted") };
}

suite("standstill", { timeout: 60_000 }, () => {
  test("one warning when no block comes, and one word when they come again", async () => {
    const { time, lines, blocks, watch, halted } = watchOf({ blockIntervalMs: 1000 });
    await using _ = watch;
    for (let i = 0; i < 50; i++) {
      blocks(1);
      await time.pass(1000);
    }
    assert.deepEqual([lines, halted()], [[], 0]);
    const stoodSince = time.nowMs() - 1000;
    await time.pass(29_000);
    assert.deepEqual([lines, halted()], [[], 0]);
    await time.pass(2000);
    const [warned] = lines;
    assert.deepEqual([warned?.level, warned?.message], ["warn", "the chain stands still: no block came"]);
    assert.equal(warned?.fields.heightBlocks, "53");
    assert.equal(warned?.fields.since, new Date(stoodSince).toISOString());
    assert.match(String(warned?.fields.lookAt), /this process alone makes the blocks/);
    assert.equal(halted(), 1);
    await time.pass(3_600_000);
    assert.equal(lines.length, 1, "it is said once");
    blocks(1);
    await time.pass(1000);
    assert.deepEqual([lines.length, halted()], [2, 0]);
    assert.deepEqual([lines[1]?.level, lines[1]?.message], ["info", "the chain goes on"]);
    assert.equal(lines[1]?.fields.heightBlocks, "54");
    assert.equal(lines[1]?.fields.stoodSeconds, 3632);
    await time.pass(40_000);
    assert.equal(lines.length, 3, "and it is said again when it stands again");
  });

  test("a slow chain is given ten of its intervals, whether told or seen", async () => {
    for (const setting of [{ blockIntervalMs: 60_000 }, { pace: 60n, comet: { facts: WELL } }]) {
      const { time, lines, watch } = watchOf(setting);
      await using _ = watch;
      await time.pass(599_000);
      assert.deepEqual(lines, []);
      await time.pass(3000);
      assert.equal(lines.length, 1);
    }
  });

  test("under CometBFT the warning has its facts, and names what to look at", async () => {
    for (const [facts, lookAt] of [
      [undefined, /does not answer on chain\.cometRpcUrl/],
      [{ ...WELL, peers: 0 }, /has no peers; see p2p\.laddr/],
      [WELL, /more than two thirds of the voting power/],
      [{ ...WELL, isCatchingUp: true }, /it catches up and gets no blocks/],
      [{ ...WELL, isCatchingUp: true, peers: 0 }, /has no peers/],
      [{ ...WELL, peers: 0, validators: 1 }, /more than two thirds/],
    ] as const) {
      const { time, lines, watch } = watchOf({ comet: { facts } });
      await using _ = watch;
      await time.pass(31_000);
      const fields = lines[0]?.fields ?? {};
      assert.match(String(fields.lookAt), lookAt);
      assert.deepEqual([fields.peers, fields.catchingUp], [facts?.peers, facts?.isCatchingUp]);
    }
  });

  test("a node that never has a block says so, too", async () => {
    const time = new ManualTime();
    const metrics = new KeptMetrics();
    const { log, lines } = keptLog();
    const meter = new BlockMeter({ clock: time });
    const opts = { blockIntervalMs: undefined };
    const modules = { meter, comet: { facts: undefined }, metrics, log, clock: time, wait: time.wait };
    await using _watch = new StandstillWatch(opts, modules);
    await time.pass(31_000);
    assert.equal(lines[0]?.fields.heightBlocks, "0");
    assert.equal(metrics.values.get("halted"), 1);
  });
});
