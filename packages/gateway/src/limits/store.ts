/** One limit of a request, as the store counts it. */
export interface StoreLimit {
  readonly key: string;
  readonly requests: number;
  readonly windowMs: number;
}

/** The store's verdict on a request. */
export interface StoreVerdict {
  /** Place of the limit that refuses; -1 when all of them took the items. */
  readonly refusedBy: number;
  /** Time until it would fit, with `refusedBy`. */
  readonly waitMs: number;
  /** For each limit: items before this request, and the time until the oldest leaves. */
  readonly standings: readonly { readonly used: number; readonly oldestLeavesMs: number }[];
}

/** Counts that several processes share. */
export interface LimitStore extends AsyncDisposable {
  /** False while it does not answer: then nothing is asked of it, so that it costs no time. */
  isUp(): boolean;
  /** Counts the items in all limits or in none; undefined when the store failed. Never rejects. */
  consume(limits: readonly StoreLimit[], items: number): Promise<StoreVerdict | undefined>;
}
