interface Running<Result> {
  readonly promise: Promise<Result>;
  readonly abort: AbortController;
  callers: number;
}

/** Result of a call, and whether an identical one that was in flight had it. */
export interface SharedResult<Result> {
  readonly result: Result;
  readonly isJoined: boolean;
}

/** Calls in flight by key: an identical call joins the one in flight. It is aborted when all its callers have gone. */
export class SharedCalls<Result> {
  readonly #running = new Map<string, Running<Result>>();

  async run(
    key: string,
    signal: AbortSignal,
    start: (signal: AbortSignal) => Promise<Result>,
  ): Promise<SharedResult<Result>> {
    let running = this.#running.get(key);
    // An aborted one ends soon, without a result for a new caller.
    while (running?.abort.signal.aborted === true) {
      await running.promise.catch(() => undefined);
      running = this.#running.get(key);
    }
    signal.throwIfAborted();
    const isJoined = running !== undefined;
    const call = running ?? this.#start(key, start);
    call.callers += 1;
    const leave = (): void => {
      call.callers -= 1;
      if (call.callers === 0) call.abort.abort(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    try {
      return { result: await call.promise, isJoined };
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #start(key: string, start: (signal: AbortSignal) => Promise<Result>): Running<Result> {
    const abort = new AbortController();
    const promise = start(abort.signal).finally(() => this.#running.delete(key));
    const call = { promise, abort, callers: 0 };
    this.#running.set(key, call);
    return call;
  }
}
