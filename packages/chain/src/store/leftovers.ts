import { setImmediate as nextTurn } from "node:timers/promises";
import type { Tables } from "./tables.ts";

/** Entries that one transaction removes. */
const STEP_ENTRIES = 2_048;

/**
 * Empties a store that stands nowhere, in bounded transactions: what a restore left that did not come to its end.
 * @param isOver is asked between them, and breaks it off
 * @returns how many entries it removed
 */
export async function clearLeftovers(tables: Tables, isOver: () => boolean): Promise<number> {
  const { latest, nodes, replaced, changed, hashes, records } = tables;
  let removed = 0;
  for (const table of [latest, nodes, replaced, changed, hashes, records]) {
    for (;;) {
      const keys: Buffer[] = [];
      for (const key of table.keys({})) if (keys.push(key) === STEP_ENTRIES) break;
      if (keys.length === 0) break;
      tables.write(() => {
        for (const key of keys) table.remove(key);
      });
      removed += keys.length;
      await nextTurn();
      if (isOver()) return removed;
    }
  }
  return removed;
}
