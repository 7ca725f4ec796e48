import type { KeptDerivations } from "./derivations.ts";
import { type Entry, entriesAt, valueAt } from "./history.ts";
import { boundsOf, type KeyBounds, MAX_KEY_BYTES } from "./keys.ts";
import type { Tables } from "./tables.ts";
import type { Bytes, Derivation, RangeOptions, StateReader } from "./types.ts";

const FIRST_BATCH = 16;
const MAX_BATCH_ENTRIES = 512;
const MAX_BATCH_BYTES = 1_048_576;

/** What a reader asks of its store before each read. */
export interface ReaderHost {
  readonly tables: Tables;
  readonly derivations: KeptDerivations;
  /** @throws AppError HEIGHT_UNAVAILABLE when the height was pruned since, CHAIN_STORE when the store is closed. */
  check(heightBlocks: bigint): void;
  isNewest(heightBlocks: bigint): boolean;
}

/** Gives entries of the bounds, in order; its cursors live until it ends. */
export type ReadEntries = (bounds: KeyBounds, reverse: boolean) => Generator<Entry, undefined>;

/**
 * Entries in batches. Nothing of LMDB is held between them: a slow reader keeps no page from being used again, and what
 * it reads later is the same, as the height says what it is.
 */
export function* inBatches(options: RangeOptions, read: ReadEntries): Generator<Entry, undefined> {
  const reverse = options.reverse ?? false;
  let bounds = boundsOf(options.prefix, options.from, options.to);
  let mostEntries = FIRST_BATCH;
  while (bounds !== undefined) {
    const batch: Entry[] = [];
    let batchBytes = 0;
    let last: Buffer | undefined;
    for (const entry of read(bounds, reverse)) {
      batch.push(entry);
      batchBytes += entry[0].length + entry[1].length;
      if (batch.length < mostEntries && batchBytes < MAX_BATCH_BYTES) continue;
      last = entry[0];
      break;
    }
    yield* batch;
    if (last === undefined) return undefined;
    bounds = reverse ? { ...bounds, to: last } : { ...bounds, from: Buffer.concat([last, Buffer.alloc(1)]) };
    mostEntries = Math.min(mostEntries * 2, MAX_BATCH_ENTRIES);
  }
  return undefined;
}

/** The state after one block, from the tables. */
export class StoreReader implements StateReader {
  readonly heightBlocks: bigint;
  readonly #host: ReaderHost;

  constructor(opts: { readonly heightBlocks: bigint }, host: ReaderHost) {
    this.heightBlocks = opts.heightBlocks;
    this.#host = host;
  }

  get(key: Bytes): Bytes | undefined {
    this.#host.check(this.heightBlocks);
    if (key.length === 0 || key.length > MAX_KEY_BYTES) return undefined;
    if (this.#host.isNewest(this.heightBlocks)) return this.#host.tables.latest.get(key);
    return valueAt(this.#host.tables, key, this.heightBlocks);
  }

  range(options: RangeOptions): Iterable<readonly [key: Bytes, value: Bytes]> {
    const { tables } = this.#host;
    return {
      [Symbol.iterator]: () =>
        inBatches(options, (bounds, reverse) => {
          this.#host.check(this.heightBlocks);
          return this.#host.isNewest(this.heightBlocks)
            ? newestEntries(tables, bounds, reverse)
            : entriesAt(tables, bounds, this.heightBlocks, reverse);
        }),
    };
  }

  derived<T>(derivation: Derivation<T>, prefix: Bytes): T {
    this.#host.check(this.heightBlocks);
    return this.#host.derivations.get(derivation, prefix, this.heightBlocks, {
      all: () => this.range({ prefix }),
      get: (key) => this.get(key),
    });
  }
}

function* newestEntries(tables: Tables, bounds: KeyBounds, reverse: boolean): Generator<Entry, undefined> {
  yield* tables.latest.entries({ ...bounds, reverse });
  return undefined;
}
