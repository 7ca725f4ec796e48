import type { RpcType } from "@turnpike/protocol";
import type { CrossCheckRules } from "./cross-check.ts";
import type { LogRangeRules } from "./log-ranges.ts";

/** One operator's back-end of a service. */
export interface StaticEndpoint {
  /** Name for logs and metrics; endpoints with one name count as one operator when another is asked. */
  readonly operator: string;
  /** Base URL for each way of speaking. */
  readonly urls: Readonly<Partial<Record<RpcType, string>>>;
  /** Sent with every request, say an API key. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The suppliers of one service. */
export interface ServiceSuppliers {
  readonly endpoints: readonly StaticEndpoint[];
  /** Longest time for one attempt. */
  readonly timeoutMs: number;
  /** Most attempts for one call. */
  readonly maxAttempts: number;
  /** How answers are compared. */
  readonly crossCheck?: CrossCheckRules;
  /** How questions for logs are taken apart. */
  readonly logRanges?: LogRangeRules;
}

/** Options of `createRelayEngine`. */
export interface RelayEngineOptions {
  /** By service id. */
  readonly suppliers: Readonly<Record<string, ServiceSuppliers>>;
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
  readonly connectTimeoutMs: number;
  /** Connections to one origin; more calls wait for one. Half of them may pass answers on while they arrive. */
  readonly maxConnectionsPerOrigin: number;
  /** Calls in flight; more are OVERLOADED. Free calls may take nine tenths, so that there is room for paid ones. */
  readonly maxInFlight: number;
  /** Bytes of answers that are held while they are received, over all calls; more are OVERLOADED. */
  readonly maxInFlightBytes: number;
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

/** Bounds that suit one process. */
export const relayEngineDefaults: Omit<RelayEngineOptions, "suppliers"> = {
  maxAnswerBytes: 4 * 1_048_576,
  streamAfterBytes: 1_048_576,
  maxStreamedBytes: 64 * 1_048_576,
  streamTimeoutMs: 60_000,
  maxCheckedBytes: 1_048_576,
  probeIntervalMs: 10_000,
  probeTimeoutMs: 5_000,
  maxProbes: 8,
  connectTimeoutMs: 2_000,
  maxConnectionsPerOrigin: 64,
  maxInFlight: 2_000,
  maxInFlightBytes: 256 * 1_048_576,
  maxCacheBytes: 64 * 1_048_576,
  maxHeadAgeMs: 500,
  maxOperatorShare: 0.5,
  hedgeQuantile: 0.95,
  maxHedgeShare: 0.1,
};

/** Time for one attempt at a service that sets none. */
export const DEFAULT_ATTEMPT_TIMEOUT_MS = 10_000;
/** Attempts for one call at a service that sets none. */
export const DEFAULT_MAX_ATTEMPTS = 3;
