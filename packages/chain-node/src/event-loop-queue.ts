import { setImmediate as nextTurn } from "node:timers/promises";
import { type ClientKey, ClientQueue } from "@turnpike/base";

export interface EventLoopQueueOptions {
  /** Pieces of work that may wait; 5,000 by default. */
  readonly maxWaiting?: number;
}

interface Piece {
  run(): void;
  refuse(): void;
}

/**
 * Runs what clients ask for one piece a turn of the event loop, in the order in which each client's came. Blocks are made on the
 * same thread: so one is late by one question at most, however many wait. Clients are served round-robin.
 */
export class EventLoopQueue {
  readonly #maxWaiting: number;
  readonly #waiting = new ClientQueue<Piece>();
  #isTurning = false;

  constructor({ maxWaiting = 5_000 }: EventLoopQueueOptions = {}) {
    this.#maxWaiting = maxWaiting;
  }

  /** How much waits now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Runs a piece when its turn comes, at once when nothing else does. Resolves to undefined when too much waits: then the last
   * piece of the client with most of them is refused.
   * @param client key under which the client's connections are counted; pieces without one are those of one client
   */
  run<T>(work: () => T | Promise<T>, client?: ClientKey): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const run = (): void => {
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.add(client, { run, refuse: () => resolve(undefined) });
      if (this.#waiting.size > this.#maxWaiting) this.#waiting.dropLast(client)?.refuse();
      if (!this.#isTurning) void this.#turn();
    });
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    for (let piece = this.#waiting.take(); piece !== undefined; piece = this.#waiting.take()) {
      piece.run();
      await nextTurn();
    }
    this.#isTurning = false;
  }
}
