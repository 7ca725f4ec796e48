/** Bounds of a {@link Batcher}. */
export interface BatcherOptions {
  /** Most items of one batch. */
  readonly maxBatch: number;
  /** Most batches at once. */
  readonly maxRunning: number;
}

/**
 * Gathers items into batches: those that come in one turn of the event loop share a batch, and so do those that come
 * while as many batches run as may.
 */
export class Batcher<Item> {
  readonly #opts: BatcherOptions;
  readonly #run: (batch: readonly Item[]) => Promise<void>;
  #waiting: Item[] = [];
  #running = 0;
  #isScheduled = false;

  /** `run` must not reject: what fails is for it to report to the items. */
  constructor(opts: BatcherOptions, run: (batch: readonly Item[]) => Promise<void>) {
    this.#opts = opts;
    this.#run = run;
  }

  /** Items that are in no batch yet. */
  get waiting(): number {
    return this.#waiting.length;
  }

  add(item: Item): void {
    this.#waiting.push(item);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0 || this.#running >= this.#opts.maxRunning) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      while (this.#waiting.length > 0 && this.#running < this.#opts.maxRunning) this.#start();
    });
  }

  #start(): void {
    const batch = this.#waiting.slice(0, this.#opts.maxBatch);
    this.#waiting = this.#waiting.slice(this.#opts.maxBatch);
    this.#running++;
    void this.#run(batch).finally(() => {
      this.#running--;
      this.#schedule();
    });
  }
}
