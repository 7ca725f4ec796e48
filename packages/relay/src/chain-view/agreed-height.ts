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
}

/** With no past to go by, a second operator's height is absurd when it is further above the first's than this and twice as high. */
const ABSURD_BLOCKS = 100_000;

const byHeight = (a: number, b: number): number => a - b;

function agreedByTwo(low: number, high: number, facts: AgreementFacts): number {
  const { beforeBlocks, headroomBlocks, reachBlocks } = facts;
  if (high - low <= headroomBlocks) return high;
  if (beforeBlocks !== undefined) return high <= Math.min(beforeBlocks + headroomBlocks, reachBlocks) ? high : low;
  return high > 2 * low + ABSURD_BLOCKS ? low : high;
}

/**
 * The height that operators agree on, one vote each.
 * - None: undefined. One: its height, which cannot be compared.
 * - Two: the higher one, because suppliers fall behind and hardly ever run ahead; unless it does not follow from the
 *   height before or the chain's block time, or is absurd where there is none before.
 * - More: the median, the upper one of two. It is an honest operator's, or lies between two, while liars are fewer.
 *
 * A height of 0 is "unknown" while another operator knows better: a node that starts says so.
 */
export function agreedHeight(heights: readonly number[], facts: AgreementFacts): number | undefined {
  const positive = heights.filter((height) => height > 0);
  const known = positive.length > 0 ? positive : heights;
  const [first, second] = known;
  if (first === undefined || second === undefined) return first;
  if (known.length === 2) return agreedByTwo(Math.min(first, second), Math.max(first, second), facts);
  return agreedMiddle(known);
}

/** The median, the upper one of two. */
export function agreedMiddle(heights: readonly number[]): number | undefined {
  return heights.toSorted(byHeight)[Math.floor(heights.length / 2)];
}

/** The height that operators at least agree on: the median, the lower one of two. One of two cannot raise it. */
export function agreedLow(heights: readonly number[]): number | undefined {
  return heights.toSorted(byHeight)[Math.floor((heights.length - 1) / 2)];
}
