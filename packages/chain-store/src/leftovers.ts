import { setImmediate as nextTurn } from "node:timers/promises";
import type { Tables } from "./tables.ts";

/** Entries that one transaction removes. */
const STEP_ENTRIES = 2_048;

const tablesOf = ({ latest, nodes, replaced, changed, hashes, records }: Tables) => [
  latest,
  nodes,
  replaced,
  changed,
  hashes,
  records,
];

/** Whether a store that stands nowhere has anything that {@link clearLeftovers} would remove. */
export function hasLeftovers(tables: Tables): boolean {
  return tablesOf(tables).some((table) => {
    for (const _ of table.keys({})) return true;
    return false;
  });
}

/** The store that is emptied. */
export interface LeftoversHost {
  readonly tables: Tables;
  write(action: () => void): void;
  /** Is asked between transactions, and breaks it off. */
  isClosing(): boolean;
}

/**
 * Empties a store that stands nowhere, in bounded transactions: what a restore left that did not come to its end.
 * @returns how many entries it removed
 */
export async function clearLeftovers(host: LeftoversHost): Promise<number> {
  let removed = 0;
  for (const table of tablesOf(host.tables)) {
    for (;;) {
      const keys: Buffer[] = [];
      for (const key of table.keys({})) if (keys.push(key) === STEP_ENTRIES) break;
      if (keys.length === 0) break;
      host.write(() => {
        for (const key of keys) table.remove(key);
      });
      removed += keys.length;
      await nextTurn();
      if (host.isClosing()) return removed;
    }
  }
  return removed;
}
