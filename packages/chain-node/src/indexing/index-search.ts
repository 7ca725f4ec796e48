import { AppError } from "@turnpike/base";
import type { ChainEvent } from "@turnpike/chain";
import { bytesToHeight, type ChainStore } from "@turnpike/chain-store";
import {
  atHeight,
  decodePostings,
  HEIGHT_BYTES,
  type IndexTables,
  keyPrefix,
  type Posting,
  valueOfKey,
  valuePrefix,
} from "./index-keys.ts";
import { heightFits, type IndexQuery, indexedFits } from "./index-query.ts";

/** Limits of one search: it holds up the process while it runs. */
export interface SearchLimits {
  /** Records of the index, and places in them. */
  readonly places: number;
  /** Transactions and blocks that are read to test their values. */
  readonly reads: number;
}

/** What a search is held to by default. */
export const SEARCH_LIMITS: SearchLimits = { places: 250_000, reads: 10_000 };

/** A block's height and what in it fits: transactions by their place, rising, and how many they are. */
export interface Found {
  readonly heightBlocks: bigint;
  readonly count: number;
  readonly txs: () => readonly number[];
}

/** Events of a transaction, or of a block. */
export type EventsAt = (heightBlocks: bigint, tx: number) => readonly ChainEvent[];

// Work after which others have their turn: some 10 ms. A read takes as long as this many places.
const PAUSE_PLACES = 1_000;
const READ_PLACES = 10;

/** Counts what a search does, says when others should have their turn, and ends it when it is too much. */
export class Work {
  #places: number;
  #reads: number;
  #sincePause = 0;

  constructor({ places, reads }: SearchLimits) {
    this.#places = places;
    this.#reads = reads;
  }

  place(count: number): void {
    this.#places -= count;
    this.#sincePause += count;
    this.#check();
  }

  read(): void {
    this.#reads--;
    this.#sincePause += READ_PLACES;
    this.#check();
  }

  /** True when there was enough work since it last was. */
  isPause(): boolean {
    if (this.#sincePause < PAUSE_PLACES) return false;
    this.#sincePause = 0;
    return true;
  }

  #check(): void {
    if (this.#places >= 0 && this.#reads >= 0) return;
    const message = "the query has to look at too much: bound the height, or ask for a value with =";
    throw new AppError("INVALID_PARAMS", { message });
  }
}

/** One search in the index. */
export class IndexSearch {
  readonly #store: ChainStore;
  readonly #tables: IndexTables;
  readonly #heightKey: string;
  readonly #query: IndexQuery;
  readonly #eventsAt: EventsAt;
  readonly #work: Work;

  constructor(
    opts: { readonly tables: IndexTables; readonly heightKey: string; readonly query: IndexQuery },
    modules: { readonly store: ChainStore; readonly eventsAt: EventsAt; readonly work: Work },
  ) {
    this.#tables = opts.tables;
    this.#heightKey = opts.heightKey;
    this.#query = opts.query;
    this.#store = modules.store;
    this.#eventsAt = modules.eventsAt;
    this.#work = modules.work;
  }

