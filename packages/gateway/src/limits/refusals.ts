/** A refusal of the store. */
export interface Refusal {
  readonly items: number;
  /** Items that counted then. */
  readonly used: number;
  /** Monotonic milliseconds until which at least as many items cannot fit. */
  readonly untilMs: number;
}

/** What the store has refused of late. */
export interface Refusals {
  remember(key: string, refusal: Refusal): void;
  /** The refusal that holds for this many items too; undefined when the store must be asked. */
  find(key: string, items: number, nowMs: number): Refusal | undefined;
}

const MAX_REFUSALS = 10_000;

/**
 * Room in a window comes only from items that leave it, so what is refused until a time stays refused until then. To
 * forget one costs a question to the store and nothing else: the oldest are dropped beyond 10,000.
 */
export function createRefusals(): Refusals {
  const known = new Map<string, Refusal>();
  return {
    remember(key, refusal) {
      known.delete(key);
      known.set(key, refusal);
      if (known.size <= MAX_REFUSALS) return;
      const [oldest] = known.keys();
      if (oldest !== undefined) known.delete(oldest);
    },
    find(key, items, nowMs) {
      const refusal = known.get(key);
      if (refusal === undefined) return undefined;
      if (refusal.untilMs > nowMs) return items >= refusal.items ? refusal : undefined;
      known.delete(key);
      return undefined;
    },
  };
}
