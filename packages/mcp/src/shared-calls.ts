interface Running<Result, Facts> {
  readonly facts: Facts;
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
export class SharedCalls<Result, Facts> {
  readonly #running = new Map<string, Running<Result, Facts>>();

  /** Joins the call in flight, unless `assertMayJoin` throws for its facts; where there is none, starts it. */
  async run(
    { key, facts, signal }: { readonly key: string; readonly facts: Facts; readonly signal: AbortSignal },
    start: (signal: AbortSignal) => Promise<Result>,
    assertMayJoin: (running: Facts) => void,
  ): Promise<SharedResult<Result>> {
    let running = this.#running.get(key);
    // An aborted one ends soon, without a result for a new caller.
    while (running?.abort.signal.aborted === true) {
      await running.promise.catch(() => undefined);
      running = this.#running.get(key);
    }
    signal.throwIfAborted();
    if (running !== undefined) assertMayJoin(running.facts);
    const isJoined = running !== undefined;
    const call = running ?? this.#start(key, facts, start);
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

  #start(key: string, facts: Facts, start: (signal: AbortSignal) => Promise<Result>): Running<Result, Facts> {
    const abort = new AbortController();
    const promise = start(abort.signal).finally(() => this.#running.delete(key));
    const call = { facts, promise, abort, callers: 0 };
    this.#running.set(key, call);
    return call;
  }
}
