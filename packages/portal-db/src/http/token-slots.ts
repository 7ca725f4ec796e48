interface Slots {
  running: number;
  readonly waiting: (() => void)[];
}

/**
 * Lets one token have a share of the database's connections only: what it sends beyond that waits for its own calls, not
 * other callers for it. How many may wait is bounded by the requests that are let in.
 */
export class TokenSlots {
  readonly #perToken: number;
  readonly #keys = new Map<string, Slots>();

  constructor(perToken: number) {
    this.#perToken = perToken;
  }

  /** Runs work once the key has a free slot; in the order of the calls. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const slots = this.#keys.get(key) ?? { running: 0, waiting: [] };
    this.#keys.set(key, slots);
    if (slots.running < this.#perToken) slots.running++;
    else await new Promise<void>((resolve) => void slots.waiting.push(resolve));
    try {
      return await work();
    } finally {
      this.#release(key, slots);
    }
  }

  #release(key: string, slots: Slots): void {
    const next = slots.waiting.shift();
    if (next !== undefined) {
      // The slot goes on to it.
      next();
      return;
    }
    slots.running--;
    if (slots.running === 0) this.#keys.delete(key);
  }
}

/** Counts what is under way by key, with at most so many of one key. */
export class KeyCount {
  readonly #most: number;
  readonly #counts = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts one more; false, without counting, when the key is at the bound. */
  take(key: string): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#most) return false;
    this.#counts.set(key, count + 1);
    return true;
  }

  release(key: string): void {
    const left = (this.#counts.get(key) ?? 0) - 1;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}
