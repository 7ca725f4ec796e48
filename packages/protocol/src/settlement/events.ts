import type { OpReason, SettlementModule } from "./reasons.ts";
import type { SettlementApplication, SettlementSupplier } from "./types.ts";

/** What the events of a claim's end share. */
export interface ClaimEventFields {
  readonly numRelays: bigint;
  readonly numClaimedComputeUnits: bigint;
  readonly numEstimatedComputeUnits: bigint;
  readonly numEstimatedRelays: bigint;
  readonly claimedUpokt: string;
  readonly serviceId: string;
  readonly applicationAddress: string;
  readonly sessionEndBlockHeight: bigint;
  readonly claimProofStatusInt: number;
  readonly supplierOperatorAddress: string;
}

/** Payouts of one settled claim: recipient, reason, amount as coin text. */
export interface RewardDetail {
  readonly recipientAddress: string;
  readonly opReason: OpReason;
  readonly amount: string;
}

interface Typed<Type extends string, Value> {
  /** The proto message's full name. */
  readonly type: Type;
  /** Its fields under the names that generated code gives them; amounts are coin texts where they are in the proto. */
  readonly value: Value;
}

/**
 * An event of settlement, ready to become its proto message. The two unbonding events carry the actor's record in the
 * proto; here they carry what settlement knows of it, as it was at that moment.
 */
export type SettlementEvent =
  | Typed<"pocket.tokenomics.EventClaimExpired", ClaimEventFields & { readonly expirationReason: 0 | 1 | 2 }>
  | Typed<
      "pocket.tokenomics.EventClaimSettled",
      ClaimEventFields & {
        readonly proofRequirementInt: number;
        readonly rewardDistribution: Readonly<Record<string, string>>;
        readonly rewardDistributionDetailed: readonly RewardDetail[];
        readonly settledUpokt: string;
        readonly mintRatio: string;
        readonly sessionId: string;
        readonly supplierOwnerAddress: string;
        readonly mintedUpokt: string;
        readonly overservicingLossUpokt: string;
        readonly deflationLossUpokt: string;
      }
    >
  | Typed<
      "pocket.tokenomics.EventApplicationOverserviced",
      {
        readonly applicationAddr: string;
        readonly supplierOperatorAddr: string;
        readonly expectedBurn: string;
        readonly effectiveBurn: string;
        readonly serviceId: string;
        readonly sessionEndBlockHeight: bigint;
        readonly spendLimitExceeded: boolean;
      }
    >
  | Typed<
      "pocket.tokenomics.EventSupplierSlashed",
      {
        readonly proofMissingPenalty: string;
        readonly supplierStakeAfterSlash: string;
        readonly serviceId: string;
        readonly applicationAddress: string;
        readonly sessionEndBlockHeight: bigint;
        readonly claimProofStatusInt: number;
        readonly supplierOperatorAddress: string;
      }
    >
  | Typed<
      "pocket.tokenomics.EventClaimDiscarded",
      {
        readonly error: string;
        readonly serviceId: string;
        readonly applicationAddress: string;
        readonly sessionEndBlockHeight: bigint;
        readonly claimProofStatusInt: number;
        readonly supplierOperatorAddress: string;
      }
    >
  | Typed<
      "pocket.tokenomics.EventSettlementBatch",
      {
        readonly sessionEndBlockHeight: bigint;
        readonly senderModule: SettlementModule;
        readonly recipient: string;
        readonly opReason: OpReason;
        readonly totalAmount: string;
        readonly numClaims: number;
        readonly opType: "mint" | "mod_to_mod" | "mod_to_acct" | "burn";
      }
    >
  | Typed<
      "pocket.tokenomics.EventValidatorRewardDistribution",
      {
        readonly sessionEndBlockHeight: bigint;
        readonly opReason: OpReason;
        readonly validatorOperatorAddress: string;
        readonly validatorAccountAddress: string;
        readonly commissionRate: string;
        readonly poolShareUpokt: string;
        readonly commissionUpokt: string;
        readonly selfDelegationRewardUpokt: string;
        readonly delegatorsRewardUpokt: string;
        readonly totalDelegatedStakeUpokt: string;
        readonly numDelegators: number;
      }
    >
  | Typed<
      "pocket.tokenomics.EventSupplierRevShareFallbackDistribution",
      {
        readonly supplierOperatorAddress: string;
        readonly supplierOwnerAddress: string;
        readonly serviceId: string;
        readonly sessionEndBlockHeight: bigint;
        readonly amount: string;
        readonly opReason: OpReason;
        readonly observedSumPercentage: bigint;
        readonly reason: string;
      }
    >
  | Typed<
      "pocket.tokenomics.EventApplicationReimbursementRequest",
      {
        readonly applicationAddr: string;
        readonly supplierOperatorAddr: string;
        readonly supplierOwnerAddr: string;
        readonly serviceId: string;
        readonly sessionId: string;
        readonly amount: string;
      }
    >
  | Typed<
      "pocket.application.EventApplicationUnbondingBegin",
      {
        readonly application: SettlementApplication;
        /** APPLICATION_UNBONDING_REASON_BELOW_MIN_STAKE. */
        readonly reason: number;
        readonly sessionEndHeight: bigint;
        readonly unbondingEndHeight: bigint;
      }
    >
  | Typed<
      "pocket.supplier.EventSupplierUnbondingBegin",
      {
        readonly supplier: SettlementSupplier;
        /** SUPPLIER_UNBONDING_REASON_BELOW_MIN_STAKE. */
        readonly reason: number;
        readonly sessionEndHeight: bigint;
        readonly unbondingEndHeight: bigint;
      }
    >;
