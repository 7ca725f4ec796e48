/** Time is passed in, so that tests own it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Milliseconds that never go backwards, from an arbitrary start. */
  monotonicMs(): number;
}

/** The machine's clock. */
export const systemClock: Clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };
