import type { MetricSpec } from "@turnpike/base";

/** Relays that were answered, and how long each took from its request to its signed answer. */
export const supplierRelayDurationSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_supplier_relay_duration_seconds",
  help: "Duration of a served relay, from request to signed response",
  labels: ["service"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
};

/** Relays that were not served. */
export const supplierRelaysRefusedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_relays_refused_total",
  help: "Relays that were refused, by service and reason",
  labels: ["service", "reason"],
};

/** Relays that are being worked on. */
export const supplierRelaysInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_relays_in_flight",
  help: "Relays in flight",
};

/** WebSocket connections of gateways. */
export const supplierWebsocketsOpen: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_websockets_open",
  help: "WebSocket connections of gateways and applications",
};

/** Back-ends that are asked. */
export const supplierBackendUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_backend_up",
  help: "1 while a back-end is asked, 0 while its relays are refused because it fails or is not well",
  labels: ["service", "rpc_type"],
  aggregator: "min",
};

/** Metrics of serving relays. */
export const SERVING_METRICS: readonly MetricSpec[] = [
  supplierRelayDurationSeconds,
  supplierRelaysRefusedTotal,
  supplierRelaysInFlight,
  supplierWebsocketsOpen,
  supplierBackendUp,
];
