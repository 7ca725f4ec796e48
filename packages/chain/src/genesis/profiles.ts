import { createMessage, shared } from "@turnpike/proto";

/** How long sessions and their windows are. */
export interface ChainProfile {
  readonly blockIntervalMs: number;
  readonly shared: shared.Params;
}

const COMMON = {
  supplierUnbondingPeriodSessions: 2n,
  applicationUnbondingPeriodSessions: 2n,
  gatewayUnbondingPeriodSessions: 1n,
  computeUnitsToTokensMultiplier: 42_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
};

/** Names of {@link CHAIN_PROFILES}. */
export type ProfileName = "fast" | "slow";

/**
 * `fast`: sessions of 20 blocks of a second, settled 15 blocks after their end. `slow`: 60 blocks of a second with a grace
 * of 20, which gateways that look for the height every 15 seconds need.
 */
export const CHAIN_PROFILES: Readonly<Record<ProfileName, ChainProfile>> = {
  fast: {
    blockIntervalMs: 1_000,
    shared: createMessage(shared.ParamsSchema, {
      ...COMMON,
      numBlocksPerSession: 20n,
      gracePeriodEndOffsetBlocks: 1n,
      claimWindowOpenOffsetBlocks: 1n,
      claimWindowCloseOffsetBlocks: 6n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 6n,
    }),
  },
  slow: {
    blockIntervalMs: 1_000,
    shared: createMessage(shared.ParamsSchema, {
      ...COMMON,
      numBlocksPerSession: 60n,
      gracePeriodEndOffsetBlocks: 20n,
      claimWindowOpenOffsetBlocks: 20n,
      claimWindowCloseOffsetBlocks: 10n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 10n,
    }),
  },
};
