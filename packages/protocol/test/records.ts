import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type AccountAddress, AppError, hexToBytes } from "@turnpike/base";
import type { Claim } from "../src/claims.ts";
import type { RevenueShare, SettlementInput, SettlementSharedParams } from "../src/settlement/types.ts";

const FOLDER = join(import.meta.dirname, "../../../test/spec/protocol");

/** Reads a file of test/spec/protocol. */
export function readSpec<T>(name: string): T {
  return JSON.parse(readFileSync(join(FOLDER, name), "utf8")) as T;
}

/** A text as the address of an account: rules of settlement do not look into it. */
export function account(text: string): AccountAddress {
  return text as AccountAddress;
}

/** Bytes of hex that is known to be good. */
export function hex(text: string): Uint8Array {
  const bytes = hexToBytes(text);
  if (bytes === undefined) throw new AppError("INTERNAL", { message: `not hex: ${text}` });
  return bytes;
}

interface CoinJson {
  readonly denom: string;
  readonly amount: string;
}

interface SupplierJson {
  readonly owner_address: string;
  readonly operator_address: string;
  readonly services: readonly {
    readonly service_id: string;
    readonly rev_share: readonly { readonly address: string; readonly rev_share_percentage: string }[];
  }[];
  readonly unstake_session_end_height: string;
}

interface HeaderJson {
  readonly application_address: string;
  readonly service_id: string;
  readonly session_id: string;
  readonly session_start_block_height: string;
  readonly session_end_block_height: string;
}

interface SessionJson {
  readonly header: HeaderJson;
  readonly session_number: string;
  readonly application: {
    readonly address: string;
    readonly unstake_session_end_height: string;
    readonly per_session_spend_limit: CoinJson | null;
  };
  readonly suppliers: readonly SupplierJson[];
}

interface DifficultyJson {
  readonly service_id: string;
  readonly block_height: string;
  readonly num_relays_ema: string;
  readonly target_hash: string;
}

interface DifficultyAnswer {
  readonly relayMiningDifficulty: DifficultyJson;
}

interface ChainState {
  /** Of the accounts that the recording watched, by name. */
  readonly balances: Readonly<Record<string, unknown>>;
  readonly applications: Readonly<Record<string, CoinJson>>;
  readonly suppliers: Readonly<Record<string, CoinJson>>;
  readonly validators: readonly {
    readonly operator_address: string;
    readonly tokens: string;
    readonly delegator_shares: string;
  }[];
}

interface ShareJson {
  readonly dao: number;
  readonly proposer: number;
  readonly supplier: number;
  readonly source_owner: number;
  readonly application: number;
}

interface ParamsJson {
  readonly application: { readonly min_stake: CoinJson };
  readonly supplier: { readonly min_stake: CoinJson };
  readonly session: { readonly num_suppliers_per_session: string };
  readonly service: { readonly target_num_relays: string };
  readonly proof: {
    readonly proof_request_probability: number;
    readonly proof_requirement_threshold: CoinJson;
    readonly proof_missing_penalty: CoinJson;
  };
  readonly tokenomics: {
    readonly dao_reward_address: string;
    readonly mint_allocation_percentages: ShareJson;
    readonly mint_equals_burn_claim_distribution: ShareJson;
    readonly global_inflation_per_claim: number;
    readonly mint_ratio: number;
    readonly overservicing_bonus_multiplier: string;
  };
  readonly shared: Readonly<Record<string, string>>;
}

/** An event of a recorded block. */
export interface RecordedEvent {
  readonly type: string;
  readonly attributes: readonly { readonly key: string; readonly value: string }[];
}

