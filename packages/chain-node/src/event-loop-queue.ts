import { setImmediate as nextTurn } from "node:timers/promises";

export interface EventLoopQueueOptions {
  /** Pieces of work that may wait; 5,000 by default. */
  readonly maxWaiting?: number;
}

/**
 * Runs what clients ask for one piece a turn of the event loop, in the order in which it came. Blocks are made on the same
 * thread: so one is late by one question at most, however many wait.
 */
export class EventLoopQueue {
  readonly #maxWaiting: number;
  // Taken from the front by its index: a long list is not moved for every piece.
  #waiting: (() => void)[] = [];
  #taken = 0;
  #isTurning = false;

  constructor({ maxWaiting = 5_000 }: EventLoopQueueOptions = {}) {
    this.#maxWaiting = maxWaiting;
  }

  /** How much waits now. */
  get waiting(): number {
    return this.#waiting.length - this.#taken;
  }

  /** Runs a piece when its turn comes, at once when nothing else does; undefined: too much waits. */
  run<T>(work: () => T | Promise<T>): Promise<T> | undefined {
    if (this.waiting >= this.#maxWaiting) return undefined;
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      });
      if (!this.#isTurning) void this.#turn();
    });
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    for (let work = this.#take(); work !== undefined; work = this.#take()) {
      work();
      await nextTurn();
    }
    this.#isTurning = false;
  }

  #take(): (() => void) | undefined {
    const work = this.#waiting[this.#taken++];
    if (work === undefined || this.#taken > this.#maxWaiting) {
      this.#waiting = this.#waiting.slice(this.#taken);
      this.#taken = 0;
    }
    return work;
  }
}
