import type { AccountAddress } from "@turnpike/base";
import type { Claim, PricingParams } from "../claims.ts";
import type { UnbondingParams } from "../sessions/activation.ts";
import type { SessionWindowParams } from "../sessions/windows.ts";
import type { OpReason, SettlementModule } from "./reasons.ts";

/** How one minted amount is shared out. Each a float64 of the wire, read as its decimal text; they add up to 1. */
export interface RewardShares {
  readonly dao: number;
  readonly proposer: number;
  readonly supplier: number;
  readonly sourceOwner: number;
  readonly application: number;
}

/** Parameters of the module that settles. Numbers are float64 on the wire. */
export interface TokenomicsParams {
  readonly daoRewardAddress: AccountAddress;
  /** Shares of inflation. */
  readonly mintAllocationPercentages: RewardShares;
  /** Shares of what a claim mints. */
  readonly mintEqualsBurnClaimDistribution: RewardShares;
  readonly globalInflationPerClaim: number;
  /** How much of what is burned is minted again. */
  readonly mintRatio: number;
  /** Up to how many times its floor a claim may take of what others leave; 0 and 1 mean the floor alone. */
  readonly overservicingBonusMultiplier: bigint;
}

/** Shared parameters as settlement reads them. */
export type SettlementSharedParams = PricingParams & SessionWindowParams & UnbondingParams;

/** A claim that is due, in the order of settlement, with what was in force for it. */
export interface DueClaim {
  readonly claim: Claim;
  /** The service's difficulty target at the session's start. */
  readonly targetHash: Uint8Array;
  /** Compute units of one relay at the session's start. */
  readonly computeUnitsPerRelay: bigint;
  /** Shared parameters at the session's start: they price the claim. */
  readonly pricing: PricingParams;
  /** Shared parameters at the session's end: they say how many sessions share the application's stake. */
  readonly windows: SessionWindowParams;
  /** Maximum that the application pays for the session, to all suppliers together, with inflation; undefined for no limit. */
  readonly spendLimitUpokt: bigint | undefined;
  /** Services that the application was staked for in the session: as many sessions share its part of the stake. */
  readonly numServices: bigint;
  /** Owner of the service at the session's start; undefined when there is no such service. */
  readonly serviceOwnerAddress: AccountAddress | undefined;
  /** Shares of the supplier's rewards in the session; none when it had no configuration for the service. */
  readonly revShare: readonly RevenueShare[];
  /** Parameters of settlement at the session's start. */
  readonly tokenomics: TokenomicsParams;
  /** Parameters of proofs after the block before the session's proof window opened. */
  readonly proof: ProofParams;
  /** Hash of the block before the session's proof window opened. */
  readonly proofSeedBlockHash: Uint8Array;
}

/** Parameters that say which claims need a proof, and what a missing one costs. */
export interface ProofParams {
  /** A float64 of the wire. */
  readonly proofRequestProbability: number;
  readonly proofRequirementThresholdUpokt: bigint;
  readonly proofMissingPenaltyUpokt: bigint;
}

/** An application as it stands before settlement. */
export interface SettlementApplication {
  readonly address: AccountAddress;
  readonly stakeUpokt: bigint;
  /** 0 while it is not unstaking. */
  readonly unstakeSessionEndHeight: bigint;
}

/** One receiver of a supplier's rewards. */
export interface RevenueShare {
  readonly address: AccountAddress;
  /** A whole number. They add up to 100. */
  readonly revSharePercentage: bigint;
}

/** A supplier as it stands before settlement. */
export interface SettlementSupplier {
  readonly operatorAddress: string;
  readonly ownerAddress: AccountAddress;
  readonly stakeUpokt: bigint;
  /** 0 while it is not unstaking. */
  readonly unstakeSessionEndHeight: bigint;
  /** The configurations that its events show. */
  readonly services: readonly { readonly serviceId: string; readonly revShare: readonly RevenueShare[] }[];
}

/** A bonded validator. Shares and rates are decimals of 18 places, held as whole numbers of the last place. */
export interface SettlementValidator {
  /** Its `…valoper…` address. */
  readonly operatorAddress: string;
  /** The same bytes as an account address. */
  readonly accountAddress: AccountAddress;
  readonly tokensUpokt: bigint;
  readonly delegatorShares: bigint;
  readonly commissionRate: bigint;
  readonly delegations: readonly { readonly delegatorAddress: AccountAddress; readonly shares: bigint }[];
}

/** Everything that settlement reads. Maps are by address or id. */
export interface SettlementInput {
  readonly height: bigint;
  /** Claims that are due, in store order: session end, session id, supplier. */
  readonly claims: readonly DueClaim[];
  readonly applications: ReadonlyMap<string, SettlementApplication>;
  readonly suppliers: ReadonlyMap<string, SettlementSupplier>;
  readonly validators: readonly SettlementValidator[];
  /** Shared parameters as they are now: heights of unbonding come from them. */
  readonly shared: SettlementSharedParams;
  /** Gets the validators' part where there is no validator. */
  readonly daoRewardAddress: AccountAddress;
  /** How much more may be minted before the supply leaves its bounds; undefined for no bound. */
  readonly mintRoomUpokt?: bigint;
  readonly minApplicationStakeUpokt: bigint;
  readonly minSupplierStakeUpokt: bigint;
}

interface Amount {
  readonly reason: OpReason;
  readonly amountUpokt: bigint;
}

/** A movement of money, to be carried out as it stands. Never negative; an account is one of those that settlement read. */
export type Operation =
  | ({ readonly kind: "mint"; readonly module: SettlementModule } & Amount)
  | ({ readonly kind: "burn"; readonly module: SettlementModule } & Amount)
  | ({ readonly kind: "mod_to_mod"; readonly sender: SettlementModule; readonly recipient: SettlementModule } & Amount)
  | ({ readonly kind: "mod_to_acct"; readonly sender: SettlementModule; readonly recipient: AccountAddress } & Amount);

/** Records that settlement changes. */
export interface SettlementChanges {
  /** Every application of a claim that was looked at, in that order; written whether it changed or not. */
  readonly applications: readonly SettlementApplication[];
  /** Every supplier of a claim that was looked at, in that order; stakes after slashing. */
  readonly suppliers: readonly SettlementSupplier[];
  /** Claims that are gone: settled, expired and discarded ones. */
  readonly removedClaims: readonly { readonly sessionId: string; readonly supplierOperatorAddress: string }[];
}
