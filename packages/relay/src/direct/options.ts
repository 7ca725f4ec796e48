import type { RpcType } from "@turnpike/protocol";

/** One operator's back-end of a service. */
export interface DirectEndpoint {
  /** Name for logs and metrics; endpoints with one name count as one operator when another is asked. */
  readonly operator: string;
  /** Base URL for each way of speaking. */
  readonly urls: Readonly<Partial<Record<RpcType, string>>>;
  /** Sent with every request, say an API key. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The suppliers of one service. */
export interface DirectSuppliers {
  readonly endpoints: readonly DirectEndpoint[];
  /** Longest time for one attempt. */
  readonly timeoutMs: number;
  /** Most attempts for one call. */
  readonly maxAttempts: number;
}

/** Options of `createDirectRelay`. */
export interface DirectRelayOptions {
  /** By service id. */
  readonly suppliers: Readonly<Record<string, DirectSuppliers>>;
  /** Largest answer that is taken. */
  readonly maxAnswerBytes: number;
  /** Larger answers are not held against their schema (`unchecked`). */
  readonly maxCheckedBytes: number;
  /** Time between two probes of one supplier; 20 % more or less at random. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** Probes that run at once. */
  readonly maxProbes: number;
  readonly connectTimeoutMs: number;
  /** Connections to one origin; more calls wait for one. */
  readonly maxConnectionsPerOrigin: number;
  /** Calls in flight; more are OVERLOADED. */
  readonly maxInFlight: number;
  /** Bytes of answers that are held while they are received, over all calls; more are OVERLOADED. */
  readonly maxInFlightBytes: number;
}

/** Bounds that suit one process. */
export const directRelayDefaults: Omit<DirectRelayOptions, "suppliers"> = {
  maxAnswerBytes: 4 * 1_048_576,
  maxCheckedBytes: 1_048_576,
  probeIntervalMs: 10_000,
  probeTimeoutMs: 5_000,
  maxProbes: 8,
  connectTimeoutMs: 2_000,
  maxConnectionsPerOrigin: 64,
  maxInFlight: 2_000,
  maxInFlightBytes: 256 * 1_048_576,
};

/** Time for one attempt at a service that sets none. */
export const DEFAULT_ATTEMPT_TIMEOUT_MS = 10_000;
/** Attempts for one call at a service that sets none. */
export const DEFAULT_MAX_ATTEMPTS = 3;
