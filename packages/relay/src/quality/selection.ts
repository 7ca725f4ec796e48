import { sharesOf, type Weighted } from "./shares.ts";
import type { SupplierQuality } from "./supplier-quality.ts";

/** What is known of one supplier of a pool. All but `operator` and `quality` may change at any time. */
export interface Candidate {
  readonly operator: string;
  /** Taken out of service by hand. */
  readonly isDrained: boolean;
  /** It serves another chain: no call may go to it. */
  readonly isWrongChain: boolean;
  /** Calls may go to it without a probe before. */
  readonly isVerified: boolean;
  /** Calls go to it only while all others are open. */
  readonly isReserve?: boolean;
  /** Further behind the others than the service allows. */
  isBehind(nowMs: number): boolean;
  readonly quality: SupplierQuality;
}

/** How calls are shared out. */
export interface SelectionOptions {
  /** Part of the first attempts that one operator gets at most, while more than 1/this healthy ones are there. */
  readonly maxOperatorShare: number;
  /** Part of the first attempts that all suppliers in probation get together. */
  readonly probationShare: number;
  /** A supplier with this score counts as healthy for the cap. */
  readonly healthyScore: number;
  /** Time for which scores and latencies are taken as they were. Breakers, drains and heights count at once. */
  readonly refreshMs: number;
}

/** Half for one operator, a tenth for all in probation. */
export const DEFAULT_SELECTION: SelectionOptions = {
  maxOperatorShare: 0.5,
  probationShare: 0.1,
  healthyScore: 50,
  refreshMs: 100,
};

/** Places in the list, the best first. `failing`: open, and its last call or probe failed. `out`: no place. */
const TIER = {
  closed: 0,
  probation: 1,
  unverified: 2,
  behind: 3,
  reserve: 4,
  open: 5,
  failing: 6,
  lacking: 7,
  out: 8,
} as const;
const LAST_TIER = TIER.lacking;
/** So much weight is left to the worst, so that it is seen when it has become better. */
const MIN_WEIGHT = 0.001;
const MAX_PLANS = 32;
/** In a tier of more members only so many places are drawn by share: one call asks fewer. The others follow in any order. */
const DRAWN_PLACES = 16;
/** Most draws for them: one that comes again is drawn once more. */
const MAX_DRAWS = 4 * DRAWN_PLACES;

/** One combination of tiers, and the shares that follow from it. */
interface Plan<T> {
  readonly tiers: Uint8Array;
  /** Members by tier. */
  readonly byTier: readonly (readonly number[])[];
  /** By member: its part of the first attempts within its tier. */
  readonly shares: Float64Array;
  /** Of tiers with more than {@link DRAWN_PLACES} members. */
  readonly large: readonly (LargeTier<T> | undefined)[];
}

/** The members of a tier in a line in which those that are drawn change places with those at its beginning. */
class LargeTier<T> {
  readonly line: T[];
  /** By place in the tier: the shares up to and with it. */
  readonly sums: Float64Array;
  /** By place in the tier: where it stands in the line; and the other way round. */
  readonly #standing: Uint32Array;
  readonly #places: Uint32Array;

  constructor(members: readonly T[], shares: readonly number[]) {
    let sum = 0;
    this.line = [...members];
    this.sums = Float64Array.from(shares, (share) => (sum += share));
    this.#standing = Uint32Array.from(members, (_, at) => at);
    this.#places = this.#standing.slice();
  }

  /** Moves the member of a place to a position of the line; false when it stands before it, having been drawn. */
  put(place: number, position: number): boolean {
    const from = this.#standing[place] ?? 0;
    if (from < position) return false;
    const { line } = this;
    const [moved, other] = [line[from], line[position]];
    const otherPlace = this.#places[position] ?? 0;
    if (moved === undefined || other === undefined) return false;
    line[position] = moved;
    line[from] = other;
    this.#places[position] = place;
    this.#places[from] = otherPlace;
    this.#standing[place] = position;
    this.#standing[otherPlace] = from;
    return true;
  }
}

/**
 * The suppliers of one way of speaking to a service, and the order in which one call asks them. None is left out but
 * those who are drained or serve another chain, so the list is empty only when all are.
 *
 * Within a tier the order is by chance: a supplier's part follows score² / (its latency + half of the median), and no
 * operator gets more than the cap of the first attempts. Doubled latency alone costs some 40 % of a part, not all of it:
 * load stays spread, and the quickest is not run over.
 */
