import { utf8ToBytes } from "@turnpike/base";
import type { Bytes, Derivation } from "@turnpike/chain-store";
import { joinBytes } from "./bytes.ts";
import type { Codec, KeyCodec } from "./codecs.ts";
import type { Context } from "./context.ts";
import { STORE_GAS } from "./gas.ts";

/** Where and how a {@link Collection} is kept. */
export interface CollectionOptions<K, V> {
  /** The module whose state it is part of. */
  readonly module: string;
  /** What all its keys begin with inside the module; no two collections of a module may share one, nor begin with another's. */
  readonly prefix: Bytes;
  readonly key: KeyCodec<K>;
  readonly value: Codec<V>;
  /** How many bytes the real chain stores, which gas goes by; as here unless given. */
  readonly stored?: StoredBytes<K>;
}

/** Sizes of the entries of a collection on the real chain, where they are not those of ours. */
export interface StoredBytes<K> {
  /** Bytes of the prefix there. */
  readonly prefixBytes: number;
  /** How many bytes more than here a key has there, behind the prefix. */
  readonly moreKeyBytes?: number;
  /** Bytes of a key behind the prefix there, where the difference is not always the same. */
  readonly keyBytes?: (key: K) => number;
  /** Bytes of a value there, by its bytes here. */
  readonly valueBytes?: (key: K, value: Bytes) => number;
}

/** What {@link Collection.entries} walks over. */
export interface WalkOptions {
  /** Only keys whose bytes, behind the collection's prefix, begin so. */
  readonly within?: Bytes;
  /** First key bytes behind the collection's prefix. */
  readonly from?: Bytes;
  /** Key bytes behind the collection's prefix that are no longer given. */
  readonly to?: Bytes;
  readonly reverse?: boolean;
}

/** An entry as it is stored, the key without the collection's prefix, and the bytes that gas goes by. */
export interface RawEntry {
  readonly key: Bytes;
  readonly value: Bytes;
  readonly chargedBytes: number;
}

/** A changed entry; without a value it was removed. */
export type RawChange = RawEntry | (Omit<RawEntry, "value"> & { readonly value: undefined });

/** Value that is derived from a collection's entries, and cached. */
export interface CollectionDerivation<T> {
  readonly make: (entries: Iterable<RawEntry>) => T;
  /** Gives what `make` gives after changes, each key once; the value before stays as it is. Left out: made anew. */
  readonly update?: (value: T, changes: readonly RawChange[]) => T;
}

/** The first items of a list, without reading more of it. */
export function firstOf<T>(items: Iterable<T>, maximum: number): T[] {
  const first: T[] = [];
  if (maximum <= 0) return first;
  for (const item of items) if (first.push(item) >= maximum) break;
  return first;
}

/** A typed map of a module's state. Every use costs gas as a store of the SDK does; the module's name in the key is free. */
export class Collection<K, V> {
  /** The module's name and the prefix: what all keys begin with. */
  readonly #start: Bytes;
  readonly #key: KeyCodec<K>;
  readonly #value: Codec<V>;
  readonly #stored: StoredBytes<K>;

  constructor({ module, prefix, key, value, stored }: CollectionOptions<K, V>) {
    this.#start = joinBytes(utf8ToBytes(`${module}/`), prefix);
    this.#key = key;
    this.#value = value;
    this.#stored = stored ?? { prefixBytes: prefix.length };
  }

  get(ctx: Context, key: K): V | undefined {
    const value = this.#read(ctx, key);
    return value === undefined ? undefined : this.#value.decode(value);
  }

  /** Takes the gas of reading an entry, without decoding it; false when there is none. */
  chargeRead(ctx: Context, key: K): boolean {
    return this.#read(ctx, key) !== undefined;
  }

