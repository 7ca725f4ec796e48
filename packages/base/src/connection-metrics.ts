import type { MetricSpec } from "./metrics.ts";

/** Connections that a {@link ConnectionGuard} closed. */
export const connectionsRefusedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_connections_refused_total",
  help: "Connections closed by the bounds of a server, by server and reason: client, total, evicted or flood.",
  labels: ["server", "reason"],
};

/** Faults of single connections that would otherwise have ended the process. */
export const connectionFaultsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_connection_faults_total",
  help: "Faults of one connection that ended it and reached a server's own handler, or the process's last one.",
  labels: ["server"],
};

/** Every metric of connections. */
export const CONNECTION_METRICS: readonly MetricSpec[] = [connectionsRefusedTotal, connectionFaultsTotal];
