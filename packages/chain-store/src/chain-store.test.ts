import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import {
  blockOf,
  plainAppHash,
  plainRange,
  shown,
  someChanges,
  someHistory,
  someRange,
  statesOf,
} from "../test/model.ts";
import { EMPTY_APP_HASH } from "./chain-store.ts";
import { openChainStore } from "./open-chain-store.ts";
import type { ChainStore, RangeOptions, StateChange } from "./types.ts";

/** From a program that has nothing of this one: a state of 0, 1, 2 and 42 entries. */
const GOLDEN = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "565388d4bc00257133f799d9366ac97f6e949c18acc53d17457f8859ba0f08d3",
  "bb9dbe5eeff357f9f55024d7b34f139b31b16761f45af7cc8c6ccdf073a7fc8f",
  "e8bba3090a629cca1fb4c4d5c3808c401adf2df239664b740adecf5b3e2c7138",
];

const hex = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString("hex");
const key = (text: string): Buffer => Buffer.from(text);
const all: RangeOptions = { prefix: Buffer.alloc(0) };
const coded = (code: Parameters<typeof isAppError>[1]) => (error: unknown) => isAppError(error, code);

async function commitAll(store: ChainStore, history: readonly (readonly StateChange[])[]): Promise<void> {
  for (const [n, changes] of history.entries()) await store.commit(blockOf(BigInt(n), changes));
}

function assertEqualStates(
  store: ChainStore,
  states: ReturnType<typeof statesOf>,
  ranges: readonly RangeOptions[],
  from = 0,
): void {
  const keys = new Set(states.flatMap((state) => [...state.keys()]));
  for (let n = from; n < states.length; n++) {
    const state = states[n] ?? new Map();
    const reader = store.at(BigInt(n));
    for (const name of keys) assert.equal(hex(reader.get(Buffer.from(name, "hex"))), hex(state.get(name)));
    for (const range of [all, { ...all, reverse: true }, ...ranges]) {
      assert.deepEqual(shown(reader.range(range)), plainRange(state, range), `height ${n}`);
    }
  }
}

test("every read at every height equals a plain map's, and so does the app hash", async () => {
  await fc.assert(
    fc.asyncProperty(someHistory, fc.array(someRange, { maxLength: 6 }), async (history, ranges) => {
      await using folder = await scratchFolder();
      const states = statesOf(history);
      {
        await using store = await openChainStore({ folder: folder.path });
        await commitAll(store, history);
        assertEqualStates(store, states, ranges);
      }
      await using store = await openChainStore({ folder: folder.path });
      assert.equal(store.latestHeightBlocks(), BigInt(history.length - 1));
      assertEqualStates(store, states, ranges);
      for (const [n, state] of states.entries()) assert.equal(hex(store.appHash(BigInt(n))), plainAppHash(state));
      await store.verify();
    }),
    { numRuns: 40 },
  );
});

test("one state has one app hash, however it came to be", async () => {
  await fc.assert(
    fc.asyncProperty(someHistory, fc.infiniteStream(fc.nat()), async (history, numbers) => {
      await using folder = await scratchFolder();
      await using other = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      await commitAll(store, history);
      const final = statesOf(history).at(-1) ?? new Map<string, Uint8Array>();
      const changes = [...final].map(([name, value]) => [Buffer.from(name, "hex"), value] as const);
      const shuffled = changes
        .map((change) => [numbers.next().value, change] as const)
        .toSorted(([a], [b]) => a - b)
        .map(([, change]) => change);
      await using atOnce = await openChainStore({ folder: other.path });
      assert.equal(hex(await atOnce.commit(blockOf(0n, shuffled))), hex(store.appHash(BigInt(history.length - 1))));
      const removed = changes.map(([name]) => [name, undefined] as const);
      assert.deepEqual(await atOnce.commit(blockOf(1n, removed)), EMPTY_APP_HASH);
      await store.verify();
      await atOnce.verify();
    }),
    { numRuns: 30 },
  );
});

test("the app hash of a proposal is what its commit gives, and nothing is written by asking", async () => {
  await fc.assert(
    fc.asyncProperty(someChanges, someChanges, someChanges, async (first, proposed, decided) => {
      await using folder = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      await store.commit(blockOf(0n, first));
      const before = shown(store.at(0n).range(all));
      const hashes = [proposed, decided, proposed].map((changes) => hex(store.appHashOf(blockOf(1n, changes))));
      assert.equal(hashes[0], hashes[2]);
      assert.deepEqual(shown(store.at(0n).range(all)), before);
      assert.equal(store.latestHeightBlocks(), 0n);
      assert.equal(hex(await store.commit(blockOf(1n, decided))), hashes[1]);
    }),
    { numRuns: 20 },
  );
});

