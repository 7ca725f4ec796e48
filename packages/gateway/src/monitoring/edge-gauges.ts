import type { Metrics, ServiceId } from "@turnpike/base";
import type { Generation } from "../generation.ts";
import { gatewayReady, requestsTotal, serviceReady } from "../metrics.ts";

/** What is told to metrics only when somebody reads them. */
export interface EdgeGauges {
  /** Takes what the routes of a configuration have counted. */
  take(generation: Generation): void;
  flush(live: Generation | undefined): Promise<void>;
}

/** Readiness, and the unpaid answers that the routes count themselves. */
export function createEdgeGauges(metrics: Metrics): EdgeGauges {
  const known = new Set<ServiceId>();

  const take = ({ doors }: Generation): void => {
    for (const route of doors.edge.routes.values()) {
      if (route.unpaid === 0) continue;
      const labels = { door: "paid", service: route.service.id, status: "402", result: "PAYMENT_REQUIRED" };
      metrics.count(requestsTotal, labels, route.unpaid);
      route.unpaid = 0;
    }
  };

  return {
    take,
    async flush(live) {
      if (live === undefined) {
        metrics.set(gatewayReady, 0);
        return;
      }
      take(live);
      const { services } = live.parts.catalogue;
      for (const id of services.keys()) known.add(id);
      // A service that a reload took away is not ready.
      for (const id of known) {
        metrics.set(serviceReady, services.has(id) && live.readiness.answers(id) ? 1 : 0, { service: id });
      }
      metrics.set(gatewayReady, (await live.readiness.gateway()).length === 0 ? 1 : 0);
    },
  };
}
