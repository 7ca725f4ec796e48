import type { Offer, TxFacts } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";

/** Position of a transaction among those that wait. */
export interface Ranked {
  /** Rises with every transaction that arrives. */
  readonly arrival: number;
  /** The worst offer of the transaction and of those that it follows: none is in a block before all of these. */
  readonly rank: Offer;
}

/** Percent of a transaction's price that another one must pay at least to replace it, as go-ethereum's nodes ask. */
const RAISE_PERCENT = 110n;

/** Below zero when `a` comes first: the higher price of a unit of gas, then the smaller part of a block. */
export function compareOffers(a: Offer, b: Offer): number {
  if (a.gas === b.gas) return a.fee === b.fee ? 0 : a.fee > b.fee ? -1 : 1;
  const [ours, theirs] = [a.fee * b.gas, b.fee * a.gas];
  if (ours !== theirs) return ours > theirs ? -1 : 1;
  return a.gas < b.gas ? -1 : 1;
}

/** Negative when `a` comes first in a block. Never 0 for two transactions of one mempool. */
function compareRanked(a: Ranked, b: Ranked): number {
  return compareOffers(a.rank, b.rank) || a.arrival - b.arrival;
}

/** True when an offer pays a tenth more for a unit of gas than another, or a tenth on a tenth as often as `raises` says. */
export function outbids(offer: Offer, other: Offer, raises = 1): boolean {
  const [ours, theirs] = [offer.fee * other.gas, other.fee * offer.gas];
  const times = BigInt(raises);
  return ours > theirs && ours * 100n ** times >= theirs * RAISE_PERCENT ** times;
}

/** Rank of a transaction that follows others. */
export function rankAfter(offer: Offer, earlier: Iterable<Ranked>): Offer {
  let worst = offer;
  for (const { rank } of earlier) if (compareOffers(rank, worst) > 0) worst = rank;
  return worst;
}

/** Bounds of a block. */
export interface BlockRoom {
  readonly maxBytes: bigint;
  /** -1: any. */
  readonly maxGas: bigint;
}

/** A transaction as a block takes it. */
export interface Placed {
  readonly bytes: Bytes;
  readonly facts: TxFacts;
  /** Bytes that it takes of a block. */
  readonly sizeBytes: bigint;
}

/**
 * The transactions of a block, in the given order: what does not fit is passed over with all that follows it, and smaller ones
 * behind it are taken.
 * @param isReady asked for each that fits; it is passed over when it is not
 */
export function pickFitting<T extends Placed>(
  ordered: Iterable<T>,
  { maxBytes, maxGas }: BlockRoom,
  isReady: (item: T) => boolean = () => true,
): T[] {
  const picked: T[] = [];
  const passedOver = new Set<string>();
  let [bytes, gas] = [0n, 0n];
  for (const item of ordered) {
    const { facts, sizeBytes } = item;
    const follows = facts.isOrdered && facts.signers.some((signer) => passedOver.has(signer));
    const fits = bytes + sizeBytes <= maxBytes && (maxGas < 0n || gas + facts.offer.gas <= maxGas);
    if (follows || !fits || !isReady(item)) {
      if (facts.isOrdered) for (const signer of facts.signers) passedOver.add(signer);
      continue;
    }
    bytes += sizeBytes;
    gas += facts.offer.gas;
    picked.push(item);
  }
  return picked;
}

/** A sorted list of what waits: the first of a block first. The last is the one that a better one replaces, and none follows it. */
export class RankedList<T extends Ranked> implements Iterable<T> {
  readonly #items: T[] = [];

  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  /** The items from the last on; the list must not change meanwhile. */
  *fromLast(): Generator<T> {
    for (let i = this.#items.length - 1; i >= 0; i--) {
      const item = this.#items[i];
      if (item !== undefined) yield item;
    }
  }

  toArray(): T[] {
    return [...this.#items];
  }

  add(item: T): void {
    this.#items.splice(this.#place(item), 0, item);
  }

  remove(item: T): void {
    const place = this.#place(item);
    if (this.#items[place] === item) this.#items.splice(place, 1);
  }

  #place(item: T): number {
    const last = this.#items.at(-1);
    // The usual place of what has just arrived.
    if (last === undefined || compareRanked(last, item) < 0) return this.#items.length;
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#items[middle];
      if (other !== undefined && compareRanked(other, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Transactions, given in the order of their arrival, as a block takes them: the best rank first, never one before another that
 * arrived earlier and uses a sequence of a signer in common.
 */
export function inBlockOrder<T extends Placed>(arrived: Iterable<T>): T[] {
  const newest = new Map<string, Ranked>();
  const all: (Ranked & { readonly item: T })[] = [];
  for (const item of arrived) {
    const { offer, signers, isOrdered } = item.facts;
    const earlier = isOrdered ? signers.flatMap((signer) => newest.get(signer) ?? []) : [];
    const ranked = { item, arrival: all.length, rank: rankAfter(offer, earlier) };
    if (isOrdered) for (const signer of signers) newest.set(signer, ranked);
    all.push(ranked);
  }
  return all.sort(compareRanked).map(({ item }) => item);
}