export class SupplierPool<T extends Candidate> {
  readonly members: readonly T[];
  readonly #options: SelectionOptions;
  readonly #random: () => number;
  readonly #weights: Float64Array;
  readonly #healthy: boolean[];
  readonly #plans = new Map<number, Plan<T>>();
  readonly #tiers: Uint8Array;
  readonly #left: number[] = [];
  #refreshedMs = Number.NEGATIVE_INFINITY;
  #point = 0;

  constructor(
    options: SelectionOptions & { readonly members: readonly T[] },
    modules: { readonly random: () => number },
  ) {
    this.members = options.members;
    this.#options = options;
    this.#random = modules.random;
    this.#weights = new Float64Array(this.members.length);
    this.#healthy = this.members.map(() => false);
    this.#tiers = new Uint8Array(this.members.length);
  }

  /**
   * The order for one call; the caller's own list.
   */
  order(operation: string, nowMs: number): T[] {
    const plan = this.#plan(operation, nowMs);
    const { byTier } = plan;
    let ordered: T[] = [];
    let point = this.#random();
    let first: number | undefined;
    const onProbation = byTier[TIER.probation] ?? [];
    if (onProbation.length > 0 && (byTier[TIER.closed]?.length ?? 0) > 0) {
      // The upper end of the range, so that a point of 0 is the plain order.
      const { probationShare } = this.#options;
      const edge = 1 - probationShare;
      if (point >= edge) {
        point = (point - edge) / probationShare;
        const at = Math.min(onProbation.length - 1, Math.floor(point * onProbation.length));
        point = point * onProbation.length - at;
        first = onProbation[at];
        this.#push(ordered, first);
      } else point /= edge;
    }
    this.#point = point;
    for (let tier = 0; tier <= LAST_TIER; tier++) {
      const members = byTier[tier];
      if (members === undefined || members.length === 0) continue;
      const large = plan.large[tier];
      if (large === undefined) this.#draw(ordered, members, plan.shares, first);
      else {
        const without = tier === TIER.probation && first !== undefined ? members.indexOf(first) : undefined;
        const drawn = this.#drawSome(large, without);
        ordered = ordered.length === 0 ? drawn : ordered.concat(drawn);
      }
    }
    return ordered;
  }

  /** Operators that an ordinary call may go to with good hope: not open, behind, or lacking the operation. */
  fit(operation: string, nowMs: number): number {
    const { tiers } = this.#plan(operation, nowMs);
    const operators = new Set<string>();
    for (const [at, tier] of tiers.entries()) {
      const operator = this.members[at]?.operator;
      if (tier <= TIER.unverified && operator !== undefined) operators.add(operator);
    }
    return operators.size;
  }

  /** Each operator's part of the first attempts of an ordinary call now; for metrics. Without any part: not listed. */
  shares(nowMs: number): ReadonlyMap<string, number> {
    const { byTier, shares } = this.#plan("", nowMs);
    const parts = new Map<string, number>();
    const add = (at: number, part: number): void => {
      const operator = this.members[at]?.operator;
      if (operator !== undefined) parts.set(operator, (parts.get(operator) ?? 0) + part);
    };
    const tier = byTier.findIndex((members) => members.length > 0);
    const onProbation = tier === TIER.closed ? (byTier[TIER.probation] ?? []) : [];
    const { probationShare } = this.#options;
    const rest = onProbation.length > 0 ? 1 - probationShare : 1;
    for (const at of byTier[tier] ?? []) add(at, rest * (shares[at] ?? 0));
    for (const at of onProbation) add(at, probationShare / onProbation.length);
    return parts;
  }

