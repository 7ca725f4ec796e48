import { least, type Rational, scaleCeil } from "../rational.ts";

/** What the suppliers of one session may take of one application. Amounts include inflation: they are compared to stake. */
export interface SessionBudget {
  /** What each claim is sure of: the session's part of the stake, divided by the number of claims. */
  readonly floorUpokt: bigint;
  /** True when the spend limit, not the stake, set the floor. */
  readonly spendLimitExceeded: boolean;
  /** What claims below the floor leave, together. */
  unusedUpokt: bigint;
  /** What claims above the floor ask beyond it, together. */
  excessUpokt: bigint;
}

/** What one claim gets. */
export interface CappedClaim {
  readonly settledUpokt: bigint;
  /** Set when the claim gets less than it asks: what it would have burned and what it burns, inflation included. */
  readonly overserviced?: { readonly expectedBurnUpokt: bigint; readonly effectiveBurnUpokt: bigint };
}

/** What inflation adds to a settled amount: rounded up, so that it is never nothing. */
export function inflationUpokt(settledUpokt: bigint, inflation: Rational): bigint {
  return scaleCeil(settledUpokt, inflation);
}

/** What a claim takes out of its application's stake: the amount and its inflation. */
export function stakeCostUpokt(claimedUpokt: bigint, inflation: Rational): bigint {
  return claimedUpokt + inflationUpokt(claimedUpokt, inflation);
}

/**
 * The budget of one session of an application before any claim is in it: stake / pending sessions / claims, each
 * division rounded down, in that order; the spend limit takes the place of stake / pending sessions where it is less.
 */
export function newSessionBudget(options: {
  readonly stakeUpokt: bigint;
  readonly pendingSessions: bigint;
  readonly numClaims: bigint;
  readonly spendLimitUpokt: bigint | undefined;
}): SessionBudget {
  const { pendingSessions, numClaims, spendLimitUpokt = 0n } = options;
  const perSession = options.stakeUpokt / pendingSessions;
  const byStake = perSession / numClaims;
  const byLimit = least(spendLimitUpokt, perSession) / numClaims;
  const limited = spendLimitUpokt > 0n && byLimit < byStake;
  return {
    floorUpokt: limited ? byLimit : byStake,
    spendLimitExceeded: limited,
    unusedUpokt: 0n,
    excessUpokt: 0n,
  };
}

/** Sessions of one end that are not settled yet. */
export interface UnsettledSessions {
  /** Number that the application's stake is divided by when they are settled. */
  readonly pendingSessions: bigint;
  /** Maximum that can be claimed of them, inflation included; their whole part of the stake where it is absent. */
  readonly mostClaimedUpokt?: bigint;
}

/**
 * Minimum of an application's stake once its earlier sessions are settled: each end takes at most its part of the stake at
 * that time, and at most what is claimed. Nothing else lowers a stake that sessions share.
 *
 * @param earlier ends that are not settled yet, in the order of their settlement
 */
export function stakeAfterSessions(stakeUpokt: bigint, earlier: readonly UnsettledSessions[]): bigint {
  let remaining = stakeUpokt;
  for (const { pendingSessions, mostClaimedUpokt } of earlier) {
    const part = remaining / pendingSessions;
    remaining -= mostClaimedUpokt === undefined ? part : least(part, mostClaimedUpokt);
  }
  return remaining;
}

/** Counts a claim that will be settled in. Claims that expire must stay out, or they would starve the others' bonus. */
export function addToBudget(budget: SessionBudget, costUpokt: bigint): void {
  if (costUpokt < budget.floorUpokt) budget.unusedUpokt += budget.floorUpokt - costUpokt;
  else budget.excessUpokt += costUpokt - budget.floorUpokt;
}

/**
 * Caps a claim: the floor, and where the multiplier is above 1 a part of what others left unused, in proportion to what
 * this claim asks beyond the floor, up to `multiplier` floors.
 */
export function capClaim(
  budget: SessionBudget,
  claimedUpokt: bigint,
  inflation: Rational,
  multiplier: bigint,
): CappedClaim {
  const cost = stakeCostUpokt(claimedUpokt, inflation);
  const { floorUpokt, unusedUpokt, excessUpokt } = budget;
  let most = floorUpokt;
  if (multiplier > 1n) {
    const excess = cost - floorUpokt;
    if (excessUpokt > 0n && excess > 0n) most += (unusedUpokt * excess) / excessUpokt;
    most = least(most, floorUpokt * multiplier);
  }
  // most / (1 + inflation), rounded down.
  const mostSettled = (most * inflation.den) / (inflation.den + inflation.num);
  if (claimedUpokt <= mostSettled) return { settledUpokt: claimedUpokt };
  return {
    settledUpokt: mostSettled,
    overserviced: { expectedBurnUpokt: cost, effectiveBurnUpokt: least(cost, most) },
  };
}
