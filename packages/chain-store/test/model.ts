import { hash } from "node:crypto";
import { fc } from "@turnpike/testkit/property";
import type { BlockChanges, BlockRecord, Bytes, RangeOptions, StateChange } from "../src/types.ts";

/** A block with changes and no more. */
export function blockOf(
  heightBlocks: bigint,
  changes: readonly StateChange[],
  records: readonly BlockRecord[] = [],
): BlockChanges {
  return { heightBlocks, changes, records };
}

const sha256 = (...parts: readonly Uint8Array[]): Buffer => hash("sha256", Buffer.concat(parts), "buffer");

/** The app hash as the decision page says it, without a line of the store's. */
export function plainAppHash(state: ReadonlyMap<string, Bytes>): string {
  const nibbles = (hex: string, depth: number): string => hex.slice(0, depth);
  const leaves = [...state].map(([key, value]) => {
    const path = sha256(Buffer.from(key, "hex"));
    return { path: path.toString("hex"), hash: sha256(Buffer.of(0), path, sha256(value)) };
  });
  const below = (prefix: string): Buffer | undefined => {
    const here = leaves.filter(({ path }) => nibbles(path, prefix.length) === prefix);
    if (here.length <= 1) return here[0]?.hash;
    const children = "0123456789abcdef".split("").map((nibble) => below(prefix + nibble));
    const bits = Number.parseInt(children.map((child) => (child === undefined ? "0" : "1")).join(""), 2);
    return sha256(Buffer.of(1), Buffer.of(bits >> 8, bits & 0xff), ...children.filter((child) => child !== undefined));
  };
  return (below("") ?? sha256()).toString("hex");
}

/** What a range gives of a plain map, as hex. */
export function plainRange(state: ReadonlyMap<string, Bytes>, { prefix, from, to, reverse }: RangeOptions) {
  const begins = (key: Buffer): boolean => key.subarray(0, prefix.length).equals(prefix);
  const entries = [...state]
    .map(([key, value]) => [Buffer.from(key, "hex"), Buffer.from(value).toString("hex")] as const)
    .filter(([key]) => begins(key))
    .filter(([key]) => from === undefined || Buffer.compare(key, from) >= 0)
    .filter(([key]) => to === undefined || Buffer.compare(key, to) < 0)
    .toSorted(([a], [b]) => Buffer.compare(a, b))
    .map(([key, value]) => `${key.toString("hex")}=${value}`);
  return reverse === true ? entries.toReversed() : entries;
}

/** What a range gave, as {@link plainRange}. */
export function shown(entries: Iterable<readonly [Bytes, Bytes]>): string[] {
  return [...entries].map(
    ([key, value]) => `${Buffer.from(key).toString("hex")}=${Buffer.from(value).toString("hex")}`,
  );
}

/** States after each block, by hex of the key. */
export function statesOf(history: readonly (readonly StateChange[])[]): ReadonlyMap<string, Bytes>[] {
  const states: ReadonlyMap<string, Bytes>[] = [];
  for (const changes of history) {
    const state = new Map(states.at(-1));
    for (const [key, value] of changes) {
      const hex = Buffer.from(key).toString("hex");
      if (value === undefined) state.delete(hex);
      else state.set(hex, value);
    }
    states.push(state);
  }
  return states;
}

/** Keys that are near each other: beginnings of one another, zero bytes, 0xff. */
export const someKey: fc.Arbitrary<Buffer> = fc
  .array(fc.constantFrom(0x00, 0x01, 0x61, 0xfe, 0xff), { minLength: 1, maxLength: 4 })
  .map((bytes) => Buffer.from(bytes));

/** Changes of one block, each key once, in any order. */
export const someChanges: fc.Arbitrary<StateChange[]> = fc.uniqueArray(
  fc.tuple(someKey, fc.option(fc.uint8Array({ maxLength: 3 }), { nil: undefined, freq: 3 })),
  { selector: ([key]) => key.toString("hex"), maxLength: 12 },
);

/** A history of blocks from the genesis on. */
export const someHistory: fc.Arbitrary<StateChange[][]> = fc.array(someChanges, { minLength: 1, maxLength: 30 });

/** Bounds of a range. */
export const someRange: fc.Arbitrary<RangeOptions> = fc.record(
  {
    prefix: fc.oneof(fc.constant(Buffer.alloc(0)), someKey),
    from: someKey,
    to: someKey,
    reverse: fc.boolean(),
  },
  { requiredKeys: ["prefix"] },
);
