/** How failures are held against a supplier. */
export interface QualityOptions {
  /** The breaker is open at this penalty or above. */
  readonly openAt: number;
  /** Time in which a penalty halves. */
  readonly halfLifeMs: number;
  /** No penalty is higher, so that a supplier is soon tried again. */
  readonly maxPenalty: number;
}

/** Two failures in a row may be chance, three open the breaker; at the highest penalty it closes after some 28 s. */
export const DEFAULT_QUALITY: QualityOptions = { openAt: 2.5, halfLifeMs: 15_000, maxPenalty: 9 };

/** What is known of a supplier from calls: a penalty that decays, a smoothed latency, and when it wants to be left alone. */
export class Quality {
  readonly #options: QualityOptions;
  #penalty = 0;
  #penaltyAtMs = 0;
  #latencyMs = 0;
  #restUntilMs = 0;
  readonly #lacking = new Map<string, number>();

  constructor(options: QualityOptions) {
    this.#options = options;
  }

  /** The penalty at a monotonic time. */
  penalty(nowMs: number): number {
    return this.#penalty * 2 ** (-(nowMs - this.#penaltyAtMs) / this.#options.halfLifeMs);
  }

  isOpen(nowMs: number): boolean {
    return nowMs < this.#restUntilMs || this.penalty(nowMs) >= this.#options.openAt;
  }

  /** Smoothed latency; 0 while nothing is known. */
  get latencyMs(): number {
    return this.#latencyMs;
  }

  good(nowMs: number, latencyMs: number): void {
    this.#setPenalty(nowMs, this.penalty(nowMs) / 2);
    this.#latencyMs = this.#latencyMs === 0 ? latencyMs : this.#latencyMs * 0.8 + latencyMs * 0.2;
  }

  failed(nowMs: number): void {
    this.#setPenalty(nowMs, Math.min(this.#options.maxPenalty, this.penalty(nowMs) + 1));
  }

  /** It asked for a pause; at most a minute is given. */
  restUntil(nowMs: number, pauseMs: number): void {
    this.#restUntilMs = nowMs + Math.min(pauseMs, 60_000);
  }

  /** It does not know an operation that we list: another is asked first for some minutes. */
  lacks(operation: string, nowMs: number): void {
    if (this.#lacking.size >= 256) this.#lacking.clear();
    this.#lacking.set(operation, nowMs + 300_000);
  }

  isLacking(operation: string, nowMs: number): boolean {
    return (this.#lacking.get(operation) ?? Number.NEGATIVE_INFINITY) > nowMs;
  }

  #setPenalty(nowMs: number, penalty: number): void {
    this.#penalty = penalty < 0.01 ? 0 : penalty;
    this.#penaltyAtMs = nowMs;
  }
}
