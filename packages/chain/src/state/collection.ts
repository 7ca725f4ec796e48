import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes, Derivation } from "../types.ts";
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

/** An entry as it is stored, the key without the collection's prefix, and the gas that a walk takes for its bytes. */
export interface RawEntry {
  readonly key: Bytes;
  readonly value: Bytes;
  readonly gas: bigint;
}

/** Takes the gas of a walk over entries that were not walked over, by the gas of their bytes. */
export function consumeWalk({ gas }: Context, bytesGas: readonly bigint[]): void {
  for (const amount of bytesGas) {
    gas.consume(amount, "ValuePerByte");
    gas.consume(STORE_GAS.nextFlat, "IterNextFlat");
  }
}

const perByte = (price: bigint, ...parts: readonly Bytes[]): bigint =>
  price * BigInt(parts.reduce((sum, part) => sum + part.length, 0));

/** A typed map of a module's state. Every use costs gas as a store of the SDK does; the module's name in the key is free. */
export class Collection<K, V> {
  readonly #space: Bytes;
  readonly #prefix: Bytes;
  readonly #key: KeyCodec<K>;
  readonly #value: Codec<V>;

  constructor({ module, prefix, key, value }: CollectionOptions<K, V>) {
    this.#space = utf8ToBytes(`${module}/`);
    this.#prefix = prefix;
    this.#key = key;
    this.#value = value;
  }

  get(ctx: Context, key: K): V | undefined {
    const inner = this.#inner(key);
    ctx.gas.consume(STORE_GAS.readFlat, "ReadFlat");
    const value = ctx.state.get(this.#whole(inner));
    ctx.gas.consume(perByte(STORE_GAS.readPerByte, inner), "ReadPerByte");
    if (value === undefined) return undefined;
    ctx.gas.consume(perByte(STORE_GAS.readPerByte, value), "ReadPerByte");
    return this.#value.decode(value);
  }

  has(ctx: Context, key: K): boolean {
    ctx.gas.consume(STORE_GAS.has, "Has");
    return ctx.state.get(this.#whole(this.#inner(key))) !== undefined;
  }

  set(ctx: Context, key: K, value: V): void {
    const inner = this.#inner(key);
    const bytes = this.#value.encode(value);
    ctx.gas.consume(STORE_GAS.writeFlat, "WriteFlat");
    ctx.gas.consume(perByte(STORE_GAS.writePerByte, inner), "WritePerByte");
    ctx.gas.consume(perByte(STORE_GAS.writePerByte, bytes), "WritePerByte");
    ctx.state.set(this.#whole(inner), bytes);
  }

  remove(ctx: Context, key: K): void {
    ctx.gas.consume(STORE_GAS.delete, "Delete");
    ctx.state.delete(this.#whole(this.#inner(key)));
  }

  /** Entries in the order of the keys' bytes. */
  *entries(ctx: Context, options: WalkOptions = {}): Generator<readonly [key: K, value: V]> {
    for (const [key, value] of this.rawEntries(ctx, options)) yield [this.#key.decode(key), this.#value.decode(value)];
  }

  /** Entries as they are stored, the keys without the collection's prefix, where decoding all of them would cost too much. */
  *rawEntries(
    ctx: Context,
    { within, from, to, reverse }: WalkOptions = {},
  ): Generator<readonly [key: Bytes, value: Bytes]> {
    const start = concatBytes(this.#space, this.#prefix);
    const whole = (part: Bytes): Bytes => concatBytes(start, part);
    const walk = ctx.state.range({
      prefix: within === undefined ? start : whole(within),
      ...(from === undefined ? {} : { from: whole(from) }),
      ...(to === undefined ? {} : { to: whole(to) }),
      ...(reverse === undefined ? {} : { reverse }),
    });
    for (const [key, value] of walk) {
      const inner = key.subarray(this.#space.length);
      ctx.gas.consume(perByte(STORE_GAS.readPerByte, inner, value), "ValuePerByte");
      ctx.gas.consume(STORE_GAS.nextFlat, "IterNextFlat");
      yield [key.subarray(start.length), value];
    }
  }

  /**
   * What `make` makes of all entries whose keys begin with `within`, which the state keeps while they stay as they are. It
   * costs no gas: the caller takes that of the entries that it uses ({@link consumeWalk}). Made once, beside the collection.
   */
  derivation<T>(make: (entries: Iterable<RawEntry>) => T): (ctx: Context, within: Bytes) => T {
    const start = concatBytes(this.#space, this.#prefix);
    const space = this.#space.length;
    const derivation: Derivation<T> = {
      make(entries) {
        const raw = function* (): Generator<RawEntry> {
          for (const [key, value] of entries) {
            const gas = STORE_GAS.readPerByte * BigInt(key.length - space + value.length);
            yield { key: key.subarray(start.length), value, gas };
          }
        };
        return make(raw());
      },
    };
    return ({ state }, within) => {
      const prefix = concatBytes(start, within);
      if (state.derived === undefined) return derivation.make(state.range({ prefix }));
      return state.derived(derivation, prefix);
    };
  }

  /** Bytes of a key behind the collection's prefix: for pages and for the bounds of {@link entries}. */
  keyBytes(key: K): Bytes {
    return this.#key.encode(key);
  }

  #inner(key: K): Bytes {
    return concatBytes(this.#prefix, this.#key.encode(key));
  }

  #whole(inner: Bytes): Bytes {
    return concatBytes(this.#space, inner);
  }
}
