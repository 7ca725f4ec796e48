export { ClaimRunner, type ClaimRunnerModules, type ClaimRunnerOptions } from "./claims/claim-runner.ts";
export { RelayStore, type RelayStoreModules, type RelayStoreOptions } from "./evidence/relay-store.ts";
export { SessionEvidence } from "./evidence/session-evidence.ts";
export { bigintJson } from "./evidence/session-json.ts";
export type { LossSums, MoneySums, RelaySums, SupplySums } from "./evidence/sums.ts";
export { termsOfQueries } from "./evidence/terms.ts";
export type {
  AppendResult,
  BeginFault,
  BegunRelay,
  InFlight,
  LossReason,
  RelayCounts,
  SealedClaim,
  ServedRelay,
  SessionHead,
  SessionOutcome,
  SessionPhase,
  SessionState,
  SessionTerms,
  TermsSource,
} from "./evidence/types.ts";
export { SUPPLIER_METRICS } from "./metrics.ts";
export {
  type OperatorReport,
  readSupplyReport,
  type SessionReport,
  type SupplyReport,
  supplyReport,
} from "./money/supply-report.ts";
export { lockOperator, type OperatorLockOptions } from "./operator/operator-lock.ts";
export { type RelayCrypto, ThreadedRelayCrypto } from "./serving/relay-crypto.ts";
export { SERVING_METRICS } from "./serving-metrics.ts";
export {
  type BackEndConfig,
  type OperatorListener,
  type ServedRelays,
  type ServeRelaysModules,
  type ServeRelaysOptions,
  type ServiceConfig,
  serveRelays,
} from "./supplier.ts";
export type { ServedSession } from "./verification/session-keeper.ts";
