/** Says whether a repeated fault is to be logged: when it starts, then once a minute. */
export interface Quiet {
  /** True when this fault is to be logged. */
  fails(): boolean;
  /** True when a fault that was logged has ended. */
  works(): boolean;
}

/** Time between two lines about one lasting fault. */
const EVERY_MS = 60_000;

/** Makes one for one thing that works or does not. */
export function createQuiet(monotonicMs: () => number = () => performance.now()): Quiet {
  let loggedAtMs: number | undefined;
  return {
    fails() {
      const nowMs = monotonicMs();
      if (loggedAtMs !== undefined && nowMs - loggedAtMs < EVERY_MS) return false;
      loggedAtMs = nowMs;
      return true;
    },
    works() {
      const ended = loggedAtMs !== undefined;
      loggedAtMs = undefined;
      return ended;
    },
  };
}
