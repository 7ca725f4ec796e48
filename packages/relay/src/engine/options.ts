import type { CrossCheckRules } from "./cross-check.ts";
import type { LogRangeRules } from "./log-ranges.ts";

/** How the suppliers of one service are asked. */
export interface ServiceRules {
  /** Longest time for one attempt. */
  readonly timeoutMs: number;
  /** Most attempts for one call. */
  readonly maxAttempts: number;
  /** How answers are compared. */
  readonly crossCheck?: CrossCheckRules;
  /** How questions for logs are taken apart. */
  readonly logRanges?: LogRangeRules;
}

/** Options of `RelayEngine`. */
export interface EngineOptions {
  /** By service id; a supplier set without rules has the defaults. */
  readonly rules: Readonly<Record<string, ServiceRules>>;
  /** Largest answer that is taken. */
  readonly maxAnswerBytes: number;
  /** Free answers that are larger are passed on while they arrive, where their asker takes that. */
  readonly streamAfterBytes: number;
  /** Largest answer that is passed on while it arrives. */
  readonly maxStreamedBytes: number;
  /** Longest time for that. */
  readonly streamTimeoutMs: number;
  /** Larger answers are not held against their schema (`unchecked`). */
  readonly maxCheckedBytes: number;
  /** Time between two probes of one supplier; 20 % more or less at random. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** Probes that run at once. */
  readonly maxProbes: number;
  /** Calls in flight; more are OVERLOADED. Free calls may take nine tenths, so that there is room for paid ones. */
  readonly maxInFlight: number;
  /** Bytes of kept answers; 0 keeps none. */
  readonly maxCacheBytes: number;
  /** Longest time for which an answer about the newest block is kept; 0: not at all. */
  readonly maxHeadAgeMs: number;
  /** Part of a service's first attempts that one operator gets at most, while enough others are healthy. */
  readonly maxOperatorShare: number;
  /** A second supplier is asked when a call takes longer than this share of the calls like it; 1 never does. */
  readonly hedgeQuantile: number;
  /** Most hedges for each call, on average. */
  readonly maxHedgeShare: number;
}

/** Time for one attempt at a service that sets none. */
export const DEFAULT_ATTEMPT_TIMEOUT_MS = 10_000;
/** Attempts for one call at a service that sets none. */
export const DEFAULT_MAX_ATTEMPTS = 3;
/** The rules of a service that has none. */
export const DEFAULT_RULES: ServiceRules = {
  timeoutMs: DEFAULT_ATTEMPT_TIMEOUT_MS,
  maxAttempts: DEFAULT_MAX_ATTEMPTS,
};
