export { type AdminModules, type AdminOptions, type AdminService, serveAdmin } from "./admin/serve-admin.ts";
export type { AdminTarget, ReloadResult } from "./admin/types.ts";
export { createGateway } from "./create-gateway.ts";
export type { AccessLogOptions } from "./http/access-log.ts";
export type { Applications, FoundApplication, KeyedApplication, QuotaStanding, QuotaVerdict } from "./keys/types.ts";
export { PortStore, withFallback } from "./limits/port-store.ts";
export {
  FreeRateLimits,
  type LimitRule,
  type OnStoreFailure,
  type RateLimitsModules,
  type RateLimitsOptions,
} from "./limits/rate-limits.ts";
export { RedisStore, type RedisStoreOptions } from "./limits/redis-store.ts";
export { SharedCounts } from "./limits/shared-counts.ts";
export type { LimitStore, StoreLimit, StoreVerdict } from "./limits/types.ts";
export {
  type LimitedApplication,
  noRateLimits,
  type RateLimits,
  type RateRequest,
  type RateVerdict,
} from "./limits/types.ts";
export { GATEWAY_METRICS } from "./metrics/gateway-metrics.ts";
export type { ReadinessCheck } from "./monitoring/readiness.ts";
export { RedisBus, type RedisBusModules, type RedisBusOptions } from "./sharing/redis-bus.ts";
export { type Port, passOn, WorkerBus } from "./sharing/worker-bus.ts";
export {
  type Gateway,
  type GatewayModules,
  type GatewayOptions,
  type GatewayParts,
  gatewayBounds,
  type OfferedOptions,
} from "./types.ts";
export { type WebSocketLimits, webSocketBounds } from "./websocket/options.ts";
