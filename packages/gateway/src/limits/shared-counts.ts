import type { Clock } from "@turnpike/base";
import {
  readConsumeMessage,
  readRequest,
  type VerdictsMessage,
  type VerdictWire,
  verdictToWire,
} from "./consume-messages.ts";
import { SlidingWindow, type SlidingWindowOptions } from "./sliding-window.ts";
import type { StoreLimit, StoreVerdict } from "./types.ts";

/** Windows that are kept: those of the configuration in effect, and of some before it. */
const MAX_WINDOWS = 8;
/** The verdict on an unreadable request: it consumes nothing, and no limit fits it. */
const UNREADABLE: VerdictWire = [];

/** The counts of all workers of a machine, held by their primary. */
export class SharedCounts {
  readonly #opts: Pick<SlidingWindowOptions, "maxKeys" | "hashSeed">;
  readonly #clock: Clock;
  readonly #windows = new Map<string, SlidingWindow>();

  constructor(opts: Pick<SlidingWindowOptions, "maxKeys" | "hashSeed">, modules: { readonly clock: Clock }) {
    this.#opts = opts;
    this.#clock = modules.clock;
  }

  /** Counts the items in all limits or in none. */
  consume(limits: readonly StoreLimit[], items: number): StoreVerdict {
    const nowMs = this.#clock.monotonicMs();
    const standings = limits.map((limit) => {
      const window = this.#windowOf(limit);
      return { used: window.used(limit.key, nowMs), oldestLeavesMs: window.oldestLeavesMs(limit.key, nowMs) };
    });
    const refusedBy = limits.findIndex(({ requests }, at) => (standings[at]?.used ?? 0) + items > requests);
    const by = limits[refusedBy];
    if (by !== undefined) {
      return { refusedBy, waitMs: this.#windowOf(by).waitMs(by.key, items, nowMs, by.requests), standings };
    }
    for (const limit of limits) this.#windowOf(limit).add(limit.key, items, nowMs);
    return { refusedBy: -1, waitMs: 0, standings };
  }

  /** Counts items that were served elsewhere, whether or not they fit. */
  note(limits: readonly StoreLimit[], items: number): void {
    const nowMs = this.#clock.monotonicMs();
    for (const limit of limits) this.#windowOf(limit).add(limit.key, items, nowMs);
  }

  /** Answers a worker's message; undefined when it is not for the counts. */
  answer(message: unknown): VerdictsMessage | undefined {
    const batch = readConsumeMessage(message);
    if (batch === undefined) return undefined;
    for (const wire of batch.notes) {
      const noted = readRequest(wire);
      if (noted !== undefined) this.note(noted.limits, noted.items);
    }
    const verdicts = batch.requests.map((wire) => {
      const asked = readRequest(wire);
      return asked === undefined ? UNREADABLE : verdictToWire(this.consume(asked.limits, asked.items));
    });
    return { to: "limits", id: batch.id, verdicts };
  }

  #windowOf({ key, requests, windowMs }: StoreLimit): SlidingWindow {
    // Keys of one limit start alike: `c:` or `s:`. Those of applications, `a:` and `o:`, each have a number of their own.
    const kind = key.slice(0, 2);
    const name = `${kind} ${kind === "a:" || kind === "o:" ? "" : requests} ${windowMs}`;
    const known = this.#windows.get(name);
    if (known !== undefined) return known;
    const fresh = new SlidingWindow({ requests, windowMs, ...this.#opts });
    this.#windows.set(name, fresh);
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > MAX_WINDOWS && oldest !== undefined) this.#windows.delete(oldest);
    return fresh;
  }
}
