import { isAppError } from "@turnpike/base";
import { readBlockInfo } from "../app/block-infos.ts";
import type { ChainStore } from "../types.ts";
import type { BlockMoment } from "./block-meter.ts";

/** Blocks before the newest one whose states are kept, the newest of them last; at most so many. */
export function pastBlocks(store: ChainStore, count: number): readonly BlockMoment[] {
  const newest = store.latestHeightBlocks();
  if (newest === undefined) return [];
  const earliest = store.earliestHeightBlocks();
  const wanted = newest - BigInt(count);
  const found: BlockMoment[] = [];
  try {
    for (let height = wanted < earliest ? earliest : wanted; height < newest; height++) {
      found.push(readBlockInfo(store.at(height), ""));
    }
  } catch (cause) {
    // What is wrong with an old state is told to whoever asks for it.
    if (!isAppError(cause)) throw cause;
  }
  return found;
}