/** One recorded session, from claim to settlement. */
export interface RecordedSession {
  readonly session_start: number;
  readonly session_end: number;
  readonly settlement_height: number;
  readonly sessions: readonly SessionJson[];
  readonly claims_before_settlement: readonly {
    readonly supplier_operator_address: string;
    readonly session_header: HeaderJson;
    readonly root_hash: string;
    readonly proof_validation_status: "PENDING_VALIDATION" | "VALIDATED" | "INVALID";
  }[];
  readonly block_hashes: Readonly<Record<string, string>>;
  readonly services: readonly {
    readonly id: string;
    readonly compute_units_per_relay: string;
    readonly owner_address: string;
  }[];
  readonly relay_mining_difficulty: Readonly<
    Record<
      string,
      {
        readonly at_session_start: DifficultyAnswer;
        readonly before_settlement: DifficultyAnswer;
        readonly after_settlement: DifficultyAnswer;
        readonly history: {
          readonly relayMiningDifficultyHistory: readonly {
            readonly effective_height: string;
            readonly difficulty: DifficultyJson;
          }[];
        };
      }
    >
  >;
  readonly params_at_session_start: ParamsJson;
  readonly params_at_settlement: ParamsJson;
  readonly state_before_settlement: ChainState;
  readonly settlement_block_results: { readonly finalize_block_events: readonly RecordedEvent[] };
  readonly difference_made_by_settlement: Readonly<Record<string, number>>;
  readonly txs: readonly { readonly action: string; readonly tx_bytes: string }[];
}

/** The four recorded sessions. */
export const RECORDED = ["e2e-1", "e2e-4", "e2e-5", "e2e-7"] as const;

/** Reads one of {@link RECORDED}. */
export function readRecorded(name: (typeof RECORDED)[number]): RecordedSession {
  return readSpec<RecordedSession>(`${name}.json`);
}

/** A record's base64. */
export function base64(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "base64"));
}

/** Shared parameters of a record. */
export function sharedParams(params: ParamsJson): SettlementSharedParams {
  const get = (name: string) => BigInt(params.shared[name] ?? "0");
  return {
    numBlocksPerSession: get("num_blocks_per_session"),
    sessionGridAnchorHeight: get("session_grid_anchor_height"),
    sessionNumberAtAnchor: get("session_number_at_anchor"),
    gracePeriodEndOffsetBlocks: get("grace_period_end_offset_blocks"),
    claimWindowOpenOffsetBlocks: get("claim_window_open_offset_blocks"),
    claimWindowCloseOffsetBlocks: get("claim_window_close_offset_blocks"),
    proofWindowOpenOffsetBlocks: get("proof_window_open_offset_blocks"),
    proofWindowCloseOffsetBlocks: get("proof_window_close_offset_blocks"),
    applicationUnbondingPeriodSessions: get("application_unbonding_period_sessions"),
    supplierUnbondingPeriodSessions: get("supplier_unbonding_period_sessions"),
    gatewayUnbondingPeriodSessions: get("gateway_unbonding_period_sessions"),
    computeUnitsToTokensMultiplier: get("compute_units_to_tokens_multiplier"),
    computeUnitCostGranularity: get("compute_unit_cost_granularity"),
  };
}

/** A recorded claim. */
export function claimOf(claim: RecordedSession["claims_before_settlement"][number]): Claim {
  const header = claim.session_header;
  return {
    supplierOperatorAddress: claim.supplier_operator_address,
    sessionHeader: {
      applicationAddress: header.application_address,
      serviceId: header.service_id,
      sessionId: header.session_id,
      sessionStartBlockHeight: BigInt(header.session_start_block_height),
      sessionEndBlockHeight: BigInt(header.session_end_block_height),
    },
    rootHash: base64(claim.root_hash),
    proofValidationStatus: ["PENDING_VALIDATION", "VALIDATED", "INVALID"].indexOf(claim.proof_validation_status),
  };
}

const shares = (json: ShareJson) => ({
  dao: json.dao,
  proposer: json.proposer,
  supplier: json.supplier,
  sourceOwner: json.source_owner,
  application: json.application,
});

/** The one delegation that the records do not hold: the chain's REST answer for its only validator. */
export const DELEGATOR = { address: "pokt12uez8ka8eqtag2chksq9yl45heuym5yu343ffz", shares: 123_456_789n };

function revShares(supplier: SupplierJson | undefined, serviceId: string): RevenueShare[] {
  const shares = supplier?.services.find((service) => service.service_id === serviceId)?.rev_share ?? [];
  return shares.map(({ address, rev_share_percentage: percentage }) => ({
    address: account(address),
    revSharePercentage: BigInt(percentage),
  }));
}

