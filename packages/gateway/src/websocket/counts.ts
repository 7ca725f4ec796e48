import type { MetricSpec, Metrics, ServiceId } from "@turnpike/base";

/** Open WebSockets and their subscriptions, over all doors that a gateway has had. */
export interface SocketCounts {
  /** Places taken, from the upgrade request on. */
  taken: number;
  /** Places by client, as the limits count them. */
  readonly byClient: Map<string, number>;
  /** Adds to a gauge of a service. */
  add(spec: MetricSpec, id: ServiceId, by: number): void;
}

/** No WebSocket yet. */
export function createSocketCounts(metrics: Metrics): SocketCounts {
  const bySpec = new Map<MetricSpec, Map<ServiceId, number>>();
  return {
    taken: 0,
    byClient: new Map(),
    add(spec, id, by) {
      const of = bySpec.get(spec) ?? new Map<ServiceId, number>();
      bySpec.set(spec, of);
      const count = (of.get(id) ?? 0) + by;
      of.set(id, count);
      metrics.set(spec, count, { service: id });
    },
  };
}
