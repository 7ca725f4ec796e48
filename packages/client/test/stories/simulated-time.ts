import { setImmediate as nextTick } from "node:timers/promises";

const START_MS = Date.UTC(2026, 10, 1);
/** Maximum events of one simulation: more are a loop without an end. */
const MAX_EVENTS = 100_000;

/** Something that happens at its time unless it is cancelled. Also what the replaced `setTimeout` returns. */
export interface TimedEvent {
  readonly atMs: number;
  cancel(): void;
  unref(): TimedEvent;
}

interface QueuedEvent extends TimedEvent {
  readonly run: () => void;
}

/** The time of a simulation: it goes on from one event to the next as soon as nothing more happens at the present one. */
export class SimulatedTime {
  readonly #queue: QueuedEvent[] = [];
  #nowMs = START_MS;
  #count = 0;

  /** Milliseconds since the Unix epoch. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Milliseconds since the simulation began. */
  get elapsedMs(): number {
    return this.#nowMs - START_MS;
  }

  after(ms: number, run: () => void): TimedEvent {
    const event: QueuedEvent = {
      atMs: this.#nowMs + Math.max(0, ms),
      run,
      cancel: () => {
        const at = this.#queue.indexOf(event);
        if (at !== -1) this.#queue.splice(at, 1);
      },
      unref: () => event,
    };
    let at = this.#queue.length;
    for (; at > 0 && (this.#queue[at - 1]?.atMs ?? 0) > event.atMs; at--);
    this.#queue.splice(at, 0, event);
    return event;
  }

  delay(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.after(ms, resolve);
    return promise;
  }

  /** Runs events until `isDone`. Returns false where none is left before, or there are too many. */
  async runUntil(isDone: () => boolean): Promise<boolean> {
    for (; this.#count < MAX_EVENTS; this.#count++) {
      // All that follows from the last event is done once the event loop has come round.
      await nextTick();
      if (isDone()) return true;
      const event = this.#queue.shift();
      if (event === undefined) return false;
      this.#nowMs = event.atMs;
      event.run();
    }
    return false;
  }
}

/** Rejects with the signal's reason where it aborts before the promise is settled. */
export async function untilAborted<Value>(
  signal: AbortSignal | null | undefined,
  promise: Promise<Value>,
): Promise<Value> {
  if (signal === null || signal === undefined) return promise;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const stop = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

const realTimeout = AbortSignal.timeout.bind(AbortSignal);

/** Functions of the runtime that a simulation replaces. */
export interface ReplacedGlobals {
  readonly time: SimulatedTime;
  /** The host's clock, which may differ from the simulation's time. */
  readonly hostNowMs: () => number;
  readonly fetch: typeof globalThis.fetch;
}

/** Replaces the runtime's clock, timers and `fetch` until disposal: the client and its libraries use them. */
export function replaceGlobals({ time, hostNowMs, fetch }: ReplacedGlobals): Disposable {
  const { clearTimeout, fetch: realFetch, setTimeout } = globalThis;
  const { now } = Date;
  Object.assign(globalThis, {
    fetch,
    setTimeout: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => time.after(ms, () => run(...args)),
    clearTimeout: (event: Partial<TimedEvent> | undefined) => event?.cancel?.(),
  });
  Date.now = hostNowMs;
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    time.after(ms, () =>
      controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")),
    );
    return controller.signal;
  };
  return {
    [Symbol.dispose]() {
      Object.assign(globalThis, { fetch: realFetch, setTimeout, clearTimeout });
      Date.now = now;
      AbortSignal.timeout = realTimeout;
    },
  };
}
