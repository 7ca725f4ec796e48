/** A block, and when it was made. */
export interface TimedBlock {
  readonly heightBlocks: bigint;
  readonly timeMs: number;
}

/** Time from a node's kill until it follows again, in milliseconds since 1970. */
export interface Outage {
  readonly startMs: number;
  readonly endMs: number;
  /** False when honest nodes of less than two thirds ran meanwhile: blocks need not come then. */
  readonly isQuorumUp: boolean;
}

/** Time from the block before. */
export interface BlockGap {
  readonly heightBlocks: bigint;
  readonly ms: number;
  /** True when an outage left no quorum at a time in it. */
  readonly isExcused: boolean;
}

/** Times between blocks, each with the height of the later block. */
export function gapsOf(blocks: readonly TimedBlock[], outages: readonly Outage[] = []): BlockGap[] {
  const losses = outages.filter(({ isQuorumUp }) => !isQuorumUp);
  return blocks.slice(1).map(({ heightBlocks, timeMs }, index) => {
    const earlierMs = blocks[index]?.timeMs ?? timeMs;
    const isExcused = losses.some(({ startMs, endMs }) => earlierMs <= endMs && timeMs >= startMs);
    return { heightBlocks, ms: timeMs - earlierMs, isExcused };
  });
}

/** Longest of some times between blocks, in milliseconds. */
export const longestMs = (gaps: readonly BlockGap[]): number => gaps.reduce((most, { ms }) => Math.max(most, ms), 0);

/** Faults of blocks that came later than the quiet ones by more than a limit, but for the excused ones. */
export function lateBlocks(gaps: readonly BlockGap[], quietMs: number, lateMs: number): string[] {
  return gaps.flatMap(({ heightBlocks, ms, isExcused }) =>
    isExcused || ms <= quietMs + lateMs
      ? []
      : [
          `block ${heightBlocks} came after ${ms} ms, while quiet ones come within ${quietMs} ms: more than ${lateMs} ms later`,
        ],
  );
}
