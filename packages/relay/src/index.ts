export {
  createRelayEngine,
  type RelayEngineModules,
  type RelayEngineOptions,
  relayEngineBounds,
  type ServiceSuppliers,
} from "./create-relay-engine.ts";
export { BatchBudget } from "./engine/client-batch.ts";
export type { CrossCheckRules, LogRangeRules, ServiceRules } from "./engine/options.ts";
export type { RelayEngine } from "./engine/relay-engine.ts";
export { DENIED, type DeniedMethods, isDenied } from "./families/denied.ts";
export type {
  CallInput,
  CallRefusal,
  ErrorJudgement,
  FailureReason,
  Family,
  ParsedCall,
  RpcError,
  ValidationDetail,
} from "./families/family.ts";
export {
  type FreePath,
  type FreeRpc,
  isRpcPath,
  parseFreePath,
  parseFreeRpc,
  takesPaths,
} from "./families/free-call.ts";
export { LISTED_METHODS, type ListedMethod } from "./families/methods/listing.ts";
export { isListed, parsePaid } from "./families/registry.ts";
export { checkPath } from "./families/request-path.ts";
export { RELAY_METRICS } from "./metrics.ts";
export {
  Gossip,
  type GossipModules,
  type GossipOptions,
  type GossipSource,
  gossipDefaults,
  type SharedHeight,
  type SharedQuality,
} from "./quality/gossip.ts";
export {
  MAX_REGISTERED_SERVICES,
  type ServiceOrigin,
  SessionSource,
  type SessionSourceModules,
  type SessionSourceOptions,
} from "./session/session-source.ts";
export {
  SessionSuppliers,
  type SessionSuppliersModules,
  type SessionSuppliersOptions,
} from "./session/session-suppliers.ts";
export { type SigningKey, signingKey } from "./session/signing-keys.ts";
export {
  SharedControl,
  type SharedControlModules,
  type SharedControlOptions,
} from "./shared-control.ts";
export type { SocketEndpoint, SubscriptionBounds, SubscriptionOptions } from "./subscriptions/options.ts";
export { createSubscriptions, type SubscriptionModules } from "./subscriptions/subscriptions.ts";
export { cometTopic, evmTopic } from "./subscriptions/topics.ts";
export type {
  EndReason,
  PairedSocket,
  PairHandlers,
  SharedEvent,
  SocketDialect,
  SubscribeResult,
  SubscriptionListener,
  Subscriptions,
  Topic,
} from "./subscriptions/types.ts";
export type { CallOutcome } from "./subscriptions/upstream-socket.ts";
export type { StaticEndpoint } from "./suppliers/static-supplier-set.ts";
export type { DropReason, EmptyReason, SupplierSet } from "./suppliers/supplier-set.ts";
export type {
  Blame,
  BreakerState,
  Relay,
  RelayControl,
  RelayFailure,
  RelayFlag,
  RelayOutcome,
  ServiceView,
  SupplierView,
} from "./types.ts";
