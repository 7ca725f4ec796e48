/** Turns by key, first come first served: one at a time holds the turn of a key. */
export class Turns {
  /** Resolves when the newest holder of a key, and all before it, have released it. */
  readonly #tails = new Map<string, Promise<void>>();

  /** Waits for the turn; disposal releases it. Rejects with the signal's reason on an abort. */
  async take(key: string, signal: AbortSignal | undefined): Promise<Disposable> {
    const before = this.#tails.get(key);
    const turn = this.#queue(key, before);
    if (before === undefined) return turn;
    const aborted = Promise.withResolvers<never>();
    const stop = (): void => aborted.reject(signal?.reason);
    if (signal?.aborted === true) stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race([before, aborted.promise]);
      return turn;
    } catch (error) {
      turn[Symbol.dispose]();
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** The turn, where it is free now. */
  tryTake(key: string): Disposable | undefined {
    return this.#tails.has(key) ? undefined : this.#queue(key, undefined);
  }

  #queue(key: string, before: Promise<void> | undefined): Disposable {
    const { promise, resolve } = Promise.withResolvers<void>();
    // One that gives up lets the next go no earlier than the one before it does.
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    const forget = (): void => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    };
    void tail.then(forget);
    return { [Symbol.dispose]: resolve };
  }
}
