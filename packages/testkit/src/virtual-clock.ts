import type { Clock } from "@turnpike/base";

/** A clock that stands still until a test moves it. */
export interface VirtualClock extends Clock {
  /** Moves both times forward by so many milliseconds. */
  advance(ms: number): void;
}

/** Makes a {@link VirtualClock}; `startMs` is its first time since the Unix epoch, the machine's own by default. */
export function virtualClock(startMs: number = Date.now()): VirtualClock {
  let passedMs = 0;
  return {
    nowMs: () => startMs + passedMs,
    monotonicMs: () => passedMs,
    advance(ms) {
      passedMs += ms;
    },
  };
}
