/** Time is passed in, so that tests own it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Milliseconds that never go backwards, from an arbitrary start. */
  monotonicMs(): number;
}

/** Randomness is passed in for the same reason. */
export interface Random {
  /** `length` random bytes. */
  bytes(length: number): Uint8Array;
}

/** The machine's clock. */
export const systemClock: Clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };
