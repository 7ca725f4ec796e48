/** Runs jobs one after another; one that needs no waiting runs at once when nothing is before it. */
export class JobQueue {
  readonly #jobs: (() => unknown)[] = [];
  #isBusy = false;
  #isOver = false;

  get waiting(): number {
    return this.#jobs.length;
  }

  /** Adds a job. Jobs must not throw. */
  push(job: () => unknown): void {
    if (this.#isOver) return;
    this.#jobs.push(job);
    if (!this.#isBusy) this.#drain();
  }

  /** Adds a job and waits for its result; undefined when the queue ended before it. */
  run<T>(job: () => Promise<T>): Promise<T | undefined> {
    if (this.#isOver) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<T | undefined>();
    const waiter = (): void => resolve(undefined);
    this.#waiters.add(waiter);
    this.push(async () => {
      this.#waiters.delete(waiter);
      resolve(await job());
    });
    return promise;
  }
  readonly #waiters = new Set<() => void>();

  #drain(): void {
    while (!this.#isBusy) {
      const job = this.#jobs.shift();
      if (job === undefined) return;
      const done = job();
      if (!(done instanceof Promise)) continue;
      this.#isBusy = true;
      void done.finally(() => {
        this.#isBusy = false;
        this.#drain();
      });
    }
  }

  /** Drops the jobs that have not begun. */
  end(): void {
    this.#isOver = true;
    this.#jobs.length = 0;
    for (const waiter of this.#waiters) waiter();
    this.#waiters.clear();
  }
}
