import type { BreakerState } from "../types.ts";

/** When a breaker opens, for how long, and how it closes. */
export interface BreakerOptions {
  /** Time in which failures are counted. */
  readonly windowMs: number;
  /** It opens at so many failures in the window... */
  readonly minFailures: number;
  /** ...when they are such a part of its calls in the window. */
  readonly minFailureShare: number;
  /** It also opens at so many failures in a row... */
  readonly minInRow: number;
  /** ...or at such a part of its calls in the window, where that is more: one lost connection takes many calls with it... */
  readonly inRowShare: number;
  /** ...but at so many at most. */
  readonly maxInRow: number;
  /** The first time that it is open; each next time is twice as long. */
  readonly firstOpenMs: number;
  readonly maxOpenMs: number;
  /** One doubling is undone for each such time that it was closed. */
  readonly undoubleMs: number;
  /** Good calls that close it again; a good probe is half a call. */
  readonly goodToClose: number;
}

/** Opens for 1 s to 5 min. */
export const DEFAULT_BREAKER: BreakerOptions = {
  windowMs: 30_000,
  minFailures: 5,
  minFailureShare: 0.2,
  minInRow: 3,
  inRowShare: 0.01,
  maxInRow: 20,
  firstOpenMs: 1_000,
  maxOpenMs: 300_000,
  undoubleMs: 120_000,
  goodToClose: 5,
};

const SLOTS = 10;
/** Failures that are so far apart are not in a row. */
const ROW_GAP_MS = 300_000;

/**
 * Keeps calls away from a supplier that fails. It opens by evidence only, is open for a time that doubles while it keeps
 * failing, then lets few calls through (`probation`) until enough of them were good. What began before its last change
 * says nothing about what is now, and is not counted.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #calls = new Float64Array(SLOTS);
  readonly #failures = new Float64Array(SLOTS);
  #slot = 0;
  #state: BreakerState = "closed";
  #changedMs = Number.NEGATIVE_INFINITY;
  #openUntilMs = 0;
  #openings = 0;
  #inRow = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;
  #goods = 0;
  #isUnreached = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  state(nowMs: number): BreakerState {
    if (this.#state === "open" && nowMs >= this.#openUntilMs) this.#turn("probation", this.#openUntilMs);
    return this.#state;
  }

  /** Time until it is no longer open; 0 when it is not. */
  openForMs(nowMs: number): number {
    return this.state(nowMs) === "open" ? this.#openUntilMs - nowMs : 0;
  }

  /** Since when it is as it is; negative infinity when it never changed. */
  get changedMs(): number {
    return this.#changedMs;
  }

  /** A call was good that began at `startMs`. */
  good(nowMs: number, startMs: number, isProbe: boolean): void {
    const state = this.state(nowMs);
    if (state === "closed") {
      this.#inRow = 0;
      this.#count(nowMs, 0);
      return;
    }
    if (startMs < this.#changedMs) return;
    if (state === "open") {
      // A node may answer probes and fail calls: then a probe does not make the time shorter.
      if (isProbe && !this.#isUnreached) return;
      this.#turn("probation", nowMs);
    }
    this.#goods += isProbe ? 0.5 : 1;
    if (this.#goods >= this.#options.goodToClose) this.#turn("closed", nowMs);
  }

  /**
   * A call failed that began at `startMs`; `weight` is 1, or less for what is only a hint. `isUnreached`: there was no
   * answer; if that opens the breaker, a good probe ends it.
   */
  failed(nowMs: number, startMs: number, weight = 1, isUnreached = false): void {
    const state = this.state(nowMs);
    if (startMs < this.#changedMs || state === "open") return;
    this.#isUnreached = isUnreached;
    if (state === "probation") {
      if (weight >= 1) this.#open(nowMs);
      return;
    }
    this.#count(nowMs, weight);
    this.#inRow = nowMs - this.#lastFailureMs > ROW_GAP_MS ? weight : this.#inRow + weight;
    this.#lastFailureMs = nowMs;
    if (this.#hasEvidence()) this.#open(nowMs);
  }

  /** Another gateway's breaker is open: from closed to probation. */
  suspect(nowMs: number): void {
    if (this.state(nowMs) !== "closed") return;
    this.#undouble(nowMs);
    this.#turn("probation", nowMs);
  }

  /** As new: closed, and next open for the shortest time. */
  reset(nowMs: number): void {
    this.#turn("closed", nowMs);
    this.#openings = 0;
  }

  #hasEvidence(): boolean {
    const { minFailures, minFailureShare, minInRow, maxInRow, inRowShare } = this.#options;
    let calls = 0;
    let failures = 0;
    for (let i = 0; i < SLOTS; i++) {
      calls += this.#calls[i] ?? 0;
      failures += this.#failures[i] ?? 0;
    }
    if (failures >= minFailures && failures >= minFailureShare * calls) return true;
    return this.#inRow >= Math.min(maxInRow, Math.max(minInRow, inRowShare * calls));
  }

  #open(nowMs: number): void {
    const { firstOpenMs, maxOpenMs } = this.#options;
    if (this.#state === "closed") this.#undouble(nowMs);
    this.#openUntilMs = nowMs + Math.min(maxOpenMs, firstOpenMs * 2 ** this.#openings);
    this.#openings = Math.min(this.#openings + 1, 16);
    this.#turn("open", nowMs);
  }

  #undouble(nowMs: number): void {
    this.#openings = Math.max(0, this.#openings - Math.floor((nowMs - this.#changedMs) / this.#options.undoubleMs));
  }

  #turn(state: BreakerState, atMs: number): void {
    this.#state = state;
    this.#changedMs = atMs;
    this.#goods = 0;
    this.#inRow = 0;
    this.#calls.fill(0);
    this.#failures.fill(0);
  }

  #count(nowMs: number, failure: number): void {
    const slot = Math.floor(nowMs / (this.#options.windowMs / SLOTS));
    const from = Math.max(this.#slot + 1, slot - SLOTS + 1);
    for (let i = from; i <= slot; i++) {
      this.#calls[i % SLOTS] = 0;
      this.#failures[i % SLOTS] = 0;
    }
    if (slot > this.#slot) this.#slot = slot;
    const at = this.#slot % SLOTS;
    this.#calls[at] = (this.#calls[at] ?? 0) + 1;
    this.#failures[at] = (this.#failures[at] ?? 0) + failure;
  }
}
