import type { Clock } from "@turnpike/base";

/** What is known of a chain's time. */
export interface ChainClock {
  /** Tells of a block that a node showed as its newest. */
  sight(blockNumber: bigint, timestampSeconds: bigint): void;
  /** Best estimate of the timestamp that a block made now would have, in Unix seconds, not rounded. */
  nowSeconds(): number;
  /** True once a block was seen to appear, so that the estimate no longer leans on the machine's clock. */
  readonly learnt: boolean;
}

interface Sample {
  readonly offsetSeconds: number;
  readonly atMs: number;
}

/** Options of {@link createChainClock}. */
export interface ChainClockOptions {
  /** A new block is fresh when the one before was seen at most this long ago; 6,000 by default. */
  readonly freshMs?: number;
  /** How long a sample counts; 600,000 by default. */
  readonly keepMs?: number;
}

/**
 * Estimates a chain's time as the monotonic clock plus an offset learnt from its blocks. The chain's time is never
 * before the newest timestamp plus what has passed since it was first seen, so the largest offset of the last minutes is
 * taken. Until a block was seen to appear, the newest one may be old (a development chain makes none while idle): then
 * the machine's clock is believed where it is later. After that it no longer matters whether that clock is right.
 */
export function createChainClock(opts: ChainClockOptions, modules: { readonly clock: Clock }): ChainClock {
  const { clock } = modules;
  const freshMs = opts.freshMs ?? 6_000;
  const keepMs = opts.keepMs ?? 600_000;
  let newest: bigint | undefined;
  let lastSightMs = Number.NEGATIVE_INFINITY;
  let learnt = false;
  // Offsets falling, times rising: the first one is the largest of those that still count.
  let samples: Sample[] = [];

  const monotonicSeconds = (): number => clock.monotonicMs() / 1_000;

  return {
    get learnt() {
      return learnt;
    },
    sight(blockNumber, timestampSeconds) {
      const atMs = clock.monotonicMs();
      const isNew = newest === undefined || blockNumber > newest;
      const isFresh = newest !== undefined && isNew && atMs - lastSightMs <= freshMs;
      lastSightMs = atMs;
      if (!isNew) return;
      newest = blockNumber;
      if (isFresh) learnt = true;
      const offsetSeconds = Number(timestampSeconds) - atMs / 1_000;
      samples = samples.filter((s) => s.offsetSeconds > offsetSeconds && s.atMs > atMs - keepMs);
      samples.push({ offsetSeconds, atMs });
      if (samples.length > 64) samples.splice(-2, 1);
    },
    nowSeconds() {
      const [best] = samples;
      if (best === undefined) return clock.nowMs() / 1_000;
      const estimate = best.offsetSeconds + monotonicSeconds();
      return learnt ? estimate : Math.max(estimate, clock.nowMs() / 1_000);
    },
  };
}
