import type { Target } from "./target.ts";

/** Blocks behind the others by which a supplier is passed over, where the catalogue names none. */
const DEFAULT_ALLOWANCE_BLOCKS = 50;

/** Height that a supplier has to have; undefined while fewer than three say theirs: two cannot tell who is wrong. */
export function neededHeight(targets: readonly Target[], allowanceBlocks: number | undefined): number | undefined {
  const heights = targets
    .map((target) => target.heightBlocks)
    .filter((height) => height !== undefined)
    .sort((a, b) => a - b);
  if (heights.length < 3) return undefined;
  const median = heights[Math.floor(heights.length / 2)];
  return median === undefined ? undefined : median - (allowanceBlocks ?? DEFAULT_ALLOWANCE_BLOCKS);
}

/** What {@link orderTargets} works with. */
export interface OrderInput {
  readonly targets: readonly Target[];
  readonly operation: string;
  readonly neededHeightBlocks: number | undefined;
  readonly nowMs: number;
  /** A number of [0, 1). */
  readonly random: () => number;
}

/**
 * The order in which suppliers are asked. Those that lack the operation, have an open breaker, are not verified yet or are behind come last,
 * the least bad of them first: nobody is left out, so the pool is never empty. Among the others the quicker come first,
 * with enough chance that load spreads and a supplier nothing is known of is tried.
 */
export function orderTargets(input: OrderInput): Target[] {
  const { targets, operation, neededHeightBlocks, nowMs, random } = input;
  const ranked = targets.map((target) => {
    const { quality, heightBlocks } = target;
    const isBehind =
      neededHeightBlocks !== undefined && heightBlocks !== undefined && heightBlocks < neededHeightBlocks;
    const penalty = quality.penalty(nowMs);
    const rank =
      (quality.isLacking(operation, nowMs) ? 8 : 0) +
      (quality.isOpen(nowMs) ? 4 : 0) +
      (target.isVerified ? 0 : 2) +
      (isBehind ? 1 : 0);
    const cost = (quality.latencyMs + 1) * (1 + penalty) * (0.5 + random());
    return { target, rank, cost: quality.isOpen(nowMs) ? penalty : cost };
  });
  ranked.sort((a, b) => a.rank - b.rank || a.cost - b.cost);
  return ranked.map(({ target }) => target);
}

/** Takes the next supplier out of the list: of an operator that was not asked yet where there is one. */
export function takeNext(ordered: Target[], asked: ReadonlySet<string>): Target | undefined {
  const fresh = ordered.findIndex((target) => !asked.has(target.operator));
  return ordered.splice(Math.max(0, fresh), 1)[0];
}
