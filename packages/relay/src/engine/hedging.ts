import type { Clock } from "@turnpike/base";
import type { RelayFlag } from "../types.ts";
import type { Job } from "./job.ts";

interface HedgingOptions {
  /** A second supplier is asked when a call takes longer than this share of the calls like it; 1 never does. */
  readonly hedgeQuantile: number;
  /** Most hedges for each call, on average. */
  readonly maxHedgeShare: number;
}

interface HedgingModules {
  readonly clock: Clock;
  readonly flags: Readonly<Record<RelayFlag, boolean>>;
  /** True when more than half of the calls in flight are taken. */
  readonly isBusy: () => boolean;
}

/** While nothing is known of an operation: a supplier that takes so long hangs. */
const UNKNOWN_MS = 1_000;
/** Quicker calls are over before a hedge helps. */
const MIN_MS = 20;
/** Hedges that may be saved up. */
const MAX_SAVED = 10;

/** When a slow call is sent to a second supplier, too. A token bucket that calls fill: hedges cannot double the load. */
export class Hedging {
  readonly #options: HedgingOptions;
  readonly #modules: HedgingModules;
  #saved = MAX_SAVED;

  constructor(options: HedgingOptions, modules: HedgingModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** After how long; undefined: not at all. Counts the call. */
  delayMs({ call, context }: Job): number | undefined {
    const { hedgeQuantile, maxHedgeShare } = this.#options;
    const { flags, clock } = this.#modules;
    this.#saved = Math.min(MAX_SAVED, this.#saved + maxHedgeShare);
    if (!flags.hedging || hedgeQuantile >= 1) return undefined;
    const known = context.memory.latency.quantileMs(call.operation, hedgeQuantile, clock.monotonicMs());
    return Math.max(MIN_MS, Math.min(known ?? UNKNOWN_MS, context.rules.timeoutMs / 2));
  }

  /** Takes a token; false when there is none, or the engine is busy. */
  acquire(): boolean {
    if (this.#saved < 1 || this.#modules.isBusy()) return false;
    this.#saved--;
    return true;
  }
}
