import type { ConnectionRefusal } from "./connection-guard.ts";
import { connectionFaultsTotal, connectionsRefusedTotal } from "./connection-metrics.ts";
import { type Metrics, noMetrics } from "./metrics.ts";

/** Callbacks of the guards of one server, which count in its metrics. */
export function connectionCounts(server: string, metrics: Metrics = noMetrics) {
  return {
    onRefused: (reason: ConnectionRefusal): void => metrics.count(connectionsRefusedTotal, { server, reason }),
    onFault: (): void => metrics.count(connectionFaultsTotal, { server }),
  };
}
