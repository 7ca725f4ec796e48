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
  sessionWindows,
} from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { getDifficultyAt } from "../service/state.ts";
import { getBlockHash } from "../session/state.ts";
import { getSharedParamsAt, protocolParams } from "../shared/state.ts";
import { getProofParams } from "./state.ts";

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
  const { serviceId, sessionStartBlockHeight } = sessionHeader;
  const { targetHash } = getDifficultyAt(ctx, serviceId, sessionStartBlockHeight);
  const pricing = protocolParams(getSharedParamsAt(ctx, sessionStartBlockHeight));
  return {
    root,
    numEstimatedComputeUnits: estimatedComputeUnits(root.sum, targetHash),
    numEstimatedRelays: estimatedRelays(root, targetHash),
    claimedUpokt: claimedUpokt(root.sum, targetHash, pricing),
  };
}

/** Hash of the block before the proof window of a session opens, by its end: the seed of requirement and path. */
export function proofSeedBlockHash(ctx: Context, sessionEndHeight: bigint): Uint8Array {
  const params = protocolParams(getSharedParamsAt(ctx, sessionEndHeight));
  return getBlockHash(ctx, sessionWindows(params, sessionEndHeight).proofOpenHeight - 1n);
}

/** Amount of a coin parameter in upokt; 0 when it is not set. */
export function upoktOf(coin: { readonly amount: string } | undefined): bigint {
  return BigInt(coin?.amount === undefined || coin.amount === "" ? "0" : coin.amount);
}

/** Whether a claim needs a proof, by today's parameters. */
export function requirementOf(ctx: Context, claim: Claim, facts: ClaimFacts): ProofRequirement {
  const params = getProofParams(ctx);
  return proofRequirement({
    claim,
    claimedUpokt: facts.claimedUpokt,
    thresholdUpokt: upoktOf(params.proofRequirementThreshold),
    requestProbability: params.proofRequestProbability,
    seedBlockHash: proofSeedBlockHash(ctx, claim.sessionHeader.sessionEndBlockHeight),
  });
}
