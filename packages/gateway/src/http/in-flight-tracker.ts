/** Counts requests that are accepted and not finished: a promise for each would cost every request two more. */
export class InFlightTracker {
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  get size(): number {
    return this.#count;
  }

  begin(): void {
    this.#count++;
  }

  end(): void {
    this.#count--;
    if (this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  /** Counts a promise until it has settled, however it does. */
  track(work: Promise<unknown>): void {
    this.begin();
    const end = (): void => this.end();
    work.then(end, end);
  }

  /** Resolves when nothing is in flight, or the time is over. */
  async drained(timeoutMs: number): Promise<void> {
    if (this.#count === 0) return;
    this.#idle ??= Promise.withResolvers();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    await Promise.race([this.#idle.promise, late]);
    clearTimeout(timer);
  }
}
