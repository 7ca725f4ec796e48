import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import { ChainApp } from "@turnpike/chain";
import type { EmbeddedNode } from "@turnpike/chain-node";
import { openChainStore } from "@turnpike/chain-store";
import { openTestNode, sendTx, testGenesis, testMachine } from "@turnpike/testkit/embedded-node";
import { chainStartOf } from "../../../packages/chain/src/app/chain-start.ts";
import { must, verifyWholeChain } from "../../../packages/chain-node/test/engine/verify.ts";
import { createRandom } from "../../soak/random.ts";
import type { ChaosPart } from "../chaos.ts";

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const YEAR = 365 * 24 * HOUR;
const GENESIS_MS = Date.parse(testGenesis().genesis_time);
const BLOCK_MS = 1_000;
/** Jumps of the clock, in milliseconds; those ahead by more than an hour stop the blocks while the process runs. */
const JUMPS = [-SECOND, -10 * SECOND, -HOUR, -YEAR, -50 * YEAR, SECOND, HOUR / 2, 2 * HOUR, YEAR, 30 * YEAR] as const;

/** A clock that somebody sets, and the time that has passed meanwhile. */
class SetClock {
  #passedMs = 0;
  #offsetMs = GENESIS_MS;
  nowMs = (): number => this.#offsetMs + this.#passedMs;
  monotonicMs = (): number => this.#passedMs;
  pass(timeMs: number): void {
    this.#passedMs += timeMs;
  }
  jump(byMs: number): void {
    this.#offsetMs += byMs;
  }
}

/** Keeps what was said. */
function keptLog(): { readonly log: Log; readonly said: string[] } {
  const said: string[] = [];
  const keep = (_: object, text: string): void => void said.push(text);
  return { said, log: { ...silentLog, info: keep, warn: keep, error: keep } };
}

const timesOf = (node: EmbeddedNode): bigint[] =>
  Array.from(
    { length: Number(node.blocks.latestHeightBlocks()) },
    (_, n) => must(node.blocks.block(BigInt(n) + 1n)).block.header.timeNs,
  );

