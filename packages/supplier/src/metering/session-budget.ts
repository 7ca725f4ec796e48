import { AppError } from "@turnpike/base";
import { stakeAfterSessions } from "@turnpike/protocol";

/** Sessions of the same application that ended before, and that the chain has not settled yet. */
export interface EarlierSessions {
  /** Number that the application's stake is divided by when they are settled. */
  readonly pendingSessions: bigint;
  /** Maximum that this supplier can claim of them, inflation included. */
  readonly ownUpokt: bigint;
  /** True when no other supplier can claim. */
  readonly isAlone: boolean;
}

/** Facts of the chain that bound a session's pay. */
export interface BudgetInput {
  /** Stake of the application in a state of the chain. */
  readonly applicationStakeUpokt: bigint;
  /** Sessions that this state has not settled, those that end first at the front. */
  readonly earlier: readonly EarlierSessions[];
  /** Part of {@link applicationStakeUpokt} for which the supplier works while what others claim of earlier sessions is open, in percent. */
  readonly unsettledPercent: number;
  /** Maximum that the application pays in a session, where it has set one. */
  readonly perSessionSpendLimitUpokt: bigint | undefined;
  /** Sessions whose claims may be pending at once. */
  readonly pendingSessions: bigint;
  /** Services of the application: each has a session of its own, and they share the stake. */
  readonly services: number;
  /** Suppliers that may claim. */
  readonly suppliers: number;
  /** Share that the chain mints on top of each claim and takes from the application too, in millionths. */
  readonly inflationMillionths: bigint;
  readonly computeUnitsPerRelay: bigint;
  readonly computeUnitsToTokensMultiplier: bigint;
  readonly computeUnitCostGranularity: bigint;
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const greatest = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/**
 * Relays of a session that one supplier is paid for: its part of the application's stake, as settlement caps it
 * (stake ÷ pending sessions ÷ claiming suppliers, in that order; spend limit; inflation), over a relay's price.
 * It assumes that every supplier of the session claims.
 *
 * Earlier sessions are settled first, out of the same stake. What this supplier served of them is known, what others served
 * is not: the pay is sure for what remains when they claim all they can. Beyond it the supplier works for
 * {@link BudgetInput.unsettledPercent} of its part at most, and never for more than what remains when they claim nothing.
 */
export function claimableRelays(input: BudgetInput): bigint {
  const { applicationStakeUpokt: stake, earlier } = input;
  const price = input.computeUnitsPerRelay * input.computeUnitsToTokensMultiplier;
  if (input.suppliers < 1 || input.services < 1 || input.pendingSessions < 1n || price <= 0n) {
    throw new AppError("INTERNAL", { detail: { suppliers: input.suppliers, price: String(price) } });
  }
  const limit = input.perSessionSpendLimitUpokt;
  const partOf = (upokt: bigint): bigint => {
    const perSession = upokt / (input.pendingSessions * BigInt(input.services));
    return (limit === undefined ? perSession : least(limit, perSession)) / BigInt(input.suppliers);
  };
  const atMost = (sessions: readonly EarlierSessions[], areOthersCounted: boolean): bigint =>
    stakeAfterSessions(
      stake,
      sessions.map(({ pendingSessions, ownUpokt, isAlone }) =>
        isAlone || !areOthersCounted ? { pendingSessions, mostClaimedUpokt: ownUpokt } : { pendingSessions },
      ),
    );
  const sure = partOf(atMost(earlier, true));
  const likely = partOf(atMost(earlier, false));
  const atRisk = partOf((stake * BigInt(input.unsettledPercent)) / 100n);
  const part = greatest(sure, least(likely, atRisk));
  const claimable = (part * 1_000_000n) / (1_000_000n + input.inflationMillionths);
  return (claimable * input.computeUnitCostGranularity) / price;
}

/** Counts a session's relays against {@link claimableRelays}: work that would not be paid is refused before it begins. */
export class SessionBudget {
  #limit: bigint;
  #used: bigint;
  #isHalved = false;

  /** @param usedRelays relays that were served before; no more are allowed until {@link raise} */
  constructor(usedRelays = 0n) {
    this.#limit = usedRelays;
    this.#used = usedRelays;
  }

  get usedRelays(): bigint {
    return this.#used;
  }

  get limitRelays(): bigint {
    return this.#limit;
  }

  /** True when the application's next session counts on the limit: it is not raised any more. */
  get isHalved(): boolean {
    return this.#isHalved;
  }

  /** Takes one relay of the budget; false when it is used up. */
  acquire(): boolean {
    if (this.#used >= this.#limit) return false;
    this.#used++;
    return true;
  }

  /** Puts a relay back that was not served. */
  release(): void {
    this.#used--;
  }

  /** Sets a higher limit. Nothing happens when it is lower, or after {@link halve}. */
  raise(limitRelays: bigint): void {
    if (!this.#isHalved && limitRelays > this.#limit) this.#limit = limitRelays;
  }

  /** Leaves half of the unused budget to the application's next session. Nothing happens the second time. */
  halve(): void {
    if (this.#isHalved) return;
    this.#isHalved = true;
    const free = this.#limit - this.#used;
    if (free > 0n) this.#limit -= (free + 1n) / 2n;
  }
}
