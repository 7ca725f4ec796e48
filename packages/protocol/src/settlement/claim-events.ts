import { AppError } from "@turnpike/base";
import { CLAIM_STATUS, type Claim } from "../claims.ts";
import { scaleFloor } from "../rational.ts";
import type { CappedClaim, SessionBudget } from "./budget.ts";
import type { PricedClaim } from "./claim-stage.ts";
import type { RewardDetail, SettlementEvent } from "./events.ts";
import type { ClaimResult, SettlementRates } from "./modules.ts";
import { coinText } from "./reasons.ts";
import type { DueClaim } from "./types.ts";

/** The event of a claim that gets less than it asks. */
export function overservicedEvent(
  { sessionHeader, supplierOperatorAddress }: Claim,
  { expectedBurnUpokt, effectiveBurnUpokt }: NonNullable<CappedClaim["overserviced"]>,
  { spendLimitExceeded }: SessionBudget,
): SettlementEvent {
  return {
    type: "pocket.tokenomics.EventApplicationOverserviced",
    value: {
      applicationAddr: sessionHeader.applicationAddress,
      supplierOperatorAddr: supplierOperatorAddress,
      expectedBurn: coinText(expectedBurnUpokt),
      effectiveBurn: coinText(effectiveBurnUpokt),
      serviceId: sessionHeader.serviceId,
      sessionEndBlockHeight: sessionHeader.sessionEndBlockHeight,
      spendLimitExceeded,
    },
  };
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
