import { AppError } from "@turnpike/base";
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
import { scaleFloor } from "../rational.ts";
import type { ClaimEventFields, RewardDetail, SettlementEvent } from "./events.ts";
import type { ClaimResult, SettlementRates } from "./modules.ts";
import { coinText } from "./reasons.ts";
import type { DueClaim, SettlementInput } from "./types.ts";

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

/** Prices a due claim. An error text when its root cannot be read or its compute units do not fit its relays. */
export function priceClaim(due: DueClaim, input: SettlementInput): PricedClaim | { readonly error: string } {
  const { claim, targetHash } = due;
  const root = readClaimRoot(claim.rootHash);
  if (root === undefined) return { error: "the root hash in the claim is invalid" };
  const upokt = claimedUpokt(root.sum, targetHash, due.pricing);
  const requirement = proofRequirement({
    claim,
    claimedUpokt: upokt,
    thresholdUpokt: input.proof.proofRequirementThresholdUpokt,
    requestProbability: input.proof.proofRequestProbability,
    seedBlockHash: due.proofSeedBlockHash,
  });
  const { sessionHeader } = claim;
  return {
    due,
    root,
    claimedUpokt: upokt,
    requirement,
    settles: requirement === PROOF_REQUIREMENT.notRequired || claim.proofValidationStatus === CLAIM_STATUS.validated,
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

/** The event of an expired claim. */
export function expiredEvent(priced: PricedClaim): SettlementEvent {
  const invalid = priced.due.claim.proofValidationStatus === CLAIM_STATUS.invalid;
  return {
    type: "pocket.tokenomics.EventClaimExpired",
    value: { ...priced.event, expirationReason: invalid ? 2 : 1 },
  };
}

/** The event of a settled claim, with every payout of its own. */
export function settledEvent(options: {
  readonly priced: PricedClaim;
  readonly settledUpokt: bigint;
  readonly result: ClaimResult;
  readonly rates: SettlementRates;
  readonly supplierOwnerAddress: string;
}): SettlementEvent {
  const { priced, settledUpokt, result, rates } = options;
  const minted = scaleFloor(settledUpokt, rates.mintRatio);
  const lost = priced.claimedUpokt - settledUpokt;
  if (lost < 0n) throw new AppError("INTERNAL", { message: "a claim was settled above what it asked" });
  const totals = new Map<string, bigint>();
  const details: RewardDetail[] = [];
  for (const operation of result.operations) {
    if (operation.kind !== "mod_to_acct") continue;
    const { recipient, reason, amountUpokt } = operation;
    totals.set(recipient, (totals.get(recipient) ?? 0n) + amountUpokt);
    details.push({ recipientAddress: recipient, opReason: reason, amount: coinText(amountUpokt) });
  }
  const sorted = [...totals].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    type: "pocket.tokenomics.EventClaimSettled",
    value: {
      ...priced.event,
      proofRequirementInt: priced.requirement,
      rewardDistribution: Object.fromEntries(sorted.map(([address, amount]) => [address, coinText(amount)])),
      rewardDistributionDetailed: details,
      settledUpokt: coinText(settledUpokt),
      mintRatio: rates.mintRatioText,
      sessionId: priced.due.claim.sessionHeader.sessionId,
      supplierOwnerAddress: options.supplierOwnerAddress,
      mintedUpokt: coinText(minted),
      overservicingLossUpokt: coinText(lost),
      deflationLossUpokt: coinText(settledUpokt - minted),
    },
  };
}

/** The event of a claim that could not be settled, and is dropped so that the chain goes on. */
export function discardedEvent({ claim }: DueClaim, cause: string): SettlementEvent {
  const { serviceId, sessionId, applicationAddress, sessionEndBlockHeight } = claim.sessionHeader;
  return {
    type: "pocket.tokenomics.EventClaimDiscarded",
    value: {
      error: `[UNEXPECTED ERROR] Critical error during claim settlement during session ${JSON.stringify(sessionId)} for operator ${claim.supplierOperatorAddress} and service ${serviceId}. Claim will be discarded to prevent chain halt: ${cause}: internal claim settlement error`,
      serviceId,
      applicationAddress,
      sessionEndBlockHeight,
      claimProofStatusInt: claim.proofValidationStatus,
      supplierOperatorAddress: claim.supplierOperatorAddress,
    },
  };
}
