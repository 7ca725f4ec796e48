/** How answers of a service are compared. */
export interface CrossCheckRules {
  /** Suppliers of how many operators must agree on what is sold. 1: one answer is enough. */
  readonly sold: number;
  /** The same for the free relay. */
  readonly free: number;
  /** The same by method, for both. */
  readonly methods: Readonly<Record<string, number>>;
  /** True: without so many who agree there is no answer. False: the best checked answer is given, and counted. */
  readonly strict: boolean;
}

/** How large questions for logs are taken apart. */
export interface LogRangeRules {
  /** Ranges of more blocks are asked in parts from the start; undefined: only when suppliers refuse the whole. */
  readonly maxBlocks?: number | undefined;
  /** Most parts of one question; a question that needs more gets the supplier's own refusal. */
  readonly maxParts: number;
}

/** How the suppliers of one service are asked. */
export interface ServiceRules {
  /** Longest time for one attempt. */
  readonly timeoutMs: number;
  /** Most attempts for one call. */
  readonly maxAttempts: number;
  /** How answers are compared. */
  readonly crossCheck?: CrossCheckRules;
  /** How questions for logs are taken apart. */
  readonly logs?: LogRangeRules;
}

/** Bounds of a `RelayEngine`, and its services' rules. */
export interface EngineOptions {
  /** By service id. */
  readonly rules: Readonly<Record<string, ServiceRules>>;
  /** Of services without rules, and for what the rules of a service leave out. */
  readonly defaultRules: Required<ServiceRules>;
  /** Largest answer that is taken. */
  readonly maxAnswerBytes: number;
  /** Free answers that are larger are passed on while they arrive, where the client accepts that. */
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
