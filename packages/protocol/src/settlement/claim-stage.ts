import {
  CLAIM_STATUS,
  type ClaimRoot,
  claimedUpokt,
  claimRootFault,
  estimatedComputeUnits,
  estimatedRelays,
  PROOF_REQUIREMENT,
  type ProofRequirement,
  proofRequirement,
  readClaimRoot,
} from "../claims.ts";
import type { ClaimEventFields } from "./events.ts";
import { coinText } from "./reasons.ts";
import type { DueClaim } from "./types.ts";

/** A due claim with everything about it worked out that does not depend on other claims. */
export interface PricedClaim {
  readonly due: DueClaim;
  readonly root: ClaimRoot;
  readonly claimedUpokt: bigint;
  readonly requirement: ProofRequirement;
  /** False when a proof is required and none was found valid: the claim expires. */
  readonly settles: boolean;
  readonly event: ClaimEventFields;
}

// The sample holds the status, so a claim whose proof was found invalid is sampled anew, and the real chain pays it when
// the second sample asks for no proof. Its proof was asked for once: here it is not paid.
function settles(requirement: ProofRequirement, status: number): boolean {
  if (status === CLAIM_STATUS.invalid) return false;
  return requirement === PROOF_REQUIREMENT.notRequired || status === CLAIM_STATUS.validated;
}

/** Prices a due claim. An error text when its root cannot be read or its compute units do not fit its relays. */
export function priceClaim(due: DueClaim): PricedClaim | { readonly error: string } {
  const { claim, targetHash } = due;
  const root = readClaimRoot(claim.rootHash);
  if (root === undefined) return { error: "the root hash in the claim is invalid" };
  const upokt = claimedUpokt(root.sum, targetHash, due.pricing);
  const requirement = proofRequirement({
    claim,
    claimedUpokt: upokt,
    thresholdUpokt: due.proof.proofRequirementThresholdUpokt,
    requestProbability: due.proof.proofRequestProbability,
    seedBlockHash: due.proofSeedBlockHash,
  });
  const { sessionHeader } = claim;
  return {
    due,
    root,
    claimedUpokt: upokt,
    requirement,
    settles: settles(requirement, claim.proofValidationStatus),
    event: {
      numRelays: root.count,
      numClaimedComputeUnits: root.sum,
      numEstimatedComputeUnits: estimatedComputeUnits(root.sum, targetHash),
      numEstimatedRelays: estimatedRelays(root, targetHash),
      claimedUpokt: coinText(upokt),
      serviceId: sessionHeader.serviceId,
      applicationAddress: sessionHeader.applicationAddress,
      sessionEndBlockHeight: sessionHeader.sessionEndBlockHeight,
      claimProofStatusInt: claim.proofValidationStatus,
      supplierOperatorAddress: claim.supplierOperatorAddress,
    },
  };
}

/** Why a claim's work cannot be paid; undefined when it can. Only a chain that was not checked at claiming has any. */
export function workFault(priced: PricedClaim): string | undefined {
  const { root, due } = priced;
  const fault = claimRootFault(due.claim.rootHash, due.computeUnitsPerRelay);
  if (fault === undefined) return undefined;
  if (root.sum === 0n) return "root hash has zero relays: the root hash in the claim is invalid";
  return `mismatch: claim compute units (${root.sum}) != number of relays (${root.count}) * service compute units per relay (${due.computeUnitsPerRelay}): the root hash in the claim is invalid`;
}
