import assert from "node:assert/strict";
import { CHAIN_FAULT_POINTS } from "../../../packages/chain-node/src/fault-points.ts";
import { createRandom, type Random } from "../../soak/random.ts";
import type { EngineName } from "../../support/chain/nodes.ts";
import type { ChaosFigure } from "../chaos.ts";
import { finish } from "./kills-random.ts";
import { checkStoreAtRest } from "./support/node-checks.ts";
import { makeNodeHome } from "./support/node-home.ts";
import { KilledNode } from "./support/node-killed.ts";
import { within } from "./support/node-process.ts";
import { Witness } from "./support/node-witness.ts";

/** What the tests of snapshots kill at. */
export const POINTS_OF_SNAPSHOTS: readonly string[] = ["chain-store.restored-some"];

/** Points that a node passes in the course of its blocks. */
export const BLOCK_POINTS: readonly string[] = CHAIN_FAULT_POINTS.filter(
  (point) => !POINTS_OF_SNAPSHOTS.includes(point),
);

const OTHER_ENGINE: Readonly<Record<EngineName, string>> = { embedded: "abci.", cometbft: "embedded." };
/** Those that the genesis passes, too. */
const GENESIS_POINTS = BLOCK_POINTS.filter(
  (point) => point.startsWith("chain-store.") && !point.startsWith("chain-store.prune"),
);
const SETTINGS = { keepHeights: 5, snapshotEveryBlocks: 0 };
/** Blocks go by so often that each reach of a point is soon followed by the next. */
const LAST_REACH = 4;

/** Points that a node passes under an engine. */
export const pointsOf = (engine: EngineName): readonly string[] =>
  BLOCK_POINTS.filter((point) => !point.startsWith(OTHER_ENGINE[engine]));

/** Options of {@link killAtPoints}. */
export interface PointKillsOptions {
  readonly engine: EngineName;
  readonly compileCache: string;
  /** How often every point ends the node. */
  readonly rounds: number;
  readonly seed: number;
  readonly progress: (text: string) => void;
}

/** What {@link killAtPoints} found out. */
export interface PointKills {
  readonly figures: readonly ChaosFigure[];
  /** Every point that was passed. */
  readonly reached: ReadonlySet<string>;
}

function shuffled(points: readonly string[], random: Random): string[] {
  const left = [...points];
  const order: string[] = [];
  while (left.length > 0) order.push(...left.splice(random.whole(0, left.length - 1), 1));
  return order;
}

/** Starts a node that dies at a point, waits for its death, and reads what it left. @returns the newest block at rest */
async function dieAt(node: KilledNode, point: string, nth: number, newestBefore: bigint): Promise<bigint> {
  await node.start(SETTINGS, { point, nth });
  const { app } = node;
  const loaded = node.loadUntilDeath();
  await within(`death at ${point}, the ${nth}. time`, app.exited);
  await loaded;
  assert.ok(app.diedThere(), `the node ended elsewhere than at ${point}:\n${app.tail()}`);
  await node.buried("ours");
  const { newestBlocks } = await checkStoreAtRest(node.home, node.witness);
  // What was on the disk before the point is there, and nothing of what was not.
  assert.equal(newestBlocks, newestBefore + BigInt(app.written()), `newest block after a death at ${point}`);
  return newestBlocks;
}

async function round(
  opts: PointKillsOptions,
  at: number,
  reached: Set<string>,
): Promise<{ kills: number; blocks: number }> {
  const { engine, seed } = opts;
  // Two series: what the load draws depends on how fast the machine is.
  const [plan, random] = [createRandom(seed + at), createRandom(seed - at)];
  await using home = await makeNodeHome(opts);
  await using node = new KilledNode({ home }, { witness: new Witness(), random });
  const genesisPoint = GENESIS_POINTS[(seed + at) % GENESIS_POINTS.length] ?? "";
  let newest = await node.told(`genesis, ${genesisPoint}`, () => dieAt(node, genesisPoint, 1, -1n));
  const points = shuffled(pointsOf(engine), plan);
  for (const point of points) {
    const nth = point.startsWith("chain-store.prune") ? 1 : plan.whole(1, LAST_REACH);
    const before = newest;
    newest = await node.told(`${point}, ${nth}`, () => dieAt(node, point, nth, before));
    for (const name of node.app.reached) reached.add(name);
  }
  return { kills: points.length + 1, blocks: await node.told("the end", () => finish(node)) };
}

/** Ends a node at every named point. @throws AssertionError when a point is never passed, or something was lost there */
export async function killAtPoints(opts: PointKillsOptions): Promise<PointKills> {
  const { engine, rounds, progress } = opts;
  const reached = new Set<string>();
  let [kills, blocks] = [0, 0];
  for (let at = 0; at < rounds; at++) {
    const done = await round(opts, at, reached);
    kills += done.kills;
    blocks += done.blocks;
    progress(`${engine}: every fault point, round ${at + 1} of ${rounds}`);
  }
  const figures = [
    { what: `${engine}: fault points`, value: pointsOf(engine).length, unit: "" },
    { what: `${engine}: kills at fault points`, value: kills, unit: "" },
    { what: `${engine}: blocks of those runs, replayed to the same app hashes`, value: blocks, unit: "blocks" },
  ];
  return { figures, reached };
}
