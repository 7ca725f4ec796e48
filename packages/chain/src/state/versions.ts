import { joinBytes } from "./bytes.ts";
import { type Codec, endedTextCodec, pairCodec, rawCodec, uint64Codec } from "./codecs.ts";
import { Collection } from "./collection.ts";
import { type Context, unmetered } from "./context.ts";

const NOTHING = new Uint8Array(0);
/** Maximum number of entries that one block prunes: the changes of a session's blocks fall due together. */
const MAX_PRUNED_PER_BLOCK = 10_000;

/** An earlier value of a record, with the last block after which it held; undefined when there was no record. */
export interface Version<V> {
  readonly key: string;
  readonly lastHeight: bigint;
  readonly value: V | undefined;
}

/**
 * Earlier values of records, by the last block after which each held. A record without an entry has always been what it is
 * now, so a state that was written before there were any reads as it did. The real chain keeps none: writing them costs no gas.
 */
export class Versions<V> {
  readonly #entries: Collection<readonly [key: string, lastHeight: bigint], V | undefined>;
  /** The same keys, the oldest first. */
  readonly #byHeight: Collection<readonly [lastHeight: bigint, key: string], Uint8Array>;

  constructor(opts: {
    readonly module: string;
    readonly prefixes: readonly [number, number];
    readonly value: Codec<V>;
  }) {
    const { module, prefixes, value } = opts;
    this.#entries = new Collection({
      module,
      prefix: Uint8Array.of(prefixes[0]),
      key: pairCodec(endedTextCodec, uint64Codec),
      value: {
        encode: (one) => (one === undefined ? NOTHING : joinBytes(Uint8Array.of(1), value.encode(one))),
        decode: (bytes) => (bytes.length === 0 ? undefined : value.decode(bytes.subarray(1))),
      },
    });
    this.#byHeight = new Collection({
      module,
      prefix: Uint8Array.of(prefixes[1]),
      key: pairCodec(uint64Codec, endedTextCodec),
      value: rawCodec,
    });
  }

  /** Notes what a record was until the block before this one, before it is written. The first note of a block counts. */
  note(ctx: Context, key: string, before: V | undefined): void {
    const lastHeight = ctx.block.heightBlocks - 1n;
    // A value that a genesis writes has no earlier version, and no session is older than block 1.
    if (ctx.mode === "genesis" || lastHeight < 1n) return;
    const free = unmetered(ctx);
    if (!this.#entries.has(free, [key, lastHeight])) this.add(ctx, { key, lastHeight, value: before });
  }

  /** Adds an entry as it is. */
  add(ctx: Context, { key, lastHeight, value }: Version<V>): void {
    const free = unmetered(ctx);
    this.#entries.set(free, [key, lastHeight], value);
    this.#byHeight.set(free, [lastHeight, key], NOTHING);
  }

  /** True when there is an entry of this key and height. */
  has(ctx: Context, key: string, lastHeight: bigint): boolean {
    return this.#entries.has(unmetered(ctx), [key, lastHeight]);
  }

  /** The value of a record after the block at a height. */
  at(ctx: Context, key: string, height: bigint, today: () => V | undefined): V | undefined {
    const [value] = this.between(unmetered(ctx), key, height, height, today);
    return value;
  }

  /**
   * Every value that a record had after one of these blocks, the oldest first; those without a record are left out. Takes the
   * gas of an iterator over the earlier ones.
   */
  between(ctx: Context, key: string, first: bigint, last: bigint, today: () => V | undefined): V[] {
    const values: V[] = [];
    const within = endedTextCodec.encode(key);
    const from = joinBytes(within, uint64Codec.encode(first));
    for (const [[, lastHeight], value] of this.#entries.entries(ctx, { within, from })) {
      if (value !== undefined) values.push(value);
      if (lastHeight >= last) return values;
    }
    const value = today();
    return value === undefined ? values : [...values, value];
  }

  /** All entries, by key and height. */
  *entries(ctx: Context): Generator<Version<V>> {
    for (const [[key, lastHeight], value] of this.#entries.entries(unmetered(ctx))) yield { key, lastHeight, value };
  }

  /** Removes the oldest entries, as far as `isOver` says so of their heights; more than a block's maximum wait for the next. */
  prune(ctx: Context, isOver: (lastHeight: bigint) => boolean): void {
    const free = unmetered(ctx);
    const due: (readonly [lastHeight: bigint, key: string])[] = [];
    for (const [entry] of this.#byHeight.entries(free)) {
      if (!isOver(entry[0])) break;
      due.push(entry);
      if (due.length === MAX_PRUNED_PER_BLOCK) break;
    }
    for (const [lastHeight, key] of due) {
      this.#byHeight.remove(free, [lastHeight, key]);
      this.#entries.remove(free, [key, lastHeight]);
    }
  }
}
