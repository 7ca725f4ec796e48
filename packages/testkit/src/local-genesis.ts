import { LOCAL_ROLES, type LocalRole, localGenesis } from "@turnpike/chain";
import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { createEd25519Signer, privateKeyFromSecret, sha256 } from "@turnpike/crypto";
import { createMessage, shared } from "@turnpike/proto";

/** Blocks of a session. */
export const SESSION_BLOCKS = 4n;

const signerOf = (name: string): ChainSigner => createChainSigner(privateKeyFromSecret(Buffer.from(`random ${name}`)));
/** The accounts of {@link LOCAL_GENESIS} by role. */
export const LOCAL_SIGNERS = Object.fromEntries(LOCAL_ROLES.map((role) => [role, signerOf(role)])) as Record<
  LocalRole,
  ChainSigner
>;
/** Key of the validator that {@link LOCAL_GENESIS} names. */
export const LOCAL_VALIDATOR = createEd25519Signer(sha256(Buffer.from("random validator")));

/** A local chain with short sessions. */
export const LOCAL_GENESIS = localGenesis({
  chainId: "pocket",
  genesisTime: "2026-11-22T00:00:00Z",
  profile: {
    blockIntervalMs: 1_000,
    shared: createMessage(shared.ParamsSchema, {
      numBlocksPerSession: SESSION_BLOCKS,
      gracePeriodEndOffsetBlocks: 1n,
      claimWindowOpenOffsetBlocks: 1n,
      claimWindowCloseOffsetBlocks: 3n,
      proofWindowOpenOffsetBlocks: 1n,
      proofWindowCloseOffsetBlocks: 3n,
      supplierUnbondingPeriodSessions: 2n,
      applicationUnbondingPeriodSessions: 2n,
      gatewayUnbondingPeriodSessions: 1n,
      computeUnitsToTokensMultiplier: 42_000_000n,
      computeUnitCostGranularity: 1_000_000n,
      sessionGridAnchorHeight: 1n,
      sessionNumberAtAnchor: 1n,
    }),
  },
  signers: LOCAL_SIGNERS,
  consensusKey: LOCAL_VALIDATOR.publicKey,
  services: [
    { id: "eth", name: "Ethereum" },
    { id: "rest", name: "A REST service" },
  ],
  supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
});
