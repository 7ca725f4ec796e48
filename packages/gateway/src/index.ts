export { createGateway } from "./create-gateway.ts";
export {
  createRateLimits,
  type LimitRule,
  type OnStoreFailure,
  type RateLimitsModules,
  type RateLimitsOptions,
} from "./limits/rate-limits.ts";
export {
  createRedisStore,
  type LimitStore,
  type RedisStoreOptions,
  type StoreLimit,
  type StoreVerdict,
} from "./limits/redis-store.ts";
export { noRateLimits, type RateLimits, type RateRequest, type RateVerdict } from "./limits/types.ts";
export { createPrometheusMetrics, type PrometheusOptions } from "./metrics/prometheus.ts";
export {
  GATEWAY_METRICS,
  inFlight,
  limitedTotal,
  limitStoreFailures,
  limitStoreUp,
  requestSeconds,
  requestsTotal,
  serviceReady,
  soldBytes,
  stageSeconds,
  stageTotal,
} from "./metrics.ts";
export { type MetricsService, serveMetrics } from "./monitoring/serve-metrics.ts";
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
export { type WebSocketLimits, webSocketDefaults } from "./websocket/options.ts";
