import { clientKey, type MaybePromise, type Metrics, Places, withCleanup } from "@turnpike/base";
import { gatewayLimitedTotal } from "../metrics/gateway-metrics.ts";

/** Message of the error for a client that has too many calls in flight. */
export const TOO_MANY_AT_ONCE = "This client has as many calls under way as it may have.";

interface CallersInFlightModules {
  /** Most calls of one caller in flight at once; read at each call. */
  readonly maxConcurrentPerClient: () => number;
  readonly metrics: Metrics;
}

/** The caller of free calls: an application, by the key that it presented, or a client, by its address. */
export function callerOf(key: string | undefined, clientIp: string): string {
  return key === undefined ? clientKey(clientIp) : `key ${key}`;
}

/**
 * Free calls in flight, by caller (see {@link callerOf}), over HTTP, WebSockets and reloads: slow calls of one caller must not
 * occupy all places.
 */
export class CallersInFlight {
  readonly #modules: CallersInFlightModules;
  readonly #places: Places;

  constructor(modules: CallersInFlightModules) {
    this.#modules = modules;
    this.#places = new Places({ max: () => Number.POSITIVE_INFINITY, maxEach: modules.maxConcurrentPerClient });
  }

  /** Counts a call of a caller as in flight; undefined when it has too many. The result ends the call, and is to be called once. */
  acquire(caller: string): (() => void) | undefined {
    const leave = this.#places.acquire(caller);
    if (typeof leave !== "string") return leave;
    this.#modules.metrics.count(gatewayLimitedTotal, { limit: "concurrent" });
    return undefined;
  }

  /** Runs a call of a caller; undefined, without running it, when the caller has too many in flight. */
  run<T>(caller: string, work: () => MaybePromise<T>): MaybePromise<T> | undefined {
    const release = this.acquire(caller);
    return release === undefined ? undefined : withCleanup(work, release);
  }
}
