import type { Metrics } from "@turnpike/base";
import { limitedTotal } from "../metrics.ts";

/** What is said to a caller who has too many calls under way. */
export const TOO_MANY_AT_ONCE = "This client has as many calls under way as it may have.";

/** What {@link CallersInFlight} works with. */
export interface CallersInFlightModules {
  /** Most calls of one caller that are under way at once. */
  readonly maxPerCaller: () => number;
  readonly metrics: Metrics;
}

/** Free calls under way, by whose they are, over all doors and configurations: slow ones must not take every place. */
export class CallersInFlight {
  readonly #modules: CallersInFlightModules;
  readonly #byCaller = new Map<string, number>();

  constructor(modules: CallersInFlightModules) {
    this.#modules = modules;
  }

  /** Does a caller's work; undefined, and nothing is done, when it has too much under way. */
  async run<T>(caller: string, work: () => Promise<T> | T): Promise<T | undefined> {
    const own = this.#byCaller.get(caller) ?? 0;
    if (own >= this.#modules.maxPerCaller()) {
      this.#modules.metrics.count(limitedTotal, { limit: "concurrent" });
      return undefined;
    }
    this.#byCaller.set(caller, own + 1);
    try {
      return await work();
    } finally {
      const left = (this.#byCaller.get(caller) ?? 1) - 1;
      if (left === 0) this.#byCaller.delete(caller);
      else this.#byCaller.set(caller, left);
    }
  }
}
