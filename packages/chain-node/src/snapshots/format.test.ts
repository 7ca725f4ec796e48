import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { entryBytes } from "../../test/snapshots/snapshots.ts";
import { unpackChunk } from "./chunk-codec.ts";
import { CHUNK_BYTES, ChunkCutter, EntryReader } from "./format.ts";

type Entry = readonly [key: Buffer, value: Buffer];

const bytes = (minLength: number, maxLength: number): fc.Arbitrary<Buffer> =>
  fc.uint8Array({ minLength, maxLength }).map((value) => Buffer.from(value));
const someState: fc.Arbitrary<Entry[]> = fc
  .uniqueArray(fc.tuple(bytes(1, 8), bytes(0, 60)), { selector: ([key]) => key.toString("hex"), maxLength: 40 })
  .map((entries) => entries.toSorted(([a], [b]) => Buffer.compare(a, b)));
const someSize = fc.integer({ min: 1, max: 200 });

function cut(state: readonly Entry[], chunkBytes: number): Buffer[] {
  const cutter = new ChunkCutter({ chunkBytes });
  const chunks = state.flatMap(([key, value]) => cutter.add(key, value));
  const last = cutter.end();
  return last === undefined ? chunks : [...chunks, last];
}

interface Read {
  readonly entries: string[];
  readonly fault: string | undefined;
  readonly isAtEnd: boolean;
}

function read(chunks: readonly Buffer[]): Read {
  const reader = new EntryReader();
  const entries: string[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let found = reader.next(); found.kind !== "partial"; found = reader.next()) {
      if (found.kind === "malformed") return { entries, fault: found.fault, isAtEnd: false };
      entries.push(`${found.key.toString("hex")}=${found.value.toString("hex")}`);
    }
  }
  return { entries, fault: undefined, isAtEnd: reader.isAtEnd };
}

const shown = (state: readonly Entry[]): string[] =>
  state.map(([key, value]) => `${key.toString("hex")}=${value.toString("hex")}`);

test("a state comes back from chunks of any size, and they are as long as they should be", () => {
  fc.assert(
    fc.property(someState, someSize, (state, chunkBytes) => {
      const chunks = cut(state, chunkBytes);
      assert.ok(chunks.every((chunk, n) => chunk.length === chunkBytes || n === chunks.length - 1));
      assert.ok(chunks.every((chunk) => chunk.length > 0));
      assert.deepEqual(read(chunks), { entries: shown(state), fault: undefined, isAtEnd: true });
      assert.deepEqual(Buffer.concat(chunks), Buffer.concat(state.map(([key, value]) => entryBytes(key, value))));
    }),
  );
});

test("what is cut off is not whole, and what is bent never throws, nor gives keys out of order", () => {
  fc.assert(
    fc.property(someState, someSize, fc.nat(), fc.integer({ min: 1, max: 255 }), (state, chunkBytes, at, flip) => {
      const stream = Buffer.concat(cut(state, chunkBytes));
      if (stream.length === 0) return;
      const short = read([stream.subarray(0, at % stream.length)]);
      assert.ok(short.entries.length < state.length && short.fault === undefined);
      const ends = state.map((_, n) => Buffer.concat(state.slice(0, n).map((one) => entryBytes(...one))).length);
      assert.equal(short.isAtEnd, ends.includes(at % stream.length));
      const bent = Buffer.from(stream);
      bent[at % bent.length] = (bent[at % bent.length] ?? 0) ^ flip;
      const { entries } = read([bent]);
      const keys = entries.map((entry) => entry.split("=")[0] ?? "");
      assert.deepEqual(keys, [...new Set(keys)].sort());
    }),
  );
});

test("random bytes never throw, as chunks and as compressed ones", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(bytes(0, 300), { maxLength: 5 }), async (chunks) => {
      read(chunks);
      for (const chunk of chunks) await unpackChunk(chunk);
    }),
  );
});

test("lengths that cannot be are refused before their bytes come", () => {
  const key = Buffer.from("k");
  for (const [entry, fault] of [
    [entryBytes(key, key, [0]), "a key has 0 bytes"],
    [entryBytes(key, key, [513]), "a key has 513 bytes"],
    [entryBytes(key, key, [1, 268_435_457]), "a value has 268435457 bytes"],
    [Buffer.concat([entryBytes(key, key), entryBytes(key, key)]), "keys are not in their order"],
  ] as const) {
    assert.equal(read([entry]).fault, fault);
  }
});

test("a value that is longer than several chunks is copied once, when it is whole", () => {
  const value = Buffer.alloc(5 * CHUNK_BYTES + 3, 7);
  const chunks = cut(
    [
      [Buffer.from("a"), value],
      [Buffer.from("b"), value.subarray(1)],
    ],
    CHUNK_BYTES,
  );
  assert.equal(chunks.length, 11);
  const reader = new EntryReader();
  const lengths: number[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let found = reader.next(); found.kind === "entry"; found = reader.next()) {
      assert.ok(found.value.equals(value.subarray(0, found.value.length)));
      lengths.push(found.value.length);
    }
  }
  assert.deepEqual(lengths, [value.length, value.length - 1]);
});