  has(ctx: Context, key: K): boolean {
    ctx.gas.consume(STORE_GAS.has, "Has");
    return ctx.state.get(this.#whole(this.#key.encode(key))) !== undefined;
  }

  set(ctx: Context, key: K, value: V): void {
    const keyBytes = this.#key.encode(key);
    const bytes = this.#value.encode(value);
    this.#chargeWrite(ctx, key, keyBytes, bytes);
    ctx.state.set(this.#whole(keyBytes), bytes);
  }

  remove(ctx: Context, key: K): void {
    ctx.gas.consume(STORE_GAS.delete, "Delete");
    ctx.state.delete(this.#whole(this.#key.encode(key)));
  }

  /** Takes the gas of removing an entry, finding it gone and writing it again as it was, and leaves it alone. */
  chargeReplacement(ctx: Context, key: K, value: V): void {
    ctx.gas.consume(STORE_GAS.delete, "Delete");
    ctx.gas.consume(STORE_GAS.has, "Has");
    this.#chargeWrite(ctx, key, this.#key.encode(key), this.#value.encode(value));
  }

  /** Entries in the order of the keys' bytes. */
  *entries(ctx: Context, options: WalkOptions = {}): Generator<readonly [key: K, value: V]> {
    for (const [key, value] of this.rawEntries(ctx, options)) yield this.decode(key, value);
  }

  /** An entry of {@link rawEntries}. */
  decode(key: Bytes, value: Bytes): readonly [key: K, value: V] {
    return [this.#key.decode(key), this.#value.decode(value)];
  }

  /** Entries as they are stored, the keys without the collection's prefix, where decoding all of them would cost too much. */
  *rawEntries(
    ctx: Context,
    { within, from, to, reverse }: WalkOptions = {},
  ): Generator<readonly [key: Bytes, value: Bytes]> {
    const start = this.#start;
    const whole = (part: Bytes): Bytes => joinBytes(start, part);
    const walk = ctx.state.range({
      prefix: within === undefined ? start : whole(within),
      ...(from === undefined ? {} : { from: whole(from) }),
      ...(to === undefined ? {} : { to: whole(to) }),
      ...(reverse === undefined ? {} : { reverse }),
    });
    let opened = false;
    const seek = (bytes: number): void => {
      ctx.gas.consume(STORE_GAS.readPerByte * BigInt(bytes), "ValuePerByte");
      ctx.gas.consume(STORE_GAS.nextFlat, "IterNextFlat");
    };
    for (const [full, value] of walk) {
      const key = full.subarray(start.length);
      const bytes = this.#chargedBytes(key, value);
      // As an iterator of the SDK: opening it costs the first entry, each step the entry that it leaves.
      if (!opened) seek(bytes);
      opened = true;
      yield [key, value];
      seek(bytes);
    }
    if (!opened) ctx.gas.consume(STORE_GAS.nextFlat, "IterNextFlat");
  }

  /**
   * What `make` makes of all entries whose keys begin with `within`, which the state keeps while they stay as they are. It
   * costs no gas: the caller takes that of the entries that it uses. Made once, beside the collection. With `update` a changed
   * entry costs what `update` takes, and not `make`.
   */
  derivation<T>({ make, update }: CollectionDerivation<T>): (ctx: Context, within: Bytes) => T {
    const start = this.#start;
    const chargedBytes = (key: Bytes, value: Bytes): number => this.#chargedBytes(key, value);
    const derivation: Derivation<T> = {
      make(entries) {
        const raw = function* (): Generator<RawEntry> {
          for (const [full, value] of entries) {
            const key = full.subarray(start.length);
            yield { key, value, chargedBytes: chargedBytes(key, value) };
          }
        };
        return make(raw());
      },
      ...(update === undefined
        ? {}
        : {
            update(value, changes) {
              const raw = changes.map(([full, entry]) => {
                const key = full.subarray(start.length);
                if (entry === undefined) return { key, value: undefined, chargedBytes: 0 };
                return { key, value: entry, chargedBytes: chargedBytes(key, entry) };
              });
              return update(value, raw);
            },
          }),
    };
    return ({ state }, within) => {
      const prefix = joinBytes(start, within);
      if (state.derived === undefined) return derivation.make(state.range({ prefix }));
      return state.derived(derivation, prefix);
    };
  }

  /** Bytes of a key behind the collection's prefix: for pages and for the bounds of {@link entries}. */
  keyBytes(key: K): Bytes {
    return this.#key.encode(key);
  }

  #read(ctx: Context, key: K): Bytes | undefined {
    const keyBytes = this.#key.encode(key);
    ctx.gas.consume(STORE_GAS.readFlat, "ReadFlat");
    const value = ctx.state.get(this.#whole(keyBytes));
    ctx.gas.consume(STORE_GAS.readPerByte * this.#storedKeyBytes(key, keyBytes), "ReadPerByte");
    if (value !== undefined) {
      ctx.gas.consume(STORE_GAS.readPerByte * this.#storedValueBytes(key, value), "ReadPerByte");
    }
    return value;
  }

  #chargeWrite(ctx: Context, key: K, keyBytes: Bytes, value: Bytes): void {
    ctx.gas.consume(STORE_GAS.writeFlat, "WriteFlat");
    ctx.gas.consume(STORE_GAS.writePerByte * this.#storedKeyBytes(key, keyBytes), "WritePerByte");
    ctx.gas.consume(STORE_GAS.writePerByte * this.#storedValueBytes(key, value), "WritePerByte");
  }

  #storedKeyBytes(key: K, own: Bytes): bigint {
    const { prefixBytes, keyBytes, moreKeyBytes = 0 } = this.#stored;
    return BigInt(prefixBytes + (keyBytes?.(key) ?? own.length + moreKeyBytes));
  }

  #storedValueBytes(key: K, value: Bytes): bigint {
    const { valueBytes } = this.#stored;
    return BigInt(valueBytes?.(key, value) ?? value.length);
  }

  // The key behind the prefix, as a walk yields it.
  #chargedBytes(rest: Bytes, value: Bytes): number {
    const { prefixBytes, keyBytes, valueBytes, moreKeyBytes = 0 } = this.#stored;
    const sameKeyBytes = rest.length + moreKeyBytes;
    if (keyBytes === undefined && valueBytes === undefined) return prefixBytes + sameKeyBytes + value.length;
    const key = this.#key.decode(rest);
    return prefixBytes + (keyBytes?.(key) ?? sameKeyBytes) + (valueBytes?.(key, value) ?? value.length);
  }

  #whole(keyBytes: Bytes): Bytes {
    return joinBytes(this.#start, keyBytes);
  }
}
