import type { Clock } from "@turnpike/base";

interface Sample {
  readonly offsetSeconds: number;
  readonly atMs: number;
}

/** A new block is fresh when the one before was seen at most this long ago. */
const FRESH_MS = 6_000;
/** How long a sample counts. */
const KEEP_MS = 600_000;
const MAX_SAMPLES = 64;

/**
 * Estimates a chain's time as the monotonic clock plus an offset learnt from its blocks. The chain's time is never
 * before the newest timestamp plus what has passed since it was first seen, so the largest offset of the last minutes is
 * taken. Until a block was seen to appear, the newest one may be old (a development chain makes none while idle): then
 * the machine's clock is believed where it is later. After that it no longer matters whether that clock is right.
 */
export class ChainClock {
  readonly #clock: Clock;
  #newest: bigint | undefined;
  #lastSightMs = Number.NEGATIVE_INFINITY;
  #learnt = false;
  // Offsets falling, times rising: the first one is the largest of those that still count.
  #samples: Sample[] = [];

  constructor(modules: { readonly clock: Clock }) {
    this.#clock = modules.clock;
  }

  /** True once a block was seen to appear, so that the estimate no longer leans on the machine's clock. */
  get learnt(): boolean {
    return this.#learnt;
  }

  /** Learns from a block that a node showed as its newest. */
  sight(blockNumber: bigint, timestampSeconds: bigint): void {
    const atMs = this.#clock.monotonicMs();
    const isNew = this.#newest === undefined || blockNumber > this.#newest;
    const isFresh = this.#newest !== undefined && isNew && atMs - this.#lastSightMs <= FRESH_MS;
    this.#lastSightMs = atMs;
    if (!isNew) return;
    this.#newest = blockNumber;
    if (isFresh) this.#learnt = true;
    const offsetSeconds = Number(timestampSeconds) - atMs / 1_000;
    this.#samples = this.#samples.filter((s) => s.offsetSeconds > offsetSeconds && s.atMs > atMs - KEEP_MS);
    this.#samples.push({ offsetSeconds, atMs });
    if (this.#samples.length > MAX_SAMPLES) this.#samples.splice(-2, 1);
  }

  /** Best estimate of the timestamp that a block made now would have, in Unix seconds, not rounded. */
  nowSeconds(): number {
    const [best] = this.#samples;
    if (best === undefined) return this.#clock.nowMs() / 1_000;
    const estimate = best.offsetSeconds + this.#clock.monotonicMs() / 1_000;
    return this.#learnt ? estimate : Math.max(estimate, this.#clock.nowMs() / 1_000);
  }
}
