import { setTimeout as sleep } from "node:timers/promises";
import { type Clock, systemClock } from "@turnpike/base";

/** Waits some milliseconds; rejects when the signal is aborted. */
export type Wait = (timeMs: number, signal: AbortSignal) => Promise<void>;

/** {@link Wait} on the machine's timers. */
export const timerWait: Wait = async (timeMs, signal) => {
  await sleep(timeMs, undefined, { signal });
};

export interface PacedModules {
  readonly clock?: Clock;
  readonly wait?: Wait;
}

/**
 * Calls an action at a steady interval, the first time at once, until the signal is aborted or the action rejects. What
 * takes longer than the interval is followed by the next call at once; calls that were missed are not made up for.
 */
export async function paced(
  intervalMs: number,
  action: () => Promise<void>,
  signal: AbortSignal,
  { clock = systemClock, wait = timerWait }: PacedModules = {},
): Promise<void> {
  let dueMs = clock.monotonicMs();
  while (!signal.aborted) {
    await action();
    const nowMs = clock.monotonicMs();
    dueMs = Math.max(dueMs + intervalMs, nowMs);
    try {
      await wait(dueMs - nowMs, signal);
    } catch (cause) {
      if (signal.aborted) return;
      throw cause;
    }
  }
}
