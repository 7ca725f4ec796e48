import type { proof } from "@turnpike/proto";
import {
  type Claim,
  type ClaimRoot,
  claimedUpokt,
  estimatedComputeUnits,
  estimatedRelays,
  type ProofRequirement,
  proofRequirement,
  readClaimRoot,
} from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { SessionFacts } from "../session/facts.ts";

/** What is known of a claim's work. */
export interface ClaimFacts {
  readonly root: ClaimRoot;
  readonly numEstimatedComputeUnits: bigint;
  readonly numEstimatedRelays: bigint;
  readonly claimedUpokt: bigint;
}

/** A stored claim as the rules of `packages/protocol` take it. */
export function protocolClaim(claim: proof.Claim): Claim {
  const header = claim.sessionHeader;
  return {
    supplierOperatorAddress: claim.supplierOperatorAddress,
    sessionHeader: {
      applicationAddress: header?.applicationAddress ?? "",
      serviceId: header?.serviceId ?? "",
      sessionId: header?.sessionId ?? "",
      sessionStartBlockHeight: header?.sessionStartBlockHeight ?? 0n,
      sessionEndBlockHeight: header?.sessionEndBlockHeight ?? 0n,
    },
    rootHash: claim.rootHash,
    proofValidationStatus: claim.proofValidationStatus,
  };
}

/** Prices a claim by what was in force at its session's start; undefined when its root cannot be read. */
export function claimFacts(ctx: Context, { sessionHeader, rootHash }: Claim): ClaimFacts | undefined {
  const root = readClaimRoot(rootHash);
  if (root === undefined) return undefined;
  const facts = new SessionFacts(ctx, sessionHeader);
  const targetHash = facts.targetHash();
  const pricing = facts.pricing();
  return {
    root,
    numEstimatedComputeUnits: estimatedComputeUnits(root.sum, targetHash),
    numEstimatedRelays: estimatedRelays(root, targetHash),
    claimedUpokt: claimedUpokt(root.sum, targetHash, pricing),
  };
}

/** Amount of a coin parameter in upokt; 0 when it is not set. */
export function upoktOf(coin: { readonly amount: string } | undefined): bigint {
  return BigInt(coin?.amount === undefined || coin.amount === "" ? "0" : coin.amount);
}

/** Reason a claim needs a proof, or that it needs none. */
export function requirementOf(ctx: Context, claim: Claim, { claimedUpokt: upokt }: ClaimFacts): ProofRequirement {
  const facts = new SessionFacts(ctx, claim.sessionHeader);
  const params = facts.proofParams();
  return proofRequirement({
    claim,
    claimedUpokt: upokt,
    thresholdUpokt: upoktOf(params.proofRequirementThreshold),
    requestProbability: params.proofRequestProbability,
    seedBlockHash: facts.proofSeedBlockHash(),
  });
}
