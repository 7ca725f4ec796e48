import { changedKeyEntries, readChangedKeys } from "./changed-keys.ts";
import { removeReplaced, replacedParts } from "./history.ts";
import { heightToBytes, versionKey } from "./keys.ts";
import type { BlockPlan } from "./plan.ts";
import type { Tables } from "./tables.ts";

/** Entries of changed keys that one step of pruning removes: some 2,000 values. */
const PRUNE_STEP = 8;

/** Within a transaction: the state after a block. @param keepReplaced false for the first block, before which there is no state */
export function writePlan(
  { latest, replaced, changed, nodes }: Tables,
  { heightBlocks, changes, trie }: BlockPlan,
  keepReplaced: boolean,
): void {
  for (const { key, before, after } of changes) {
    if (keepReplaced) replaced.putParts(versionKey(key, heightBlocks), replacedParts(before));
    if (after === undefined) latest.remove(key);
    else latest.put(key, after);
  }
  for (const [key, bytes] of trie.writes) {
    if (bytes === undefined) nodes.remove(key);
    else nodes.put(key, bytes);
  }
  if (!keepReplaced) return;
  const keys = changes.map(({ key }) => key);
  for (const [key, value] of changedKeyEntries(heightBlocks, keys)) changed.put(key, value);
}

/**
 * One step of pruning, in one transaction: what blocks up to the earliest state's replaced. What a crash left is found
 * again, as the entries say what they are of.
 * @returns how many entries it removed
 */
export function pruneStep(tables: Tables, earliestHeightBlocks: bigint, write: (action: () => void) => void): number {
  const to = heightToBytes(earliestHeightBlocks + 1n);
  const entries: (readonly [Buffer, Buffer])[] = [];
  for (const entry of tables.changed.entries({ to })) if (entries.push(entry) === PRUNE_STEP) break;
  if (entries.length === 0) return 0;
  write(() => {
    for (const [entryKey, value] of entries) {
      const { heightBlocks, keys } = readChangedKeys(entryKey, value);
      removeReplaced(tables, keys, heightBlocks);
      tables.changed.remove(entryKey);
    }
  });
  return entries.length;
}
