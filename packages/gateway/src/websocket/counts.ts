import type { MetricSpec, Metrics, ServiceId } from "@turnpike/base";

/** Open WebSockets and their subscriptions, over all configurations that a gateway has had. */
export class WebSocketCounts {
  readonly #metrics: Metrics;
  readonly #gauges = new Map<MetricSpec, Map<ServiceId, number>>();
  readonly #byClient = new Map<string, number>();
  #open = 0;

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** WebSockets, from the upgrade request on. */
  get open(): number {
    return this.#open;
  }

  /** Counts a client's WebSocket; undefined when the client has `max` of them. The result is to be called once, at its end. */
  acquire(client: string, max: number): (() => void) | undefined {
    const own = this.#byClient.get(client) ?? 0;
    if (own >= max) return undefined;
    this.#byClient.set(client, own + 1);
    this.#open++;
    return () => {
      this.#open--;
      const left = (this.#byClient.get(client) ?? 1) - 1;
      if (left === 0) this.#byClient.delete(client);
      else this.#byClient.set(client, left);
    };
  }

  /** Adds to a service's gauge. */
  add(gauge: MetricSpec, id: ServiceId, by: number): void {
    const byService = this.#gauges.get(gauge) ?? new Map<ServiceId, number>();
    this.#gauges.set(gauge, byService);
    const count = (byService.get(id) ?? 0) + by;
    byService.set(id, count);
    this.#metrics.set(gauge, count, { service: id });
  }
}
