/** The height that one operator stated. */
export interface HeightVote {
  readonly heightBlocks: number;
  /** Monotonic milliseconds. */
  readonly atMs: number;
}

/** What is known of a chain whose suppliers are asked. */
export interface AgreementFacts {
  /** The height that was agreed on before; undefined at the start. */
  readonly beforeBlocks: number | undefined;
  /** Blocks by which honest operators may differ now. */
  readonly headroomBlocks: number;
  /** The highest that the chain can be by its growth since operators last agreed. */
  readonly reachBlocks: number;
  /** Votes of the set that were not heard yet. */
  readonly outstanding: number;
}

/** With no past to go by, a second operator's height is absurd when it is further above the first's than this and twice as high. */
const ABSURD_BLOCKS = 100_000;

const byHeight = (a: number, b: number): number => a - b;

/** Votes without which nothing is agreed on: more than half of the set. */
export const quorumOf = (voters: number): number => Math.floor(voters / 2) + 1;

/** True for a height that the chain can have by its growth. */
const isReachable = (height: number, beforeBlocks: number, { headroomBlocks, reachBlocks }: AgreementFacts): boolean =>
  height <= Math.min(beforeBlocks + headroomBlocks, reachBlocks);

function agreedByTwo(low: number, high: number, facts: AgreementFacts): number {
  const { beforeBlocks, headroomBlocks } = facts;
  if (high - low <= headroomBlocks) return high;
  if (beforeBlocks !== undefined) return isReachable(high, beforeBlocks, facts) ? high : low;
  return high > 2 * low + ABSURD_BLOCKS ? low : high;
}

/**
 * The height that a set of operators agrees on, one vote each; undefined while they do not.
 * - Sets of one or two need not wait for each other. One: its height, which cannot be compared. Two: the higher one,
 *   because suppliers fall behind and hardly ever run ahead; unless it does not follow from the height before or the
 *   chain's block time, or is absurd where there is none before.
 * - Larger ones: a height that a quorum of the set has reached, and that a quorum of it has not passed by more than honest
 *   operators differ. Votes that are outstanding count for neither, so that those who answer first decide nothing. Of an
 *   even set that is split in halves, the upper half is right when its height follows from the one before, else the lower;
 *   without one before neither is.
 *
 * A height of 0 is "unknown" while another operator knows better: a node that starts says so.
 */
export function agreedHeight(heights: readonly number[], facts: AgreementFacts): number | undefined {
  const positive = heights.filter((height) => height > 0);
  const votes = (positive.length > 0 ? positive : heights).toSorted(byHeight);
  const { beforeBlocks, headroomBlocks, outstanding } = facts;
  const voters = votes.length + outstanding;
  const [first, second] = votes;
  if (voters <= 2) {
    return first === undefined || second === undefined ? first : agreedByTwo(first, second, facts);
  }
  const quorum = quorumOf(voters);
  const low = votes.at(-quorum);
  const high = votes[quorum - 1];
  if (low === undefined || high === undefined) return undefined;
  if (high - low <= headroomBlocks) return outstanding > 0 ? low : high;
  if (outstanding > 0 || beforeBlocks === undefined) return undefined;
  return isReachable(high, beforeBlocks, facts) ? high : low;
}

/** The median, the upper one of two. */
export function agreedMiddle(heights: readonly number[]): number | undefined {
  return heights.toSorted(byHeight)[Math.floor(heights.length / 2)];
}

/** The highest height that a quorum of so many voters has reached; undefined where too few state one. */
export function reachedByQuorum(heights: readonly number[], voters: number): number | undefined {
  return heights.toSorted(byHeight).at(-quorumOf(voters));
}
