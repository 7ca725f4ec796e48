export { createEngine } from "./engine/engine.ts";
export type { ChainRules, EngineModules, EngineNetwork, EngineOptions, TransactionBounds } from "./engine/options.ts";
export { type AssetPrice, PRICE_DECIMALS, type ProfitRule, type WhenUnprofitable } from "./engine/profit.ts";
export { type Anchor, AnchoredRpc } from "./evm/anchored-rpc.ts";
export { TOPIC_AUTHORIZATION_USED } from "./evm/logs.ts";
export { type EvmNode, type EvmRpc, EvmRpcClient, type EvmRpcOptions, type RpcCall, type RpcReply } from "./evm/rpc.ts";
export {
  type BatchContractState,
  readBatchContract,
  SETTLEMENT_BATCH_ADDRESS,
  SETTLEMENT_BATCH_DEPLOYMENT,
} from "./evm/settlement-batch.ts";
export type {
  DiscoveryHits,
  DiscoveryPage,
  DiscoveryQuery,
  DiscoverySearchQuery,
  FacilitatorDiscovery,
} from "./facilitator/discovery.ts";
export { Facilitator, type FacilitatorModules, type FacilitatorOptions } from "./facilitator/facilitator.ts";
export type { FacilitatorAsset } from "./facilitator/request.ts";
export type {
  FacilitatorResult,
  SettleResponse,
  SupportedResponse,
  VerifyResponse,
} from "./facilitator/results.ts";
export { sellerService } from "./facilitator/sellers.ts";
export {
  createFacilitatorServer,
  type FacilitatorServer,
  type FacilitatorServerModules,
  type FacilitatorServerOptions,
} from "./facilitator/server.ts";
export { decodePaymentHeader, encodeReceipt } from "./header.ts";
export { startHousekeeping } from "./housekeeping.ts";
export { auditLedger, type LedgerAudit, type LedgerDifference } from "./ledger/audit.ts";
export { inspectLedger, type LedgerFault } from "./ledger/doctor.ts";
export { createLedger, type LedgerModules, type LedgerOptions } from "./ledger/ledger.ts";
export { type MigrationResult, migrate } from "./ledger/migrate.ts";
export {
  type BlockedPayer,
  LedgerOperator,
  type OpenTransaction,
  type RetryResult,
} from "./ledger/operator.ts";
export type { Receiver } from "./ledger/receivers.ts";
export { startLedgerGauges } from "./ledger-gauges.ts";
export type { Ledger, LedgerSums } from "./ledger-types.ts";
export { PAYMENT_METRICS } from "./metrics.ts";
export { matchOption, type OptionNetwork, paymentOption } from "./option.ts";
export type { RemoteAsset, RemoteNetwork, RemoteSettlerModules, RemoteSettlerOptions } from "./remote/options.ts";
export { createRemoteSettler } from "./remote/remote-settler.ts";
export type { Sale, Settler } from "./settler.ts";
export { noPayments } from "./stage/no-payments.ts";
export type { PaymentStageModules, PaymentStageOptions } from "./stage/options.ts";
export { X402PaymentStage } from "./stage/stage.ts";
export type { Admission, EarlierAdmission, Offer, PaymentStage, SettlementStatus } from "./stage/types.ts";
export type {
  Authorization,
  DecodedPayment,
  Evidence,
  Outcome,
  PaymentKey,
  PaymentOption,
  PaymentRecord,
  PaymentState,
  PresentedPayment,
  Receipt,
  StoredAnswer,
  Verification,
  Verifier,
} from "./types.ts";
export {
  endOutcome,
  endRefused,
  type SharedTokens,
  type UnpaidAttempt,
  UnpaidLimit,
  type UnpaidRule,
} from "./unpaid-limit.ts";
export { UnpaidSharing } from "./unpaid-sharing.ts";
export { BackOff } from "./verify/back-off.ts";
export { domainSeparator, type TokenDomain, transferDigest } from "./verify/digest.ts";
export { chainIdOf } from "./verify/network-check.ts";
export type { VerifierModules, VerifierNetwork, VerifierOptions } from "./verify/options.ts";
export { EvmVerifier } from "./verify/verifier.ts";