/** What settlement read, by a record; stakes are those before it. */
export function settlementInput(record: RecordedSession): SettlementInput {
  const params = record.params_at_settlement;
  const start = record.params_at_session_start;
  const state = record.state_before_settlement;
  const decimal = (text: string) => BigInt(text.replace(".", ""));
  const operators = new Map(record.sessions.flatMap(({ suppliers }) => suppliers.map((s) => [s.operator_address, s])));
  const tokenomics = {
    daoRewardAddress: account(params.tokenomics.dao_reward_address),
    mintAllocationPercentages: shares(params.tokenomics.mint_allocation_percentages),
    mintEqualsBurnClaimDistribution: shares(params.tokenomics.mint_equals_burn_claim_distribution),
    globalInflationPerClaim: params.tokenomics.global_inflation_per_claim,
    mintRatio: params.tokenomics.mint_ratio,
    overservicingBonusMultiplier: BigInt(params.tokenomics.overservicing_bonus_multiplier),
  };
  const limits = new Map(
    record.sessions.map(({ application: { address, per_session_spend_limit: limit } }) => [
      address,
      limit === null ? undefined : BigInt(limit.amount),
    ]),
  );
  const seedHeight = record.session_end + 8;
  return {
    height: BigInt(record.settlement_height),
    claims: record.claims_before_settlement.map((json) => {
      const claim = claimOf(json);
      const { serviceId } = claim.sessionHeader;
      const difficulty = record.relay_mining_difficulty[serviceId]?.at_session_start.relayMiningDifficulty;
      return {
        claim,
        targetHash: base64(difficulty?.target_hash ?? ""),
        computeUnitsPerRelay: BigInt(
          record.services.find(({ id }) => id === serviceId)?.compute_units_per_relay ?? "0",
        ),
        pricing: sharedParams(start),
        windows: sharedParams(params),
        spendLimitUpokt: limits.get(claim.sessionHeader.applicationAddress),
        numServices: 1n,
        serviceOwnerAddress: record.services
          .filter(({ id }) => id === serviceId)
          .map(({ owner_address: owner }) => account(owner))[0],
        revShare: revShares(operators.get(claim.supplierOperatorAddress), serviceId),
        tokenomics,
        proof: {
          proofRequestProbability: params.proof.proof_request_probability,
          proofRequirementThresholdUpokt: BigInt(params.proof.proof_requirement_threshold.amount),
          proofMissingPenaltyUpokt: BigInt(params.proof.proof_missing_penalty.amount),
        },
        proofSeedBlockHash: hex(record.block_hashes[seedHeight] ?? ""),
      };
    }),
    applications: new Map(
      record.sessions.map(({ application }) => [
        application.address,
        {
          address: account(application.address),
          stakeUpokt: BigInt(state.applications[application.address]?.amount ?? "0"),
          unstakeSessionEndHeight: BigInt(application.unstake_session_end_height),
        },
      ]),
    ),
    suppliers: new Map(
      [...operators].map(([address, supplier]) => [
        address,
        {
          operatorAddress: address,
          ownerAddress: account(supplier.owner_address),
          stakeUpokt: BigInt(state.suppliers[address]?.amount ?? "0"),
          unstakeSessionEndHeight: BigInt(supplier.unstake_session_end_height),
          services: supplier.services.map(({ service_id: serviceId }) => ({
            serviceId,
            revShare: revShares(supplier, serviceId),
          })),
        },
      ]),
    ),
    validators: state.validators.map((validator) => {
      const accountAddress = account("pokt1lvrxptamh6ws83x64x4m3stx0p5m94d72nfxh8");
      const tokensUpokt = BigInt(validator.tokens);
      const selfShares = 900_000_000n * 10n ** 18n;
      const others =
        tokensUpokt > 900_000_000n
          ? [{ delegatorAddress: account(DELEGATOR.address), shares: DELEGATOR.shares * 10n ** 18n }]
          : [];
      return {
        operatorAddress: validator.operator_address,
        accountAddress,
        tokensUpokt,
        delegatorShares: decimal(validator.delegator_shares),
        commissionRate: 10n ** 17n,
        delegations: [...others, { delegatorAddress: accountAddress, shares: selfShares }],
      };
    }),
    shared: sharedParams(params),
    daoRewardAddress: tokenomics.daoRewardAddress,
    minApplicationStakeUpokt: BigInt(params.application.min_stake.amount),
    minSupplierStakeUpokt: BigInt(params.supplier.min_stake.amount),
  };
}
