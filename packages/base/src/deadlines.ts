import type { Clock } from "./clock.ts";
import { DenseList, type DenseListItem } from "./dense-list.ts";

/** One deadline; cancel it when it is not needed any more. */
export interface Deadline extends DenseListItem {
  readonly tick: number;
  /** Undefined when it was cancelled. */
  callback: (() => void) | undefined;
}

export interface DeadlinesModules {
  readonly clock: Clock;
}

/**
 * Many deadlines of low precision at the price of one timer. Almost all of a server's time-outs are taken back unused,
 * and the runtime's own timers cost a microsecond each; these cost a tenth of it. A callback comes less than three
 * steps late, never early.
 */
export class Deadlines {
  readonly #stepMs: number;
  readonly #clock: Clock;
  readonly #ticks = new Map<number, DenseList<Deadline>>();
  #timer: NodeJS.Timeout | undefined;
  #count = 0;
  /** The last tick whose callbacks were called. */
  #tick = 0;

  constructor(options: { readonly stepMs: number }, modules: DeadlinesModules) {
    this.#stepMs = options.stepMs;
    this.#clock = modules.clock;
  }

  /** Deadlines that are neither over nor taken back. */
  get size(): number {
    return this.#count;
  }

  /** Calls back after this time. */
  after(timeoutMs: number, callback: () => void): Deadline {
    const now = this.#now();
    if (this.#timer === undefined) {
      this.#tick = now;
      this.#timer = setTimeout(() => this.#run(), this.#stepMs);
    }
    const tick = now + Math.max(1, Math.ceil(timeoutMs / this.#stepMs)) + 1;
    const deadline: Deadline = { tick, callback, listIndex: -1 };
    let list = this.#ticks.get(tick);
    if (list === undefined) {
      list = new DenseList();
      this.#ticks.set(tick, list);
    }
    list.add(deadline);
    this.#count++;
    return deadline;
  }

  /** Its callback is not called any more. Does nothing when it was called. */
  cancel(deadline: Deadline): void {
    deadline.callback = undefined;
    if (this.#ticks.get(deadline.tick)?.remove(deadline) === true) this.#count--;
  }

  #now(): number {
    return Math.floor(this.#clock.monotonicMs() / this.#stepMs);
  }

  #run(): void {
    try {
      this.#fire();
    } finally {
      // Without deadlines the timer would keep an idle process awake.
      if (this.#count > 0) this.#timer = setTimeout(() => this.#run(), this.#stepMs);
      else {
        this.#timer = undefined;
        this.#ticks.clear();
      }
    }
  }

  #fire(): void {
    const now = this.#now();
    while (this.#tick < now) {
      const due = this.#ticks.get(++this.#tick);
      if (due === undefined) continue;
      this.#ticks.delete(this.#tick);
      this.#count -= due.size;
      for (const deadline of due.drain()) deadline.callback?.();
    }
  }
}