async function inScratch<T>(action: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-clock-"));
  try {
    return await action(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Counts {
  blocks: number;
  refused: number;
  restarts: number;
  jumps: number;
}

/** Jumps at random, with restarts between: times rise, every block is right, and none is poisoned by a jump ahead. */
async function jumpAround(seed: number, steps: number, counts: Counts): Promise<void> {
  await inScratch(async (folder) => {
    const random = createRandom(seed);
    const clock = new SetClock();
    const open = () => openTestNode({ folder, clock, uptimeMs: clock.monotonicMs });
    let node = await open();
    try {
      for (let step = 0; step < steps; step++) {
        clock.pass(BLOCK_MS);
        const what = random.whole(0, 9);
        if (what === 0) {
          await node[Symbol.asyncDispose]();
          // A jump between runs is taken as it is; too many of them ahead would be the chain's own time.
          if (random.whole(0, 1) === 0) clock.jump(-random.whole(0, YEAR));
          node = await open();
          counts.restarts++;
        }
        const jumpMs = what >= 6 ? random.pick(JUMPS) : 0;
        if (jumpMs !== 0) counts.jumps++;
        clock.jump(jumpMs);
        const before = node.blocks.latestHeightBlocks();
        try {
          await node.produceBlock();
          counts.blocks++;
        } catch (error) {
          assert.ok(isAppError(error, "CHAIN_CLOCK"), String(error));
          assert.match(error.message, /set the clock right.*start the node again/);
          assert.equal(node.blocks.latestHeightBlocks(), before, "nothing was written");
          counts.refused++;
          clock.jump(-jumpMs);
          await node.produceBlock();
          counts.blocks++;
        }
      }
      const times = timesOf(node);
      for (const [n, time] of times.entries())
        assert.ok(n === 0 || time > (times[n - 1] ?? 0n), `time of block ${n + 1}`);
      const newest = Number((times.at(-1) ?? 0n) / 1_000_000n);
      const allowed = GENESIS_MS + steps * (BLOCK_MS + HOUR);
      assert.ok(newest <= allowed, `${new Date(newest).toISOString()} is later than any jump that is allowed`);
      verifyWholeChain(node);
    } finally {
      await node[Symbol.asyncDispose]();
    }
  });
}

/** What the log says of a clock that goes back, and of one that jumps ahead while blocks are made at an interval. */
async function tellsOnce(): Promise<void> {
  await inScratch(async (folder) => {
    const clock = new SetClock();
    const { log, said } = keptLog();
    const count = (text: RegExp): number => said.filter((line) => text.test(line)).length;
    const ticks: { readonly at: number; readonly do: () => void }[] = [
      { at: 5, do: () => clock.jump(-YEAR) },
      { at: 15, do: () => clock.jump(YEAR) },
      { at: 25, do: () => clock.jump(2 * YEAR) },
      { at: 40, do: () => clock.jump(-2 * YEAR) },
    ];
    const over = Promise.withResolvers<void>();
    let tick = 0;
    const heights: bigint[] = [];
    const wait = async (timeMs: number, signal: AbortSignal): Promise<void> => {
      clock.pass(timeMs);
      heights[tick] = node?.blocks.latestHeightBlocks() ?? 0n;
      tick++;
      for (const one of ticks) if (one.at === tick) one.do();
      if (tick === 50) over.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
    };
    let node: EmbeddedNode | undefined;
    await using opened = await openTestNode({
      folder,
      clock,
      uptimeMs: clock.monotonicMs,
      log,
      wait,
      blockIntervalMs: BLOCK_MS,
    });
    node = opened;
    await over.promise;
    assert.equal(count(/clock is behind the newest block/), 1, said.join("\n"));
    assert.equal(count(/clock has caught up/), 1, said.join("\n"));
    assert.equal(count(/no block is made until this is fixed/), 1, said.join("\n"));
    assert.equal(count(/the clock is right again/), 1, said.join("\n"));
    assert.equal(count(/blocks go on$/), 1, said.join("\n"));
    assert.equal(heights[38], heights[27], "no block while the clock is ahead");
    assert.ok((heights[49] ?? 0n) > (heights[38] ?? 0n) && (heights[14] ?? 0n) > (heights[6] ?? 0n));
    verifyWholeChain(opened);
  });
}

/** A node that stood for years goes on, and so does one whose clock is before the genesis. */
async function betweenRuns(): Promise<void> {
  for (const jumpMs of [10 * YEAR, -10 * YEAR]) {
    await inScratch(async (folder) => {
      const clock = new SetClock();
      const open = (log: Log) => openTestNode({ folder, clock, uptimeMs: clock.monotonicMs, log });
      {
        await using node = await open(silentLog);
        for (let n = 0; n < 3; n++) {
          clock.pass(BLOCK_MS);
          await node.produceBlock();
        }
      }
      clock.jump(jumpMs);
      const { log, said } = keptLog();
      await using node = await open(log);
      for (let n = 0; n < 3; n++) await node.produceBlock();
      verifyWholeChain(node);
      const told = jumpMs > 0 ? /over an hour later than the newest one/ : /clock is behind the newest block/;
      assert.equal(said.filter((line) => told.test(line)).length, 1, said.join("\n"));
    });
  }
}

/** The same blocks as CometBFT gives them, run while the process's clock shows other times: the same app hashes. */
async function hashesUnder(dateMs: number): Promise<string[]> {
  return inScratch(async (folder) => {
    const own = Date.now;
    Date.now = () => dateMs;
    try {
      await using store = await openChainStore({ folder });
      const app = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store });
      const start = chainStartOf(testGenesis());
      const hashes = [(await app.start(start)).appHash];
      for (let n = 0n; n < 20n; n++) {
        const block = { chainId: start.chainId, heightBlocks: n + 1n, timeNanos: start.timeNanos + n * 1_000_000_000n };
        const txs = [sendTx({ from: 0, sequence: n }), sendTx({ from: 1, sequence: n, timeoutNs: 1n })];
        app.check(txs[0] ?? new Uint8Array(0), false);
        hashes.push(app.run({ ...block, hash: Buffer.alloc(32, Number(n)), proposer: Buffer.alloc(20) }, txs).appHash);
        await app.commit([]);
      }
      return hashes.map((hash) => Buffer.from(hash).toString("hex"));
    } finally {
      Date.now = own;
    }
  });
}

/**
 * Clocks that jump: back, ahead, before the genesis, between runs and while the node runs. Times of blocks rise, no jump
 * gets into the chain, the operator is told once, and what the state machine makes does not depend on the clock at all.
 */
export const clock: ChaosPart = async ({ size, progress }) => {
  const runs = size === "short" ? 6 : 60;
  const counts: Counts = { blocks: 0, refused: 0, restarts: 0, jumps: 0 };
  for (let seed = 0; seed < runs; seed++) {
    await jumpAround(seed, 60, counts);
    if (seed % 10 === 9) progress(`${seed + 1} of ${runs} chains`);
  }
  assert.ok(counts.refused > 0 && counts.restarts > 0);
  await tellsOnce();
  await betweenRuns();
  const [now, past, future] = [await hashesUnder(Date.now()), await hashesUnder(0), await hashesUnder(4e12)];
  assert.deepEqual(past, now);
  assert.deepEqual(future, now);
  return {
    figures: [
      { what: "chains under a clock that jumps", value: runs, unit: "" },
      { what: "jumps", value: counts.jumps, unit: "" },
      { what: "restarts between", value: counts.restarts, unit: "" },
      { what: "blocks made, each later than the one before", value: counts.blocks, unit: "" },
      { what: "blocks refused because the clock was ahead", value: counts.refused, unit: "" },
      { what: "app hashes that the process's clock changed", value: 0, unit: "" },
    ],
  };
};
