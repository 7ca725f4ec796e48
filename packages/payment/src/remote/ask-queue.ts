import type { Clock } from "@turnpike/base";

/** Bounds of an {@link AskQueue}. */
export interface AskQueueOptions {
  /** Maximum requests under way at once. */
  readonly maxAtOnce: number;
  /** Maximum requests under way at once for payments of one payer. */
  readonly maxEach: number;
  /** Time after which a request ends early when another payer's waits. */
  readonly yieldAfterMs: number;
  /** Minimum time for which a request holds its place: with `maxAtOnce`, a bound of the rate. */
  readonly minHoldMs?: number;
}

interface PayerAsks {
  running: number;
  readonly waiting: ((running: Running) => void)[];
}

interface Running {
  readonly startedMs: number;
  readonly yielding: AbortController;
  readonly timer: NodeJS.Timeout;
  isOld: boolean;
}

/**
 * Places for requests about payments. Payers are served round-robin, each with a share, and a request that has lasted for long
 * ends when another waits: a payer can make settlements stay pending, and each would hold a place until the facilitator answers.
 */
export class AskQueue {
  readonly #opts: AskQueueOptions;
  readonly #clock: Clock;
  /** Payers with requests, the next first. */
  readonly #payers = new Map<string, PayerAsks>();
  /** Oldest first. */
  readonly #running = new Set<Running>();

  constructor(opts: AskQueueOptions, modules: { readonly clock: Clock }) {
    this.#opts = opts;
    this.#clock = modules.clock;
  }

  /** Runs `work` once there is a place. Its signal fires with `signal`, or when its place is to be released early. */
  async run<T>(payer: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const asks = this.#payers.get(payer) ?? { running: 0, waiting: [] };
    this.#payers.set(payer, asks);
    const running = await new Promise<Running>((resolve) => {
      asks.waiting.push(resolve);
      this.#startNext();
    });
    try {
      return await work(AbortSignal.any([signal, running.yielding.signal]));
    } finally {
      clearTimeout(running.timer);
      const release = (): void => this.#release(payer, asks, running);
      const heldMs = this.#clock.monotonicMs() - running.startedMs;
      const remainingMs = signal.aborted ? 0 : (this.#opts.minHoldMs ?? 0) - heldMs;
      // Timers drop fractions of a millisecond: rounded up, so that the place is held for no less.
      if (remainingMs > 0) setTimeout(release, Math.ceil(remainingMs)).unref();
      else release();
    }
  }

  #release(payer: string, asks: PayerAsks, running: Running): void {
    this.#running.delete(running);
    asks.running--;
    if (asks.running === 0 && asks.waiting.length === 0) this.#payers.delete(payer);
    this.#startNext();
  }

  #startNext(): void {
    for (let payer = this.#nextPayer(); payer !== undefined; payer = this.#nextPayer()) {
      const asks = this.#payers.get(payer);
      if (this.#running.size >= this.#opts.maxAtOnce || asks === undefined) {
        this.#endOldest();
        return;
      }
      this.#payers.delete(payer);
      this.#payers.set(payer, asks);
      asks.running++;
      asks.waiting.shift()?.(this.#newRunning());
    }
  }

  #nextPayer(): string | undefined {
    const isNext = ([, { running, waiting }]: [string, PayerAsks]): boolean =>
      running < this.#opts.maxEach && waiting.length > 0;
    return this.#payers.entries().find(isNext)?.[0];
  }

  #newRunning(): Running {
    const timer = setTimeout(() => {
      running.isOld = true;
      this.#startNext();
    }, this.#opts.yieldAfterMs).unref();
    const running = { startedMs: this.#clock.monotonicMs(), yielding: new AbortController(), timer, isOld: false };
    this.#running.add(running);
    return running;
  }

  /** One at a time: its place is free only when its connection is. */
  #endOldest(): void {
    const [oldest] = this.#running;
    if (oldest?.isOld === true) oldest.yielding.abort();
  }
}
