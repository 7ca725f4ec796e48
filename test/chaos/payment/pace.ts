import { setTimeout as pause } from "node:timers/promises";

/** How often something is begun. */
export interface Pace {
  readonly perSecond: number;
  /** Most that are under way; what is due beyond that is left out. */
  readonly maxAtOnce: number;
}

const TICK_MS = 20;

/** What {@link keepPace} did not do. */
export interface Missed {
  /** Not begun: too many were under way. */
  readonly leftOut: number;
  /** Begun, and ended by a fault of this program or of its machine. */
  readonly failed: readonly unknown[];
}

/** Begins `work` at a steady rate, the first at once, until the signal; resolves when all of it has ended. */
export async function keepPace(
  { perSecond, maxAtOnce }: Pace,
  signal: AbortSignal,
  work: () => Promise<void>,
): Promise<Missed> {
  const running = new Set<Promise<void>>();
  const failed: unknown[] = [];
  const startMs = performance.now();
  let begun = 0;
  let leftOut = 0;
  while (!signal.aborted) {
    const due = 1 + Math.floor(((performance.now() - startMs) / 1_000) * perSecond);
    for (; begun < due; begun++) {
      if (running.size >= maxAtOnce) {
        leftOut++;
        continue;
      }
      const one = work()
        .catch((error: unknown) => void failed.push(error))
        .finally(() => running.delete(one));
      running.add(one);
    }
    await sleep(TICK_MS, signal);
  }
  await Promise.all(running);
  return { leftOut, failed };
}

/** Waits so long, or until the signal. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