test("pruning leaves every read at kept heights, and says what is kept", async () => {
  await fc.assert(
    fc.asyncProperty(someHistory, fc.array(someRange, { maxLength: 4 }), fc.nat(), async (history, ranges, nth) => {
      await using folder = await scratchFolder();
      await using store = await openChainStore({ folder: folder.path });
      await commitAll(store, history);
      const before = nth % history.length;
      await store.prune(BigInt(before));
      assert.equal(store.earliestHeightBlocks(), BigInt(before));
      assertEqualStates(store, statesOf(history), ranges, before);
      if (before > 0) assert.throws(() => store.at(BigInt(before - 1)), coded("HEIGHT_UNAVAILABLE"));
      assert.equal(hex(store.appHash(0n)), plainAppHash(statesOf(history)[0] ?? new Map()), "hashes of blocks stay");
      await store.commit(blockOf(BigInt(history.length), [[key("z"), key("1")]]));
      await store.prune(BigInt(history.length));
      assert.equal(store.earliestHeightBlocks(), BigInt(history.length));
      await store.verify();
    }),
    { numRuns: 25 },
  );
});

test("pruning that is broken off goes on later, and never offers a state that is half forgotten", async () => {
  await using folder = await scratchFolder();
  const many = (n: number): StateChange[] =>
    Array.from({ length: 3_000 }, (_, i) => [key(`k${i}`), key(`${n}`)] as const);
  {
    await using store = await openChainStore({ folder: folder.path });
    for (let n = 0; n < 4; n++) await store.commit(blockOf(BigInt(n), many(n)));
    const abort = new AbortController();
    const pruned = store.prune(3n, abort.signal);
    abort.abort();
    await assert.rejects(pruned, { name: "AbortError" });
  }
  await using store = await openChainStore({ folder: folder.path });
  const reader = store.at(store.latestHeightBlocks() ?? 0n);
  const pruned = store.prune(3n);
  assert.equal(hex(reader.get(key("k7"))), hex(key("3")));
  await store.commit(blockOf(4n, many(4)));
  await pruned;
  assert.equal(store.earliestHeightBlocks(), 3n);
  assert.throws(() => store.at(2n), coded("HEIGHT_UNAVAILABLE"));
  assert.equal(hex(store.at(3n).get(key("k7"))), hex(key("3")));
  assert.equal(hex(store.at(4n).get(key("k7"))), hex(key("4")));
});

test("a reader and its open ranges stay at their height while blocks are committed and forgotten", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const names = Array.from({ length: 2_000 }, (_, i) => key(`k${String(i).padStart(5, "0")}`));
  await store.commit(
    blockOf(
      0n,
      names.map((name) => [name, key("0")] as const),
    ),
  );
  const reader = store.at(0n);
  const ranges = [false, true].map((reverse) => reader.range({ prefix: key("k"), reverse })[Symbol.iterator]());
  const seen: string[][] = [[], []];
  for (let n = 1n; n < 20n; n++) {
    const changed = names.filter((_, i) => i % 20 === Number(n));
    await store.commit(
      blockOf(
        n,
        changed.map((name, i) => [name, i % 2 === 0 ? undefined : key(`${n}`)] as const),
      ),
    );
    for (const [way, range] of ranges.entries()) {
      for (let i = 0; i < 60; i++) {
        const { value } = range.next();
        if (value !== undefined) seen[way]?.push(shown([value])[0] ?? "");
      }
    }
  }
  for (const [way, range] of ranges.entries()) seen[way]?.push(...shown({ [Symbol.iterator]: () => range }));
  const expected = names.map((name) => `${name.toString("hex")}=${key("0").toString("hex")}`);
  assert.deepEqual(seen, [expected, expected.toReversed()]);
  const left = reader.range({ prefix: key("k") })[Symbol.iterator]();
  left.next();
  await store.prune(10n);
  assert.throws(() => reader.get(key("k00001")), coded("HEIGHT_UNAVAILABLE"));
  assert.throws(() => shown({ [Symbol.iterator]: () => left }), coded("HEIGHT_UNAVAILABLE"));
});

test("a key with more versions than are stepped over is read at each of them", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const history = Array.from({ length: 60 }, (_, n): StateChange[] => [
    [key("hot"), n % 7 === 3 ? undefined : key(`${n}`)],
    [key(`n${n}`), key("x")],
    [key("hot\0"), key(`${n}`)],
  ]);
  await commitAll(store, history);
  assertEqualStates(store, statesOf(history), [{ prefix: key("h") }, { prefix: key("hot\0"), reverse: true }]);
});

