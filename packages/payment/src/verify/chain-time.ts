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
/** Time for which blocks stay below the newest number until they count as those of another chain, or of an earlier answer's end. */
const FALLEN_MS = 60_000;
/** Maximum seconds of a block's time before the machine's clock. */
const MAX_LEAD_SECONDS = 900;

/**
 * Estimates a chain's time as the monotonic clock plus an offset learnt from its blocks. The chain's time is never
 * before the newest timestamp plus what has passed since it was first seen, so the largest offset of the last minutes is
 * taken. Until a block was seen to appear, the newest one may be old (a development chain makes none while idle): then
 * the machine's clock is believed where it is later. After that it no longer matters whether that clock is right, unless
 * blocks are far ahead of it: those of another chain, or of a node that is wrong, would expire all payments.
 */
export class ChainClock {
  readonly #clock: Clock;
  #newest: bigint | undefined;
  #lastSightMs = Number.NEGATIVE_INFINITY;
  #learnt = false;
  #isAhead = false;
  /** Since when blocks were below the newest number. */
  #fallenAtMs: number | undefined;
  // Offsets falling, times rising: the first one is the largest of those that still count.
  #samples: Sample[] = [];

  constructor(modules: { readonly clock: Clock }) {
    this.#clock = modules.clock;
  }

  /** True once a block was seen to appear, so that the estimate no longer leans on the machine's clock. */
  get learnt(): boolean {
    return this.#learnt;
  }

  /** True when the time of the last block was too far ahead of the machine's clock to be believed. */
  get isAhead(): boolean {
    return this.#isAhead;
  }

  /** Learns from a block that a node showed as its newest. */
  sight(blockNumber: bigint, timestampSeconds: bigint): void {
    const atMs = this.#clock.monotonicMs();
    this.#isAhead = isFarAhead(Number(timestampSeconds), this.#clock);
    if (this.#isAhead) return;
    if (this.#hasFallen(blockNumber, atMs)) this.#startAnew();
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
    const atMs = this.#clock.monotonicMs();
    // The newest one counts however old it is: a chain that makes no blocks has no other.
    const best = this.#samples.find((sample) => sample.atMs > atMs - KEEP_MS) ?? this.#samples.at(-1);
    if (best === undefined) return this.#clock.nowMs() / 1_000;
    const estimate = best.offsetSeconds + atMs / 1_000;
    return this.#learnt ? estimate : Math.max(estimate, this.#clock.nowMs() / 1_000);
  }

  #hasFallen(blockNumber: bigint, atMs: number): boolean {
    if (this.#newest === undefined || blockNumber >= this.#newest) {
      this.#fallenAtMs = undefined;
      return false;
    }
    this.#fallenAtMs ??= atMs;
    return atMs - this.#fallenAtMs >= FALLEN_MS;
  }

  #startAnew(): void {
    this.#fallenAtMs = undefined;
    this.#newest = undefined;
    this.#learnt = false;
    this.#samples = [];
  }
}

/** True when a block's time is so far ahead of the machine's clock that one of them is wrong. */
export function isFarAhead(blockSeconds: number, clock: Clock): boolean {
  return blockSeconds > clock.nowMs() / 1_000 + MAX_LEAD_SECONDS;
}
