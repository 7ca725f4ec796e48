export { type AdminService, serveAdmin } from "./admin/serve-admin.ts";
export type { ReloadResult } from "./admin/types.ts";
export { createGateway } from "./create-gateway.ts";
export type { Applications } from "./keys/types.ts";
export { PortStore, withFallback } from "./limits/port-store.ts";
export { FreeRateLimits } from "./limits/rate-limits.ts";
export { RedisStore } from "./limits/redis-store.ts";
export { SharedCounts } from "./limits/shared-counts.ts";
export { type LimitStore, noRateLimits, type RateLimits } from "./limits/types.ts";
export { GATEWAY_METRICS } from "./metrics/gateway-metrics.ts";
export { RedisBus } from "./sharing/redis-bus.ts";
export { type Port, passOn, WorkerBus } from "./sharing/worker-bus.ts";
export {
  type GatewayModules,
  type GatewayOptions,
  type GatewayParts,
  gatewayBounds,
  type OfferedOptions,
} from "./types.ts";
export { webSocketBounds } from "./websocket/options.ts";