test("records are kept beside the state and are no part of the app hash", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const record = (table: string, name: string, value: string) => ({ table, key: key(name), value: key(value) });
  const plain = store.appHashOf(blockOf(0n, [[key("a"), key("1")]]));
  const records = [record("blocks", "1", "b1"), record("blocks", "2", "b2"), record("block", "s1", "no")];
  assert.deepEqual(await store.commit(blockOf(0n, [[key("a"), key("1")]], records)), plain);
  assert.equal(hex(store.record("blocks", key("2"))), hex(key("b2")));
  assert.equal(store.record("blocks", key("3")), undefined);
  const list = (options: RangeOptions): string[] =>
    [...store.records("blocks", options)].map(([name]) => Buffer.from(name).toString());
  assert.deepEqual(list(all), ["1", "2"]);
  assert.deepEqual(list({ ...all, reverse: true }), ["2", "1"]);
  assert.deepEqual(list({ ...all, from: key("2") }), ["2"]);
  assert.deepEqual(list({ ...all, to: key("2") }), ["1"]);
  await assert.rejects(store.commit(blockOf(1n, [], [record("No", "a", "b")])), coded("CHAIN_STORE"));
});

test("the app hash is the documented one", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const hashes = [
    await store.commit(blockOf(0n, [])),
    await store.commit(blockOf(1n, [[key("a"), key("1")]])),
    await store.commit(blockOf(2n, [[key("b"), key("2")]])),
    await store.commit(
      blockOf(
        3n,
        Array.from({ length: 40 }, (_, i) => [key(`k${i}`), Buffer.of(i)] as const),
      ),
    ),
  ];
  assert.deepEqual(hashes.map(hex), GOLDEN);
});

test("heights follow each other; what is ahead or before is not readable", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  assert.equal(store.latestHeightBlocks(), undefined);
  assert.throws(() => store.at(0n), coded("HEIGHT_UNAVAILABLE"));
  await store.commit(blockOf(5n, []));
  assert.equal(store.earliestHeightBlocks(), 5n);
  await assert.rejects(store.commit(blockOf(5n, [])), coded("CHAIN_STORE"));
  await assert.rejects(store.commit(blockOf(7n, [])), coded("CHAIN_STORE"));
  const twice: StateChange[] = [
    [key("a"), key("1")],
    [key("a"), undefined],
  ];
  await assert.rejects(store.commit(blockOf(6n, twice)), coded("CHAIN_STORE"));
  await assert.rejects(store.commit(blockOf(6n, [[Buffer.alloc(0), key("1")]])), coded("CHAIN_STORE"));
  await assert.rejects(store.commit(blockOf(6n, [[Buffer.alloc(513), key("1")]])), coded("CHAIN_STORE"));
  for (const height of [4n, 6n, -1n, 1n << 64n]) assert.throws(() => store.at(height), coded("HEIGHT_UNAVAILABLE"));
  await assert.rejects(store.prune(6n), coded("HEIGHT_UNAVAILABLE"));
  const [first, second] = await Promise.all([store.commit(blockOf(6n, [])), store.commit(blockOf(7n, []))]);
  assert.deepEqual([first, second], [EMPTY_APP_HASH, EMPTY_APP_HASH]);
});

test("keys of the greatest length, all zeros, and large values", async () => {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: folder.path });
  const zeros = Buffer.alloc(512);
  const large = Buffer.alloc(3_000_000, 7);
  const history: StateChange[][] = [[[zeros, large]], [[zeros, key("x")]], [[zeros, undefined]]];
  await commitAll(store, history);
  assertEqualStates(store, statesOf(history), [{ prefix: zeros }]);
});

test("nodes that stay in memory give the app hash of a store that reads them all, also after a block that was not written", async () => {
  await using folder = await scratchFolder();
  await using other = await scratchFolder();
  const ENTRIES = 4_000;
  const changesOf = (round: number): StateChange[] =>
    Array.from({ length: round === 0 ? ENTRIES : 300 }, (_, i) => {
      const n = (i * 7 + round * 1_009) % ENTRIES;
      return [key(`entry ${n}`), round > 0 && (i + round) % 3 === 0 ? undefined : key(`${round}`)];
    });
  await using open = await openChainStore({ folder: folder.path });
  for (let round = 0; round < 5; round++) {
    open.appHashOf(blockOf(BigInt(round), changesOf(round + 10)));
    const tooLong: StateChange[] = [[new Uint8Array(600), key("x")]];
    await assert.rejects(
      open.commit(blockOf(BigInt(round), [...changesOf(round + 20), ...tooLong])),
      coded("CHAIN_STORE"),
    );
    const block = blockOf(BigInt(round), changesOf(round));
    await using again = await openChainStore({ folder: other.path });
    assert.equal(hex(await open.commit(block)), hex(await again.commit(block)));
  }
  await open.verify();
});
