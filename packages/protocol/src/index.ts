export {
  CLAIM_ROOT_BYTES,
  CLAIM_STATUS,
  type Claim,
  type ClaimRoot,
  type ClaimRootFault,
  claimedUpokt,
  claimRootFault,
  estimatedComputeUnits,
  estimatedRelays,
  GAS_PER_RECEIVER,
  PROOF_REQUIREMENT,
  type PricingParams,
  type ProofRequirement,
  type ProofRequirementInput,
  proofPath,
  proofRequirement,
  readClaimRoot,
  receiversGas,
} from "./claims.ts";
export {
  BASE_TARGET,
  type DifficultyChange,
  type DifficultyInput,
  type DifficultyUpdate,
  difficultyMultiplier,
  difficultyOfUnusedService,
  isRelayApplicable,
  type RelayDifficulty,
  updateDifficulty,
} from "./difficulty.ts";
export {
  canonicalHeaderName,
  decodeHttpRequestPayload,
  decodeHttpResponsePayload,
  encodeHttpRequestPayload,
  encodeHttpResponsePayload,
  type HttpHeader,
  type HttpRequestPayload,
  type HttpResponsePayload,
} from "./http-payload.ts";
export { addRational, compareRational, float64ToRational, type Rational, rational } from "./rational.ts";
export {
  type MinedRelay,
  mineRelay,
  relayBytes,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
  splitRelay,
} from "./relay-bytes.ts";
export {
  decodeRelayRequest,
  decodeRelayResponse,
  encodeRelayRequest,
  encodeRelayResponse,
  type RelayMinerError,
  type RelayRequestFields,
  RelayRequestWriter,
  type RelayResponseFields,
  relayResponseDigest,
} from "./relay-messages.ts";
export { type Delegations, ringMembers } from "./ring-members.ts";
export { RPC_TYPE_NUMBERS, rpcTypeOfNumber } from "./rpc-types.ts";
export type { SessionHeader } from "./session-header.ts";
export {
  type ApplicationLifecycle,
  activeApplicationConfigs,
  type ConfigSpan,
  isApplicationActive,
  isConfigActive,
  isGatewayActive,
  mayPruneConfig,
  transferEndHeight,
  type UnbondingParams,
  unbondingEndHeight,
  undelegationRetentionBlocks,
} from "./sessions/activation.ts";
export { drawSuppliers, type SessionSeed, sessionId, sessionPreimage } from "./sessions/draw.ts";
export {
  isSessionEnd,
  isSessionStart,
  nextGrid,
  nextSessionStartHeight,
  type SessionGridParams,
  type SessionSpan,
  sessionAt,
} from "./sessions/grid.ts";
export {
  isGracePeriodOver,
  numPendingSessions,
  type SessionWindowParams,
  type SessionWindows,
  sessionWindows,
  settlementDelayBlocks,
} from "./sessions/windows.ts";
export type { AggregatedOperation } from "./settlement/aggregate.ts";
export { stakeAfterSessions } from "./settlement/budget.ts";
export type { ClaimEventFields, RewardDetail, SettlementEvent } from "./settlement/events.ts";
export type { OpReason, SettlementModule, ValidatorPool } from "./settlement/reasons.ts";
export { settle } from "./settlement/settle.ts";
export type { Settlement, SettlementStep } from "./settlement/settlement.ts";
export type { ShareAmounts } from "./settlement/supplier-share.ts";
export type {
  DueClaim,
  Operation,
  ProofParams,
  RevenueShare,
  RewardShares,
  SettlementApplication,
  SettlementChanges,
  SettlementInput,
  SettlementSharedParams,
  SettlementSupplier,
  SettlementValidator,
  TokenomicsParams,
} from "./settlement/types.ts";

export {
  type BackendCall,
  type FreeRequest,
  mintFree,
  mintPaid,
  mintParsed,
  mintRelayed,
  type PaidRequest,
  type ParsedRequest,
  type Relayed,
  type RpcType,
  type SchemaCheck,
} from "./stages.ts";
