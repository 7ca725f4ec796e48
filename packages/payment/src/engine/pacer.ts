import { pause } from "./waiters.ts";

/** Polls after something was sent, for chains that mine at once. */
const QUICK_MS = [1, 4, 15, 50, 100, 200];

/** Says when to look at a chain again: soon after a poke, then slower and slower. */
export interface Pacer {
  /** Something was sent: look at once. */
  poke(): void;
  /** Waits for the next look; `busy` is false when there is nothing to look for. Never rejects. */
  next(busy: boolean, signal: AbortSignal): Promise<void>;
}

/** `slowestMs` between looks while busy, `idleMs` otherwise. */
export function createPacer(slowestMs: number, idleMs: number): Pacer {
  let step = 0;
  let wake = new AbortController();
  return {
    poke() {
      step = 0;
      wake.abort();
    },
    async next(busy, signal) {
      const delayMs = busy || wake.signal.aborted ? Math.min(QUICK_MS[step] ?? slowestMs, slowestMs) : idleMs;
      if (wake.signal.aborted) wake = new AbortController();
      step++;
      await pause(delayMs, AbortSignal.any([signal, wake.signal]));
    },
  };
}
