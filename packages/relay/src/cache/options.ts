/** How much an answer cache keeps, and for how long. */
export interface AnswerCacheOptions {
  /** Bytes that all kept answers together may take, keys and overhead counted; 0 keeps nothing. */
  readonly maxBytes: number;
  /** Larger answers are not kept. */
  readonly maxEntryBytes: number;
  /** Answers about final blocks are asked for again after this: a wrong one must not stay until it is evicted. */
  readonly maxAgeMs: number;
  /** Answers about blocks that are not final, for reorganisations that no supplier reported. */
  readonly unfinalAgeMs: number;
  /** Most for answers about the newest block; less where blocks are quicker. */
  readonly headAgeMs: number;
  /** Answers about the newest block, and large ones, are kept only when the same was asked for shortly before. */
  readonly waitsForSecond: boolean;
  /** Answers that wait to be stored. */
  readonly maxWaiting: number;
  /** Bytes of answers that wait to be stored. */
  readonly maxWaitingBytes: number;
}

/** What suits one process, beside what is configured; none of it can be configured. */
export const ANSWER_CACHE_BOUNDS: Omit<AnswerCacheOptions, "maxBytes" | "headAgeMs"> = {
  maxEntryBytes: 1_048_576,
  maxAgeMs: 3_600_000,
  unfinalAgeMs: 15_000,
  waitsForSecond: true,
  maxWaiting: 256,
  maxWaitingBytes: 8 * 1_048_576,
};