  /**
   * Everything that fits, by height, and undefined where others should have their turn. All conditions but those on the
   * height are met by one and the same event.
   */
  *found(reverse: boolean): Generator<Found | undefined> {
    const { equal, exists, tested } = this.#query;
    const looked = [
      ...equal.map(({ key, value }) => ({ table: this.#tables.byValue, prefix: valuePrefix(keyPrefix(key), value) })),
      ...exists.map((key) => ({ table: this.#tables.byKey, prefix: keyPrefix(key) })),
    ];
    const [first, ...others] = looked;
    if (first === undefined && tested.length > 0) {
      yield* this.#scanned(reverse);
      return;
    }
    const { table, prefix } = first ?? { table: this.#tables.byKey, prefix: keyPrefix(this.#heightKey) };
    for (const [key, value] of this.#records(table, prefix, reverse)) {
      if (this.#work.isPause()) yield undefined;
      const heightBlocks = bytesToHeight(key, key.length - HEIGHT_BYTES);
      if (!heightFits(this.#query, heightBlocks)) continue;
      if (others.length + tested.length === 0) {
        yield { heightBlocks, count: decodePostings(value).txs, txs: () => txsOf(this.#postings(value)) };
        continue;
      }
      let postings = this.#postings(value);
      for (const other of others) {
        if (postings.length === 0) break;
        const there = this.#store.record(other.table, atHeight(other.prefix, heightBlocks));
        postings = there === undefined ? [] : intersect(postings, this.#postings(there));
      }
      for (const { key: tag, conditions } of tested) {
        postings = postings.filter(({ tx, event }) => this.#tests(heightBlocks, tx, event, tag, conditions));
      }
      if (postings.length > 0) yield foundAt(heightBlocks, postings);
    }
  }

  // No condition can be looked up: all values of one key are gone through, and the other keys tested on what fits.
  *#scanned(reverse: boolean): Generator<Found | undefined> {
    const [first, ...others] = this.#query.tested;
    if (first === undefined) return;
    const prefix = keyPrefix(first.key);
    const fitting = new Map<bigint, Posting[]>();
    for (const [key, value] of this.#store.records(this.#tables.byValue, { prefix })) {
      this.#work.place(1);
      if (this.#work.isPause()) yield undefined;
      const heightBlocks = bytesToHeight(key, key.length - HEIGHT_BYTES);
      if (!heightFits(this.#query, heightBlocks)) continue;
      const plain = valueOfKey(key, prefix.length);
      if (!indexedFits(first.conditions, plain ?? decodePostings(value).text)) continue;
      const there = fitting.get(heightBlocks);
      if (there === undefined) fitting.set(heightBlocks, [...this.#postings(value)]);
      else for (const posting of this.#postings(value)) there.push(posting);
    }
    const heights = [...fitting.keys()].sort((a, b) => (a < b ? -1 : 1));
    for (const heightBlocks of reverse ? heights.reverse() : heights) {
      if (this.#work.isPause()) yield undefined;
      const postings = (fitting.get(heightBlocks) ?? []).filter(({ tx, event }) =>
        others.every(({ key, conditions }) => this.#tests(heightBlocks, tx, event, key, conditions)),
      );
      if (postings.length > 0) yield foundAt(heightBlocks, postings);
    }
  }

  *#records(table: string, prefix: Buffer, reverse: boolean): Generator<readonly [Uint8Array, Uint8Array]> {
    const { fromHeightBlocks, toHeightBlocks } = this.#query;
    if (fromHeightBlocks > toHeightBlocks || toHeightBlocks < 0n) return;
    const from = atHeight(prefix, fromHeightBlocks);
    const to = atHeight(prefix, toHeightBlocks + 1n);
    for (const record of this.#store.records(table, { prefix, from, to, reverse })) {
      this.#work.place(1);
      yield record;
    }
  }

  #postings(value: Uint8Array): readonly Posting[] {
    const postings = decodePostings(value).postings();
    this.#work.place(postings.length);
    return postings;
  }

  #tests(heightBlocks: bigint, tx: number, event: number, tag: string, conditions: IndexQuery["heights"]): boolean {
    this.#work.read();
    const found = this.#eventsAt(heightBlocks, tx)[event];
    return (
      found?.attributes.some(
        ({ key, value, index }) => index && `${found.type}.${key}` === tag && indexedFits(conditions, value),
      ) ?? false
    );
  }
}

function intersect(a: readonly Posting[], b: readonly Posting[]): readonly Posting[] {
  const there = new Set(b.map(({ tx, event }) => `${tx}/${event}`));
  return a.filter(({ tx, event }) => there.has(`${tx}/${event}`));
}

function foundAt(heightBlocks: bigint, postings: readonly Posting[]): Found {
  const txs = txsOf(postings);
  return { heightBlocks, count: txs.length, txs: () => txs };
}

function txsOf(postings: readonly Posting[]): readonly number[] {
  return [...new Set(postings.map(({ tx }) => tx))].sort((a, b) => a - b);
}
