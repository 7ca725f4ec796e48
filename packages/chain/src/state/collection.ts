import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "../types.ts";
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
