import { AppError } from "@turnpike/base";

/** What a session's work may cost, from the chain. */
export interface BudgetInput {
  /** Of the application, at the session's start. */
  readonly applicationStakeUpokt: bigint;
  /** Most that the application pays in a session, where it has said so. */
  readonly perSessionSpendLimitUpokt: bigint | undefined;
  /** Sessions whose claims may be pending at once. */
  readonly pendingSessions: bigint;
  /** Suppliers that may claim. */
  readonly suppliers: number;
  /** Share that the chain mints on top of each claim and takes from the application too, in millionths. */
  readonly inflationMillionths: bigint;
  readonly computeUnitsPerRelay: bigint;
  readonly computeUnitsToTokensMultiplier: bigint;
  readonly computeUnitCostGranularity: bigint;
}

/**
 * How many relays of a session one supplier is sure to be paid for: its part of the application's stake, as settlement
 * caps it (stake ÷ pending sessions ÷ claiming suppliers, in that order; spend limit; inflation), over a relay's price.
 * It assumes that every supplier of the session claims.
 */
export function claimableRelays(input: BudgetInput): bigint {
  const price = input.computeUnitsPerRelay * input.computeUnitsToTokensMultiplier;
  if (input.suppliers < 1 || input.pendingSessions < 1n || price <= 0n) {
    throw new AppError("INTERNAL", { detail: { suppliers: input.suppliers, price: String(price) } });
  }
  let part = input.applicationStakeUpokt / input.pendingSessions / BigInt(input.suppliers);
  const limit = input.perSessionSpendLimitUpokt;
  if (limit !== undefined) {
    const own = limit / BigInt(input.suppliers);
    if (own < part) part = own;
  }
  const claimable = (part * 1_000_000n) / (1_000_000n + input.inflationMillionths);
  return (claimable * input.computeUnitCostGranularity) / price;
}

/** Counts a session's relays against {@link claimableRelays}: what would not be paid is refused before it is worked on. */
export class SessionBudget {
  readonly #limit: bigint;
  #used = 0n;

  constructor(limitRelays: bigint, usedRelays = 0n) {
    this.#limit = limitRelays;
    this.#used = usedRelays;
  }

  get usedRelays(): bigint {
    return this.#used;
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
}
