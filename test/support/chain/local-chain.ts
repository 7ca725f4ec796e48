import { type ChainProfile, type GenesisDocument, LOCAL_ROLES, type LocalRole, localGenesis } from "@turnpike/chain";
import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { privateKeyFromSecret } from "@turnpike/crypto";
import { createMessage, shared } from "@turnpike/proto";

/** Someone with a key: an account, and what signs rings and relays. */
export interface Party extends ChainSigner {
  readonly privateKey: Uint8Array;
}

/** The party of a name, always with the same key. */
export function party(name: string): Party {
  const privateKey = privateKeyFromSecret(Buffer.from(`turnpike test ${name}`));
  return { ...createChainSigner(privateKey), privateKey };
}

/** Sessions of six blocks that are settled 25 blocks after their end: windows are wide, so that a slow machine is in time. */
export const QUICK_PROFILE: ChainProfile = {
  blockIntervalMs: 150,
  shared: createMessage(shared.ParamsSchema, {
    numBlocksPerSession: 6n,
    gracePeriodEndOffsetBlocks: 1n,
    claimWindowOpenOffsetBlocks: 1n,
    claimWindowCloseOffsetBlocks: 8n,
    proofWindowOpenOffsetBlocks: 1n,
    proofWindowCloseOffsetBlocks: 14n,
    supplierUnbondingPeriodSessions: 4n,
    applicationUnbondingPeriodSessions: 4n,
    gatewayUnbondingPeriodSessions: 1n,
    computeUnitsToTokensMultiplier: 42_000_000n,
    computeUnitCostGranularity: 1_000_000n,
    sessionGridAnchorHeight: 1n,
    sessionNumberAtAnchor: 1n,
  }),
};

/**
 * A chain of its own for a test.
 * @param consensusKey of the validator, 32 bytes
 * @param moreKeys of further validators
 */
export function quickGenesis(
  consensusKey: Uint8Array,
  genesisTime = new Date().toISOString(),
  moreKeys: readonly Uint8Array[] = [],
): GenesisDocument {
  const signers = Object.fromEntries(LOCAL_ROLES.map((role) => [role, party(role)])) as Record<LocalRole, Party>;
  return localGenesis({
    chainId: "pocket",
    genesisTime,
    profile: QUICK_PROFILE,
    signers,
    consensusKey,
    moreValidators: moreKeys.map((key, i) => {
      const moniker = `validator-${i + 2}`;
      return { moniker, signer: party(moniker), consensusKey: key };
    }),
    services: [
      { id: "eth", name: "Ethereum" },
      { id: "rest", name: "A REST service" },
      { id: "unused", name: "Never used" },
    ],
    supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
  });
}
