/** A refusal of the store. */
export interface Refusal {
  readonly items: number;
  /** Items that counted then. */
  readonly used: number;
  /** Monotonic milliseconds until which at least as many items cannot fit. */
  readonly untilMs: number;
}

const MAX_REFUSALS = 10_000;

/**
 * What the store has refused recently. Room in a window comes only from items that leave it, so what is refused until a
 * time stays refused until then. To evict one costs a question to the store and nothing else: the oldest are evicted beyond
 * 10,000.
 */
export class Refusals {
  readonly #byKey = new Map<string, Refusal>();

  set(key: string, refusal: Refusal): void {
    this.#byKey.delete(key);
    this.#byKey.set(key, refusal);
    if (this.#byKey.size <= MAX_REFUSALS) return;
    const [oldest] = this.#byKey.keys();
    if (oldest !== undefined) this.#byKey.delete(oldest);
  }

  /** The refusal that holds for this many items too; undefined when the store must be asked. */
  find(key: string, items: number, nowMs: number): Refusal | undefined {
    const refusal = this.#byKey.get(key);
    if (refusal === undefined) return undefined;
    if (refusal.untilMs > nowMs) return items >= refusal.items ? refusal : undefined;
    this.#byKey.delete(key);
    return undefined;
  }
}
