/** Bytes that one step on the event loop makes before other work runs: some milliseconds of work. */
const STEP_BYTES = 65_536;

/** An item of a list that is made in steps. */
export interface SizedItem<T> {
  readonly value: T;
  /** Approximate size, which stands for the time that it takes. */
  readonly bytes: number;
}

/** Runs a piece of work when the event loop has time for it; undefined: too much waits. */
export type RunStep = <T>(work: () => T | Promise<T>) => Promise<T | undefined>;

/**
 * Makes the items of a list in as many steps as their sizes need, since blocks are made on the same thread.
 * Resolves to undefined when too much waits.
 */
export async function makeInSteps<T, U>(
  items: readonly T[],
  make: (item: T) => SizedItem<U> | Promise<SizedItem<U>>,
  run: RunStep,
): Promise<U[] | undefined> {
  const values: U[] = [];
  const pending = items.values();
  for (let hasMore = items.length > 0; hasMore; ) {
    const step = await run(async () => {
      for (let bytes = 0; bytes < STEP_BYTES; ) {
        const next = pending.next();
        if (next.done === true) return false;
        const item = await make(next.value);
        values.push(item.value);
        bytes += item.bytes;
      }
      return true;
    });
    if (step === undefined) return undefined;
    hasMore = step;
  }
  return values;
}
