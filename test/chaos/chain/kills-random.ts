import assert from "node:assert/strict";
import { watch } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import { eventually } from "@turnpike/testkit";
import { createRandom, type Random } from "../../soak/random.ts";
import type { EngineName } from "../../support/chain/nodes.ts";
import type { ChaosFigure } from "../chaos.ts";
import { checkStoreAtRest, checkWhole } from "./support/node-checks.ts";
import { makeNodeHome, type NodeHome, type NodeSettings } from "./support/node-home.ts";
import { type Hit, KilledNode, type RestartTimes } from "./support/node-killed.ts";
import { within } from "./support/node-process.ts";
import { Witness } from "./support/node-witness.ts";

/** When a process is killed, measured from its start, from when its store is open, from its first new block, or within a commit. */
const MOMENTS = [
  "starting",
  "starting",
  "opened",
  "running",
  "running",
  "running",
  "committing",
  "committing",
  "committing",
] as const;

const PLAIN: NodeSettings = { keepHeights: 0, snapshotEveryBlocks: 0 };
/** What an operator may turn on; states that fall away here are gone for good. */
const SETTINGS: readonly [NodeSettings, ...NodeSettings[]] = [
  PLAIN,
  PLAIN,
  { keepHeights: 40, snapshotEveryBlocks: 0 },
  { keepHeights: 0, snapshotEveryBlocks: 10 },
  { keepHeights: 40, snapshotEveryBlocks: 10 },
];
const HITS: Readonly<Record<EngineName, readonly [Hit, ...Hit[]]>> = {
  embedded: ["ours"],
  cometbft: ["ours", "cometbft", "both"],
};

/** Options of {@link killAtRandom}. */
export interface RandomKillsOptions {
  readonly engine: EngineName;
  readonly compileCache: string;
  readonly kills: number;
  readonly seed: number;
  readonly progress: (text: string) => void;
}

/** Resolves as the store's file is written to: within the transaction of a block. */
function nextWrite(home: NodeHome): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(join(home.layout.storeFolder, "chain.mdb"), () => {
      watcher.close();
      resolve();
    });
  });
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
const most = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), 0);

/** The end of every run: up once more, all that was told is there, all blocks run anew give the same. Then it is ended. */
export async function finish(node: KilledNode): Promise<number> {
  await node.start(PLAIN);
  await node.up();
  const { newestBlocks } = node.witness;
  for (let at = 0n; at < newestBlocks + 2n; ) at = await within("a block", node.feed.nextBlock());
  const rpcUrl = await node.rpcUrl();
  await using client = new ChainClient({ url: rpcUrl }, { clock: systemClock });
  const blocks = await checkWhole(node.checkedBy(client), rpcUrl);
  assert.equal(await node.end(), 0, `exit code of the node:\n${node.app.tail()}`);
  await checkStoreAtRest(node.home, node.witness);
  return blocks;
}

interface PlannedKill {
  readonly settings: NodeSettings;
  readonly moment: (typeof MOMENTS)[number];
  readonly hit: Hit;
}

async function killOnce(
  node: KilledNode,
  { settings, moment, hit }: PlannedKill,
  { random, upMs }: { readonly random: Random; readonly upMs: number },
): Promise<RestartTimes | undefined> {
  await node.start(settings);
  let times: RestartTimes | undefined;
  // These waits are the fault that is drawn, and no wait for an event: a kill that follows one would never come between
  // two. Nothing is asserted of what the node has done by then, so a slow machine moves the kill and breaks no check.
  if (moment === "starting") {
    await pause(random.whole(0, upMs));
  } else if (moment === "opened") {
    await within("the opened store", node.app.opened);
    await pause(random.whole(0, 300));
  } else {
    times = await node.up();
    await pause(random.whole(0, moment === "running" ? 1_500 : 600));
    if (moment === "committing") await within("a write", nextWrite(node.home));
  }
  await node.kill(hit);
  return times;
}

/** Kills a node under load again and again. @throws AssertionError where anything that was told is not so any more */
export async function killAtRandom(opts: RandomKillsOptions): Promise<ChaosFigure[]> {
  const { engine, kills, seed, progress } = opts;
  // Two series: what the load draws depends on how fast the machine is.
  const [plan, random] = [createRandom(seed), createRandom(seed + 1)];
  await using home = await makeNodeHome(opts);
  const witness = new Witness();
  await using node = new KilledNode({ home }, { witness, random });
  await node.start(PLAIN);
  const first = await node.told("the first start", async () => {
    const times = await node.up();
    // Before the first kill, so that there is something to lose, however slow the machine.
    await eventually("a transaction and an old state", () => witness.txs.size > 0 && witness.answers.size > 0);
    return times;
  });
  assert.equal(await node.end(), 0, `exit code of the node:\n${node.app.tail()}`);
  const times: RestartTimes[] = [];
  let atRest = 0;
  for (let kill = 1; kill <= kills; kill++) {
    const planned = { settings: plan.pick(SETTINGS), moment: plan.pick(MOMENTS), hit: plan.pick(HITS[engine]) };
    const restart = await node.told(`kill ${kill} ${JSON.stringify(planned)}`, async () => {
      const took = await killOnce(node, planned, { random: plan, upMs: Math.round(first.firstBlockMs) });
      if (kill % 4 !== 0 || node.app.isAlive()) return took;
      await checkStoreAtRest(home, witness);
      atRest++;
      return took;
    });
    if (restart !== undefined) times.push(restart);
    if (kill % 10 === 0) progress(`${engine}: killed ${kill} times, at block ${witness.newestBlocks}`);
  }
  const blocks = await node.told("the end", () => finish(node));
  assert.ok(witness.appHashes.size > 0, "no app hash was read");
  const answers = times.map(({ firstAnswerMs }) => firstAnswerMs);
  const firstBlocks = times.map(({ firstBlockMs }) => firstBlockMs);
  return [
    { what: `${engine}: kills at random moments`, value: kills, unit: "" },
    { what: `${engine}: starts after a kill that were checked whole`, value: times.length + 1, unit: "" },
    { what: `${engine}: stores of dead nodes read and verified`, value: atRest + 1, unit: "" },
    { what: `${engine}: blocks, all there, replayed to the same app hashes`, value: blocks, unit: "blocks" },
    { what: `${engine}: transactions that were told of, none lost`, value: witness.txs.size, unit: "" },
    { what: `${engine}: questions answered meanwhile`, value: node.counts.queries, unit: "" },
    { what: `${engine}: from start to first answer, median`, value: median(answers), unit: "ms" },
    { what: `${engine}: from start to first answer, most`, value: most(answers), unit: "ms" },
    { what: `${engine}: from start to first new block, median`, value: median(firstBlocks), unit: "ms" },
    { what: `${engine}: from start to first new block, most`, value: most(firstBlocks), unit: "ms" },
  ];
}
