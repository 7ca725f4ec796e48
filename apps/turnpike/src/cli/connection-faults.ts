import { connectionCounts, FaultLogThrottle, isConnectionFault, type Log, type Metrics } from "@turnpike/base";

/** A service's log and metrics. */
interface FaultSink {
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
}

/**
 * Faults of single connections that reached the process's last handler: a library threw, or emitted an error that has no
 * listener. While a service runs, they are logged and counted, and it goes on; a command ends by them.
 */
export class ConnectionFaults {
  readonly #throttle = new FaultLogThrottle();
  #sink: FaultSink | undefined;

  /** From now on a service runs. */
  attach(sink: FaultSink): void {
    this.#sink = sink;
  }

  /** Returns true for a fault that the process survives. */
  absorb(error: unknown): boolean {
    const sink = this.#sink;
    if (sink === undefined || !isConnectionFault(error)) return false;
    connectionCounts("process", sink.metrics).onFault();
    if (this.#throttle.onFailure()) sink.log.error({ error }, "a connection's fault reached the process");
    return true;
  }
}