  #push(ordered: T[], at: number | undefined): void {
    const member = at === undefined ? undefined : this.members[at];
    if (member !== undefined) ordered.push(member);
  }

  /** Adds a tier's members, each place drawn by share among those who are left. One random number is enough for all. */
  #draw(ordered: T[], members: readonly number[], shares: Float64Array, without: number | undefined): void {
    const left = this.#left;
    left.length = 0;
    let total = 0;
    for (const at of members) {
      if (at === without) continue;
      left.push(at);
      total += shares[at] ?? 0;
    }
    let count = left.length;
    let point = this.#point;
    while (count > 1) {
      let rest = point * total;
      let chosen = 0;
      let share = shares[left[0] ?? 0] ?? 0;
      while (chosen < count - 1 && rest >= share) {
        rest -= share;
        chosen++;
        share = shares[left[chosen] ?? 0] ?? 0;
      }
      // Where in its share the point fell is again even over [0, 1).
      point = share > 0 ? Math.min(0.999_999_999, Math.max(0, rest / share)) : 0;
      this.#push(ordered, left[chosen]);
      total -= share;
      count--;
      for (let i = chosen; i < count; i++) left[i] = left[i + 1] ?? 0;
    }
    if (count === 1) this.#push(ordered, left[0]);
    this.#point = point;
  }

  /** A large tier's members: some drawn by share, each found in the logarithm of their number, before all others. */
  #drawSome(tier: LargeTier<T>, without: number | undefined): T[] {
    const { sums } = tier;
    const total = sums.at(-1) ?? 0;
    let point = this.#point;
    let placed = 0;
    const skipped = without !== undefined && tier.put(without, 0) ? 1 : 0;
    placed += skipped;
    for (let draws = 0; draws < MAX_DRAWS && placed < DRAWN_PLACES; draws++) {
      if (tier.put(placeOf(sums, point * total), placed)) placed++;
      point = this.#random();
    }
    this.#point = point;
    return tier.line.slice(skipped);
  }

  #plan(operation: string, nowMs: number): Plan<T> {
    if (!(nowMs - this.#refreshedMs < this.#options.refreshMs)) this.#refresh(nowMs);
    const tiers = this.#tiers;
    let key = 0;
    for (let i = 0; i < tiers.length; i++) {
      const member = this.members[i];
      const tier = member === undefined ? TIER.out : tierOf(member, operation, nowMs);
      tiers[i] = tier;
      key = (Math.imul(key, 31) + tier) | 0;
    }
    const known = this.#plans.get(key);
    if (known !== undefined && isSame(known.tiers, tiers)) return known;
    const plan = this.#makePlan(tiers.slice());
    if (this.#plans.size >= MAX_PLANS) this.#plans.clear();
    this.#plans.set(key, plan);
    return plan;
  }

  #makePlan(tiers: Uint8Array): Plan<T> {
    const byTier: number[][] = Array.from({ length: LAST_TIER + 1 }, () => []);
    for (const [at, tier] of tiers.entries()) byTier[tier]?.push(at);
    const shares = new Float64Array(tiers.length);
    for (const members of byTier) {
      const endpoints = members.map(
        (at): Weighted => ({
          operator: this.members[at]?.operator ?? "",
          weight: this.#weights[at] ?? MIN_WEIGHT,
          isHealthy: this.#healthy[at] ?? false,
        }),
      );
      const parts = sharesOf(endpoints, this.#options.maxOperatorShare);
      for (const [i, at] of members.entries()) shares[at] = parts[i] ?? 0;
    }
    const large = byTier.map((members) => {
      if (members.length <= DRAWN_PLACES) return undefined;
      const own = members.flatMap((at) => this.members[at] ?? []);
      return new LargeTier(
        own,
        members.map((at) => shares[at] ?? 0),
      );
    });
    return { tiers, byTier, shares, large };
  }

  #refresh(nowMs: number): void {
    this.#refreshedMs = nowMs;
    this.#plans.clear();
    const known = this.members.map(({ quality }) => quality.latencyMs).filter((latencyMs) => latencyMs > 0);
    known.sort((a, b) => a - b);
    // The lower middle: of two, the quicker one is the measure.
    const medianMs = known[Math.floor((known.length - 1) / 2)] ?? 1;
    for (const [at, { quality }] of this.members.entries()) {
      quality.compare(medianMs);
      const score = quality.score(nowMs);
      const latencyMs = quality.latencyMs || medianMs;
      this.#weights[at] = Math.max(MIN_WEIGHT, ((score / 100) ** 2 * 1.5 * medianMs) / (latencyMs + medianMs / 2));
      this.#healthy[at] = score >= this.#options.healthyScore;
    }
  }
}

function tierOf(member: Candidate, operation: string, nowMs: number): number {
  if (member.isDrained || member.isWrongChain) return TIER.out;
  const { quality } = member;
  const state = quality.state(nowMs);
  // Last of all: it would certainly fail.
  if (quality.isLacking(operation, nowMs)) return TIER.lacking;
  if (state === "open") return quality.isFailing ? TIER.failing : TIER.open;
  if (member.isReserve === true) return TIER.reserve;
  if (member.isBehind(nowMs)) return TIER.behind;
  if (!member.isVerified) return TIER.unverified;
  return state === "probation" ? TIER.probation : TIER.closed;
}

/** The first place whose sum is above a value; the last when none is. */
function placeOf(sums: Float64Array, value: number): number {
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sums[middle] ?? 0) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Takes the next supplier out of the list: of an operator that was not asked yet where there is one. */
export function takeNext<T extends Candidate>(ordered: T[], asked: ReadonlySet<string>): T | undefined {
  const fresh = ordered.findIndex((target) => !asked.has(target.operator));
  return ordered.splice(Math.max(0, fresh), 1)[0];
}
