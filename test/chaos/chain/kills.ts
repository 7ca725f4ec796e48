import assert from "node:assert/strict";
import { ENGINES, type EngineName } from "../../support/chain/nodes.ts";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { BLOCK_POINTS, killAtPoints } from "./kills-points.ts";
import { killAtRandom } from "./kills-random.ts";
import { makeCompileCache } from "./support/node-home.ts";

/** By the size of the run. */
const SIZES = { short: { kills: 4, rounds: 1 }, full: { kills: 100, rounds: 3 } } as const;
const SEEDS = 1_000_000;

// A run is repeated with the same seed, as far as the machine's speed lets it.
const seedOf = (text: string | undefined): number =>
  text === undefined ? Math.floor(Math.random() * SEEDS) : Number.parseInt(text, 10);

/**
 * Kills at random moments and at every named fault point, under both engines: nothing that was told is lost or told
 * otherwise, and the chain goes on. `TURNPIKE_CHAOS_SEED` repeats a run.
 */
export const kills: ChaosPart = async ({ size, progress }) => {
  const seed = seedOf(process.env.TURNPIKE_CHAOS_SEED);
  progress(`seed ${seed}`);
  const figures: ChaosFigure[] = [];
  const skipped: string[] = [];
  const reached = new Set<string>();
  await using cache = await makeCompileCache();
  const run = async (engine: EngineName): Promise<ChaosFigure[]> => {
    const shared = { engine, compileCache: cache.folder, seed, progress };
    const random = await killAtRandom({ ...shared, kills: SIZES[size].kills });
    const points = await killAtPoints({ ...shared, rounds: SIZES[size].rounds });
    for (const point of points.reached) reached.add(point);
    return [...random, ...points.figures];
  };
  const running: Promise<ChaosFigure[]>[] = [];
  for (const { engine, skip } of ENGINES) {
    if (skip === false) running.push(run(engine));
    else skipped.push(`kills under ${engine}: ${skip}`);
  }
  // Both end, so that no process is left where one fails.
  const ended = await Promise.allSettled(running);
  for (const one of ended) {
    if (one.status === "rejected") throw one.reason;
    figures.push(...one.value);
  }
  const isWhole = skipped.length === 0;
  const expected = BLOCK_POINTS.filter((point) => isWhole || !point.startsWith("abci."));
  assert.deepEqual(reached, new Set(expected), "points that were passed, and those that have a name");
  return { figures, skipped };
};
