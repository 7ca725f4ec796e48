export { createGateway } from "./create-gateway.ts";
export { createPrometheusMetrics, type PrometheusOptions } from "./metrics/prometheus.ts";
export {
  inFlight,
  requestSeconds,
  requestsTotal,
  serviceReady,
  soldBytes,
  stageSeconds,
  stageTotal,
} from "./metrics.ts";
export {
  type Gateway,
  type GatewayModules,
  type GatewayOptions,
  gatewayDefaults,
  type MetricsRegistry,
  type OfferedOptions,
  type Random,
  type ReadinessCheck,
} from "./types.ts";
