import { withoutComet } from "../../support/chain/comet.ts";
import type { ChaosFigure, ChaosPart } from "../chaos.ts";
import { faultsUnderComet } from "./storage-comet.ts";
import { damagePages } from "./storage-damage.ts";
import { takeBlocks } from "./storage-missing.ts";
import { fillEmbedded, whyNoSmallDisk } from "./storage-room.ts";

const SEEDS = 1_000_000;

/**
 * A full disk, damaged pages, missing blocks, and older copies, under both engines: a refusal that says what to do, and never a
 * wrong answer. `TURNPIKE_CHAOS_SEED` repeats the damage of a run.
 */
export const storage: ChaosPart = async ({ size, progress }) => {
  const given = process.env.TURNPIKE_CHAOS_SEED;
  const first = given === undefined ? Math.floor(Math.random() * SEEDS) : Number.parseInt(given, 10);
  progress(`seed ${first}`);
  const figures: ChaosFigure[] = [{ what: "seed", value: first, unit: "" }];
  const skipped: string[] = [];
  const noDisk = whyNoSmallDisk();
  figures.push(...(await takeBlocks()));
  const counts = size === "short" ? { seeds: 35, unchecked: 0 } : { seeds: 600, unchecked: 140 };
  figures.push(...(await damagePages({ ...counts, first }, { progress })));
  if (noDisk === undefined) figures.push(...(await fillEmbedded({ progress })));
  else skipped.push(`full disk: ${noDisk}`);
  if (withoutComet === false) figures.push(...(await faultsUnderComet({ size, progress })));
  else skipped.push(`faults under cometbft: ${withoutComet}`);
  return { figures, skipped };
};
