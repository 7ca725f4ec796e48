/** Runs work by key, each key's within a bound. */
export interface TokenSlots {
  /** Runs work once the key has a free slot; in the order of the calls. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
}

interface Slots {
  running: number;
  readonly waiting: (() => void)[];
}

/**
 * Lets one token have a share of the database's connections only: what it sends beyond that waits for its own calls, not
 * other callers for it. How many may wait is bounded by the requests that are let in.
 */
export function createTokenSlots(perToken: number): TokenSlots {
  const keys = new Map<string, Slots>();
  const release = (key: string, slots: Slots): void => {
    const next = slots.waiting.shift();
    if (next !== undefined) {
      // The slot goes on to it.
      next();
      return;
    }
    slots.running--;
    if (slots.running === 0) keys.delete(key);
  };
  return {
    async run(key, work) {
      const slots = keys.get(key) ?? { running: 0, waiting: [] };
      keys.set(key, slots);
      if (slots.running < perToken) slots.running++;
      else await new Promise<void>((resolve) => void slots.waiting.push(resolve));
      try {
        return await work();
      } finally {
        release(key, slots);
      }
    },
  };
}

/** Counts what is under way by key. */
export interface KeyCount {
  /** Counts one more; false, without counting, when the key is at the bound. */
  take(key: string): boolean;
  release(key: string): void;
}

/** Makes a {@link KeyCount} with at most so many of one key. */
export function createKeyCount(most: number): KeyCount {
  const counts = new Map<string, number>();
  return {
    take(key) {
      const count = counts.get(key) ?? 0;
      if (count >= most) return false;
      counts.set(key, count + 1);
      return true;
    },
    release(key) {
      const left = (counts.get(key) ?? 0) - 1;
      if (left > 0) counts.set(key, left);
      else counts.delete(key);
    },
  };
}
