import type { Metrics, ServiceId } from "@turnpike/base";
import type { Generation } from "./generation.ts";
import type { RunningCounts } from "./http/request-runner.ts";
import {
  gatewayConfigOld,
  gatewayInFlight,
  gatewayReady,
  gatewayRequestsTotal,
  gatewayServiceReady,
} from "./metrics/gateway-metrics.ts";

/** Samples that are set only when metrics are read: readiness, requests in flight, and unpaid answers, which routes count. */
export class DeferredSamples {
  readonly #metrics: Metrics;
  /** Every service that there was: one that a reload took away is not ready. */
  readonly #services = new Set<ServiceId>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Moves the unpaid answers that a configuration's routes have counted to the metrics. */
  collectUnpaid({ handlers }: Generation): void {
    for (const route of handlers.paid.routes.values()) {
      if (route.unpaid === 0) continue;
      const labels = { door: "paid", service: route.service.id, status: "402", result: "PAYMENT_REQUIRED" };
      this.#metrics.count(gatewayRequestsTotal, labels, route.unpaid);
      route.unpaid = 0;
    }
  }

  /** Sets them all. `oldCount`: replaced configurations that requests still use. */
  async flush(live: Generation | undefined, running: RunningCounts, oldCount: number): Promise<void> {
    const metrics = this.#metrics;
    for (const [group, count] of Object.entries(running)) metrics.set(gatewayInFlight, count, { door: group });
    metrics.set(gatewayConfigOld, oldCount);
    if (live === undefined) {
      metrics.set(gatewayReady, 0);
      return;
    }
    this.collectUnpaid(live);
    const { services } = live.parts.catalogue;
    for (const id of services.keys()) this.#services.add(id);
    for (const id of this.#services) {
      metrics.set(gatewayServiceReady, services.has(id) && live.readiness.answers(id) ? 1 : 0, { service: id });
    }
    metrics.set(gatewayReady, (await live.readiness.gateway()).length === 0 ? 1 : 0);
  }
}
