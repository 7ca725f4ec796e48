import type { Operation } from "./types.ts";

/** Operations of equal kind, parties and reason, added up. */
export interface AggregatedOperation {
  readonly operation: Operation;
  /** How many operations are in it. The event calls them claims. */
  readonly numClaims: number;
}

const KIND_ORDER: readonly Operation["kind"][] = ["mint", "mod_to_mod", "mod_to_acct", "burn"];

// The chain sorts by this text, so reason 19 comes before reason 3.
function orderKey(operation: Operation): string {
  const parties = "module" in operation ? operation.module : `${operation.sender}|${operation.recipient}`;
  return `${parties}|${operation.reason}`;
}

/**
 * Adds up the operations of all claims: mints, then moves between modules, then payouts, then burns; within each by the
 * parties and the reason as text.
 */
export function aggregateOperations(operations: Iterable<Operation>): AggregatedOperation[] {
  const groups = new Map<string, { operation: Operation; numClaims: number }>();
  for (const operation of operations) {
    const key = `${KIND_ORDER.indexOf(operation.kind)}|${orderKey(operation)}`;
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, { operation, numClaims: 1 });
    } else {
      group.operation = { ...group.operation, amountUpokt: group.operation.amountUpokt + operation.amountUpokt };
      group.numClaims++;
    }
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, group]) => group);
}
