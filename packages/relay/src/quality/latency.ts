/** How latencies are kept. */
export interface LatencyOptions {
  /** Time in which a sample's weight halves. */
  readonly halfLifeMs: number;
  /** Weight of samples below which nothing is said. */
  readonly minSamples: number;
  /** Operations that are kept apart; all others are kept together. */
  readonly maxOperations: number;
}

/** Five minutes, twenty samples. */
export const DEFAULT_LATENCY: LatencyOptions = { halfLifeMs: 300_000, minSamples: 20, maxOperations: 64 };

const FIRST_MS = 0.25;
const GROWTH = 1.15;
/** The last bucket begins at some 2 minutes. */
const BUCKETS = 96;
const LOG_GROWTH = Math.log(GROWTH);
/** Newer samples weigh more, instead of older ones less; from here on all weights are scaled back. */
const MAX_WEIGHT = 2 ** 40;
/** A quantile is computed so often at most. */
const KEEP_MS = 250;

/** A histogram with buckets that grow by 15 %, in which older samples weigh less. */
export class LatencyHistogram {
  readonly #options: LatencyOptions;
  readonly #weights = new Float64Array(BUCKETS);
  #total = 0;
  #baseMs: number | undefined;
  #keptQ = Number.NaN;
  #keptMs: number | undefined;
  #keptAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: LatencyOptions) {
    this.#options = options;
  }

  add(nowMs: number, latencyMs: number): void {
    const weight = this.#weightAt(nowMs);
    const index = latencyMs <= FIRST_MS ? 0 : Math.ceil(Math.log(latencyMs / FIRST_MS) / LOG_GROWTH);
    const bucket = Math.min(BUCKETS - 1, Math.max(0, Number.isNaN(index) ? 0 : index));
    this.#weights[bucket] = (this.#weights[bucket] ?? 0) + weight;
    this.#total += weight;
  }

  /** The latency that a part `q` of the answers does not exceed; undefined while there are too few samples. */
  quantileMs(q: number, nowMs: number): number | undefined {
    if (q === this.#keptQ && nowMs - this.#keptAtMs < KEEP_MS) return this.#keptMs;
    this.#keptQ = q;
    this.#keptAtMs = nowMs;
    this.#keptMs = this.#quantileMs(q, nowMs);
    return this.#keptMs;
  }

  #quantileMs(q: number, nowMs: number): number | undefined {
    if (this.#total === 0 || this.#total / this.#weightAt(nowMs) < this.#options.minSamples) return undefined;
    let left = Math.min(1, Math.max(0, q)) * this.#total;
    let last = 0;
    for (let i = 0; i < BUCKETS; i++) {
      const weight = this.#weights[i] ?? 0;
      if (weight === 0) continue;
      last = i;
      if (left <= weight) return FIRST_MS * GROWTH ** (i - 1 + left / weight);
      left -= weight;
    }
    return FIRST_MS * GROWTH ** last;
  }

  #weightAt(nowMs: number): number {
    this.#baseMs ??= nowMs;
    const weight = 2 ** ((nowMs - this.#baseMs) / this.#options.halfLifeMs);
    if (weight <= MAX_WEIGHT) return weight;
    for (let i = 0; i < BUCKETS; i++) this.#weights[i] = (this.#weights[i] ?? 0) / weight;
    this.#total /= weight;
    this.#baseMs = nowMs;
    return 1;
  }
}

/** Latencies of one service's good answers, by operation. */
export class LatencyTracker {
  readonly #options: LatencyOptions;
  readonly #operations = new Map<string, LatencyHistogram>();
  readonly #others: LatencyHistogram;

  constructor(options: LatencyOptions) {
    this.#options = options;
    this.#others = new LatencyHistogram(options);
  }

  /**
   * A good answer took so long, from the start of its own attempt. When a hedge wins, add also what its loser had taken
   * by then: else slow answers vanish from the book and the hedge comes ever earlier.
   */
  add(operation: string, nowMs: number, latencyMs: number): void {
    let histogram = this.#operations.get(operation);
    if (histogram === undefined) {
      histogram = this.#others;
      if (this.#operations.size < this.#options.maxOperations) {
        histogram = new LatencyHistogram(this.#options);
        this.#operations.set(operation, histogram);
      }
    }
    histogram.add(nowMs, latencyMs);
  }

  /** See {@link LatencyHistogram.quantileMs}. */
  quantileMs(operation: string, q: number, nowMs: number): number | undefined {
    const histogram = this.#operations.get(operation);
    if (histogram !== undefined) return histogram.quantileMs(q, nowMs);
    return this.#operations.size < this.#options.maxOperations ? undefined : this.#others.quantileMs(q, nowMs);
  }
}
