import type { Clock } from "@turnpike/base";
import { createSlidingWindow, type SlidingWindow } from "./sliding-window.ts";
import type { StoreLimit, StoreVerdict } from "./store.ts";
import { readTake, readTakes, type VerdictsMessage, type VerdictWire, verdictToWire } from "./take-wire.ts";

/** Options of {@link createSharedCounts}. */
export interface SharedCountsOptions {
  /** Most keys of each limit that are counted one by one. */
  readonly maxKeys: number;
  /** Secret start of hashes. */
  readonly hashSeed: number;
}

/** The counts of all workers of a machine, held by their primary. */
export interface SharedCounts {
  /** Counts the items in all limits or in none. */
  take(limits: readonly StoreLimit[], items: number): StoreVerdict;
  /** Counts items that were let pass elsewhere, whether or not they fit. */
  note(limits: readonly StoreLimit[], items: number): void;
  /** Answers a worker's message; undefined when it is not for the counts. */
  answer(message: unknown): VerdictsMessage | undefined;
}

/** Windows that are kept: those of the configuration in effect, and of some before it. */
const MAX_WINDOWS = 8;
/** The verdict on what is no request: it takes nothing, and no limit fits it. */
const NONSENSE: VerdictWire = [];

/** Creates empty counts. */
export function createSharedCounts(opts: SharedCountsOptions, modules: { readonly clock: Clock }): SharedCounts {
  const windows = new Map<string, SlidingWindow>();

  const windowOf = ({ key, requests, windowMs }: StoreLimit): SlidingWindow => {
    // Keys of one limit start alike: `c:` or `s:`. Those of applications, `a:` and `o:`, each have a number of their own.
    const kind = key.slice(0, 2);
    const name = `${kind} ${kind === "a:" || kind === "o:" ? "" : requests} ${windowMs}`;
    const known = windows.get(name);
    if (known !== undefined) return known;
    const fresh = createSlidingWindow({ requests, windowMs, ...opts });
    windows.set(name, fresh);
    if (windows.size > MAX_WINDOWS) {
      for (const oldest of windows.keys()) {
        windows.delete(oldest);
        break;
      }
    }
    return fresh;
  };

  const note: SharedCounts["note"] = (limits, items) => {
    const nowMs = modules.clock.monotonicMs();
    for (const limit of limits) windowOf(limit).add(limit.key, items, nowMs);
  };

  const take: SharedCounts["take"] = (limits, items) => {
    const nowMs = modules.clock.monotonicMs();
    const standings = limits.map((limit) => {
      const window = windowOf(limit);
      return { used: window.used(limit.key, nowMs), oldestLeavesMs: window.oldestLeavesMs(limit.key, nowMs) };
    });
    const refusedBy = limits.findIndex(({ requests }, at) => (standings[at]?.used ?? 0) + items > requests);
    const by = limits[refusedBy];
    if (by !== undefined)
      return { refusedBy, waitMs: windowOf(by).waitMs(by.key, items, nowMs, by.requests), standings };
    for (const limit of limits) windowOf(limit).add(limit.key, items, nowMs);
    return { refusedBy: -1, waitMs: 0, standings };
  };

  return {
    take,
    note,
    answer(message) {
      const batch = readTakes(message);
      if (batch === undefined) return undefined;
      for (const wire of batch.notes) {
        const noted = readTake(wire);
        if (noted !== undefined) note(noted.limits, noted.items);
      }
      const verdicts = batch.takes.map((wire) => {
        const asked = readTake(wire);
        return asked === undefined ? NONSENSE : verdictToWire(take(asked.limits, asked.items));
      });
      return { to: "limits", id: batch.id, verdicts };
    },
  };
}
