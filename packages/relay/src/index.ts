export { type BadAnswer, classifyAnswer, type GoodAnswer, type SupplierAnswer } from "./answer.ts";
export { createDirectRelay, type DirectRelay, type DirectRelayModules } from "./direct/direct-relay.ts";
export {
  DEFAULT_ATTEMPT_TIMEOUT_MS,
  DEFAULT_MAX_ATTEMPTS,
  type DirectEndpoint,
  type DirectRelayOptions,
  type DirectSuppliers,
  directRelayDefaults,
} from "./direct/options.ts";
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
export { MAX_SEARCH_BODY_BYTES, MAX_SEARCH_RESULTS } from "./families/search.ts";
export { familyOf, isListed, parsePaid } from "./families.ts";
export { RELAY_METRICS } from "./metrics.ts";
export { checkPath } from "./paths.ts";
export type { Blame, Relay, RelayFailure, RelayResult } from "./types.ts";
