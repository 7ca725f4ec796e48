/** Locks by key, first come first served: one at a time holds the lock of a key. */
export class RequestLocks {
  /** Resolves when the newest holder of a key, and all before it, have released it. */
  readonly #tails = new Map<string, Promise<void>>();

  /** Waits for the lock; disposal releases it. Rejects with the signal's reason on an abort. */
  async take(key: string, signal: AbortSignal | undefined): Promise<Disposable> {
    const before = this.#tails.get(key);
    const lock = this.#queue(key, before);
    if (before === undefined) return lock;
    const aborted = Promise.withResolvers<never>();
    const stop = (): void => aborted.reject(signal?.reason);
    if (signal?.aborted === true) stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race([before, aborted.promise]);
      return lock;
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** The lock, where it is free now. */
  tryTake(key: string): Disposable | undefined {
    return this.#tails.has(key) ? undefined : this.#queue(key, undefined);
  }

  #queue(key: string, before: Promise<void> | undefined): Disposable {
    const { promise, resolve } = Promise.withResolvers<void>();
    // One that gives up lets the next go no earlier than the one before it does.
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    const remove = (): void => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    };
    void tail.then(remove);
    return { [Symbol.dispose]: resolve };
  }
}
