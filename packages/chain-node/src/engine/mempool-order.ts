import type { TxResult } from "@turnpike/chain";

/** What the order of transactions follows from. */
export interface Ranked {
  /** Rises with every transaction that arrives. */
  readonly arrival: number;
  /** Fee for a unit of gas, scaled. */
  readonly price: bigint;
  /** Signers whose sequence it uses: what one of them signed stays in the order of its arrival. */
  readonly signers: readonly string[];
}

const PRICE_SCALE = 1_000_000_000n;
const AMOUNT = /^\d+/;

const valuesOf = ({ events }: TxResult, name: string): string[] =>
  events.flatMap(({ type, attributes }) =>
    type === "tx" ? attributes.filter(({ key }) => key === name).map(({ value }) => value) : [],
  );

/** Price and signers of a transaction, from the events of its check. The lowest of its coins counts, as with the SDK. */
export function rankOf(arrival: number, result: TxResult): Ranked {
  const amounts = valuesOf(result, "fee").flatMap((text) => {
    const digits = text.split(",").map((coin) => AMOUNT.exec(coin)?.[0]);
    return digits.flatMap((digit) => (digit === undefined ? [] : [BigInt(digit)]));
  });
  const [lowest = 0n] = amounts.toSorted((a, b) => (a < b ? -1 : 1));
  const gas = result.gasWanted < 1n ? 1n : result.gasWanted;
  const signers = valuesOf(result, "acc_seq").flatMap((text) => text.split("/").slice(0, 1));
  return { arrival, price: (lowest * PRICE_SCALE) / gas, signers };
}

const before = (a: Ranked, b: Ranked): boolean => (a.price === b.price ? a.arrival < b.arrival : a.price > b.price);

class Heap<T extends Ranked> {
  readonly #items: T[] = [];

  push(item: T): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !before(item, above)) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  pop(): T | undefined {
    const items = this.#items;
    const [first] = items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return first;
    let at = 0;
    for (;;) {
      const [left, right] = [items[2 * at + 1], items[2 * at + 2]];
      if (left === undefined) break;
      const isRight = right !== undefined && before(right, left);
      const child = isRight ? right : left;
      if (!before(child, last)) break;
      items[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    items[at] = last;
    return first;
  }
}

/**
 * The transactions, given in the order of their arrival, as a block takes them: the highest price first, but never one
 * before another that arrived earlier and has a signer in common with it.
 */
export function inBlockOrder<T extends Ranked>(arrived: Iterable<T>): T[] {
  const waitsFor = new Map<T, number>();
  const followers = new Map<T, T[]>();
  const newest = new Map<string, T>();
  const ready = new Heap<T>();
  for (const item of arrived) {
    const earlier = new Set(item.signers.flatMap((signer) => newest.get(signer) ?? []));
    for (const other of earlier) {
      const list = followers.get(other);
      if (list === undefined) followers.set(other, [item]);
      else list.push(item);
    }
    for (const signer of item.signers) newest.set(signer, item);
    waitsFor.set(item, earlier.size);
    if (earlier.size === 0) ready.push(item);
  }
  const ordered: T[] = [];
  for (let item = ready.pop(); item !== undefined; item = ready.pop()) {
    ordered.push(item);
    for (const follower of followers.get(item) ?? []) {
      const left = (waitsFor.get(follower) ?? 1) - 1;
      waitsFor.set(follower, left);
      if (left === 0) ready.push(follower);
    }
  }
  return ordered;
}
