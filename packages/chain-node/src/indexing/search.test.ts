import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isAppError } from "@turnpike/base";
import type { ChainEvent } from "@turnpike/chain";
import { type ChainStore, openChainStore } from "@turnpike/chain-store";
import { EMPTY_COMMIT, ZERO_BLOCK_ID } from "@turnpike/cometbft";
import { fc } from "@turnpike/testkit/property";
import { EventLoopQueue } from "../event-loop-queue.ts";
import type { BlockResults, StoredBlock, StoredTx } from "../types.ts";
import { indexRecords } from "./records.ts";
import { type SearchReads, searchBlocks, searchTxs } from "./search.ts";

const EMPTY = new Uint8Array(0);
const ALL = { order: "asc", skip: 0, take: 1000 } as const;
const LONG = `long ${"é".repeat(400)} text`;

interface Made {
  readonly txs: readonly StoredTx[];
  readonly blocks: readonly StoredBlock[];
  readonly results: readonly BlockResults[];
}

function made(
  blocks: readonly { readonly events: readonly ChainEvent[]; readonly txs: readonly (readonly ChainEvent[])[] }[],
): Made {
  const txs = blocks.map(({ txs: all }, n) =>
    all.map((events, index): StoredTx => {
      const bytes = Buffer.from(`tx ${n} ${index}`);
      const result = { code: 0, codespace: "", log: "", data: EMPTY, gasWanted: 0n, gasUsed: 0n, events };
      const hash = createHash("sha256").update(bytes).digest();
      return { hash, heightBlocks: BigInt(n + 1), index, bytes, result };
    }),
  );
  return {
    txs: txs.flat(),
    blocks: blocks.map((_, n) => ({
      id: ZERO_BLOCK_ID,
      sizeBytes: 1,
      block: {
        header: {
          version: { block: 11n, app: 0n },
          chainId: "c",
          height: BigInt(n + 1),
          timeNs: 0n,
          lastBlockId: ZERO_BLOCK_ID,
          lastCommitHash: EMPTY,
          dataHash: EMPTY,
          validatorsHash: EMPTY,
          nextValidatorsHash: EMPTY,
          consensusHash: EMPTY,
          appHash: EMPTY,
          lastResultsHash: EMPTY,
          evidenceHash: EMPTY,
          proposerAddress: EMPTY,
        },
        txs: (txs[n] ?? []).map(({ bytes }) => bytes),
        evidence: [],
        lastCommit: EMPTY_COMMIT,
      },
    })),
    results: blocks.map(({ events }, n) => ({
      heightBlocks: BigInt(n + 1),
      txResults: (txs[n] ?? []).map(({ result }) => result),
      events,
      validatorUpdates: [],
      appHash: EMPTY,
    })),
  };
}

function readsOf({ txs, blocks, results }: Made): SearchReads {
  const byHash = new Map(txs.map((tx) => [Buffer.from(tx.hash).toString("hex"), tx]));
  return {
    latestHeightBlocks: () => BigInt(blocks.length),
    tx: (hash) => byHash.get(Buffer.from(hash).toString("hex")),
    block: (heightBlocks) => blocks[Number(heightBlocks) - 1],
    results: (heightBlocks) => results[Number(heightBlocks) - 1],
  };
}

async function withIndex<T>(all: Made, use: (store: ChainStore, reads: SearchReads) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "chain-index-"));
  try {
    await using store = await openChainStore({ folder: join(folder, "store") });
    for (const [n, block] of all.blocks.entries()) {
      const results = all.results[n];
      assert.ok(results);
      await store.commit({ heightBlocks: BigInt(n + 1), changes: [], records: indexRecords(block, results) });
    }
    return await use(store, readsOf(all));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

// The model: plain conditions and a plain test of each, no parser and no index.
interface Cond {
  readonly text: string;
  readonly height?: (height: number) => boolean;
  readonly key?: string;
  readonly fits?: (value: string) => boolean;
}
const OPS = new Map<string, (a: number, b: number) => boolean>([
  ["<", (a, b) => a < b],
  ["<=", (a, b) => a <= b],
  [">", (a, b) => a > b],
  [">=", (a, b) => a >= b],
]);
const keys = ["a.x", "a.y", "b.x"];
const values = ["1", "5", "10", "2.5", "one", "", "a\u0000b", "a", LONG];
const someKey = fc.constantFrom(...keys);
const someCond: fc.Arbitrary<Cond> = fc.oneof(
  fc.tuple(someKey, fc.constantFrom("1", "one", "a", "", "none")).map(([key, value]) => ({
    text: `${key}='${value}'`,
    key,
    fits: (own: string) => own === value,
  })),
  fc.constant({ text: `a.x='${LONG.slice(0, 200)}'`, key: "a.x", fits: () => false }),
  fc.tuple(someKey, fc.constantFrom("1", "5")).map(([key, value]) => ({
    text: `${key}=${value}`,
    key,
    fits: (own: string) => own === value,
  })),
  someKey.map((key) => ({ text: `${key} EXISTS`, key, fits: () => true })),
  fc.tuple(someKey, fc.constantFrom("n", "é text", "1", "")).map(([key, value]) => ({
    text: `${key} CONTAINS '${value}'`,
    key,
    fits: (own: string) => own.includes(value),
  })),
  fc.tuple(someKey, fc.constantFrom(...OPS), fc.constantFrom(1, 2.5, 7)).map(([key, [op, test], n]) => ({
    text: `${key}${op}${n}`,
    key,
    fits: (own: string) => /^[\d.]+$/.test(own) && test(Number(own), n),
  })),
  fc
    .tuple(fc.constantFrom(...OPS, ["=", (a: number, b: number) => a === b] as const), fc.constantFrom(0, 1, 2, 2.5, 4))
    .map(([[op, test], n]) => ({ text: `HEIGHT${op}${n}`, height: (height: number) => test(height, n) })),
);
const someEvents = fc.array(
  fc.record({
    type: fc.constantFrom("a", "b"),
    attributes: fc.array(
      fc.record({
        key: fc.constantFrom("x", "y"),
        value: fc.constantFrom(...values),
        index: fc.constantFrom(true, true, true, false),
      }),
      { maxLength: 3 },
    ),
  }),
  { maxLength: 3 },
);
const someBlocks = fc.array(fc.record({ events: someEvents, txs: fc.array(someEvents, { maxLength: 4 }) }), {
  minLength: 1,
  maxLength: 5,
});

function fits(conds: readonly Cond[], heightBlocks: bigint, events: readonly ChainEvent[]): boolean {
  const own = conds.filter(({ key }) => key !== undefined);
  // Ranges and texts of one key are met by one and the same value.
  const groups = new Map<string, Cond[]>();
  for (const cond of own) {
    const single = /( EXISTS$|^[a-z.]*=)/.test(cond.text);
    const name = single ? cond.text : (cond.key ?? "");
    groups.set(name, [...(groups.get(name) ?? []), cond]);
  }
  return (
    conds.every(({ height }) => height === undefined || height(Number(heightBlocks))) &&
    (own.length === 0 ||
      events.some(({ type, attributes }) =>
        [...groups.values()].every((group) =>
          attributes.some(
            ({ key, value, index }) =>
              index && group.every((cond) => `${type}.${key}` === cond.key && cond.fits?.(value)),
          ),
        ),
      ))
  );
}

test("searches answer as going through everything does", async () => {
  const some = fc.tuple(
    someBlocks,
    fc.array(fc.array(someCond, { minLength: 1, maxLength: 4 }), { minLength: 12, maxLength: 12 }),
    fc.nat(4),
    fc.nat(4),
  );
  await fc.assert(
    fc.asyncProperty(some, async ([history, queries, skip, take]) => {
      const all = made(history);
      await withIndex(all, async (store, reads) => {
        for (const conds of queries) {
          const text = (key: string): string => conds.map((cond) => cond.text.replace("HEIGHT", key)).join(" AND ");
          if (Buffer.byteLength(text("block.height")) > 512) continue;
          const txs = all.txs.filter((tx) => fits(conds, tx.heightBlocks, tx.result.events));
          const found = await searchTxs(store, reads, text("tx.height"), ALL);
          assert.deepEqual(found.items, txs, text("tx.height"));
          assert.equal(found.total, txs.length);
          const down = await searchTxs(store, reads, text("tx.height"), { order: "desc", skip, take });
          assert.deepEqual(down.items, txs.toReversed().slice(skip, skip + take));
          assert.equal(down.total, txs.length);
          const blocks = all.blocks.filter((block, n) =>
            fits(conds, block.block.header.height, all.results[n]?.events ?? []),
          );
          const foundBlocks = await searchBlocks(store, reads, text("block.height"), ALL);
          assert.deepEqual(foundBlocks.items, blocks, text("block.height"));
        }
      });
    }),
    { numRuns: 40 },
  );
});

const event = (type: string, key: string, value: string): ChainEvent => ({
  type,
  attributes: [{ key, value, index: true }],
});

test("a hash finds its transaction, in either case of its digits, and other conditions stay conditions", async () => {
  const all = made([{ events: [], txs: [[event("a", "x", "1")], []] }]);
  await withIndex(all, async (store, reads) => {
    const [tx] = all.txs;
    const hash = Buffer.from(tx?.hash ?? EMPTY).toString("hex");
    const total = async (query: string): Promise<number> => (await searchTxs(store, reads, query, ALL)).total;
    assert.deepEqual(await searchTxs(store, reads, `tx.hash='${hash}'`, ALL), { items: [tx], total: 1 });
    assert.equal(await total(`tx.hash='${hash.toUpperCase()}' AND tx.height=1 AND a.x='1'`), 1);
    assert.equal(await total(`tx.hash='${hash}' AND tx.height>1`), 0);
    assert.equal(await total(`tx.hash='${hash}' AND a.x='2'`), 0);
    assert.equal(await total(`tx.hash='${"00".repeat(32)}'`), 0);
    assert.equal(await total("tx.height='1'"), 2);
    for (const query of ["tx.hash='nothex'", "tx.hash EXISTS", "nonsense", ""]) {
      await assert.rejects(total(query), (error) => isAppError(error, "INVALID_PARAMS"), query);
    }
    assert.equal(await total("tx.height>99999999999999999999999999"), 0);
    assert.equal(await total("tx.height<99999999999999999999999999"), 2);
  });
});

test("the longest keys fit into a record, whatever their bytes", async () => {
  const texts = [
    "\u0000".repeat(96),
    "\u0000".repeat(97),
    "\u0000".repeat(144),
    "\u0000".repeat(145),
    "x".repeat(100_000),
  ];
  const events = texts.flatMap((type) => texts.map((value) => event(type.slice(0, -2), "x", value)));
  await withIndex(made([{ events, txs: [events] }]), async (store, reads) => {
    assert.equal((await searchTxs(store, reads, `${"x".repeat(300)}.x EXISTS`, ALL)).total, 0);
    assert.equal((await searchTxs(store, reads, "tx.height=1", ALL)).total, 1);
  });
});

test("a search that would look at too much is refused", async () => {
  const txs = Array.from({ length: 30 }, () => [event("a", "x", "1")]);
  await withIndex(made([{ events: [], txs }]), async (store, reads) => {
    const tooMuch = (error: unknown): boolean => isAppError(error, "INVALID_PARAMS") && /too much/.test(error.message);
    const search = async (query: string, places: number, count: number): Promise<number> =>
      (await searchTxs(store, reads, query, ALL, { limits: { places, reads: count } })).total;
    await assert.rejects(search("a.x EXISTS", 20, 100), tooMuch);
    await assert.rejects(search("a.x EXISTS AND a.x CONTAINS '1'", 1000, 20), tooMuch);
    assert.equal(await search("a.x EXISTS AND a.x CONTAINS '1'", 1000, 30), 30);
  });
});

test("a long search lets others have their turn, one search at a time", async () => {
  const txs = [Array.from({ length: 2_500 }, (_, i) => event("a", "x", `value ${i}`))];
  await withIndex(made([{ events: [], txs }]), async (store, reads) => {
    const queue = new EventLoopQueue();
    let going = 0;
    const search = async (): Promise<number> => {
      going++;
      const { total } = await searchTxs(store, reads, "a.x CONTAINS 'e 2499'", ALL, { queue });
      going--;
      return total;
    };
    const totals = Promise.all([search(), search(), search()]);
    let others = 0;
    for (; going > 0; others++) await nextTurn();
    assert.deepEqual(await totals, [1, 1, 1]);
    assert.ok(others >= 6, `${others}`);
  });
});

/** Transactions of one block with an event of this many bytes each. */
const largePage = (count: number, bytes: number): Made =>
  made([
    {
      events: [],
      txs: Array.from({ length: count }, () => [
        { type: "a", attributes: [{ key: "x", value: "v".repeat(bytes), index: false }] },
      ]),
    },
  ]);

test("attack: a large page is read in steps, and other work runs between", async () => {
  await withIndex(largePage(8, 70_000), async (store, reads) => {
    const steps: number[] = [];
    let turn = 0;
    let isRunning = true;
    const counting = (async () => {
      while (isRunning) {
        await nextTurn();
        turn++;
      }
    })();
    const tx: SearchReads["tx"] = (hash) => {
      steps.push(turn);
      return reads.tx(hash);
    };
    const { items } = await searchTxs(store, { ...reads, tx }, "tx.height=1", ALL);
    isRunning = false;
    await counting;
    assert.equal(items.length, 8);
    assert.equal(new Set(steps).size, 8, `read in steps ${steps.join()}`);
  });
});

test("a page of more than its bytes is refused with what to do, and one item is always read", async () => {
  await withIndex(largePage(3, 70_000), async (store, reads) => {
    const search = (take: number, maxPageBytes: number): Promise<unknown> =>
      searchTxs(store, reads, "tx.height=1", { order: "asc", skip: 0, take }, { maxPageBytes });
    await assert.rejects(search(3, 150_000), { message: /larger than 150000 bytes: request fewer items per page/ });
    await search(2, 150_000);
    await search(1, 1_000);
    const blocks = (take: number): Promise<unknown> =>
      searchBlocks(store, reads, "block.height>=1", { order: "asc", skip: 0, take }, { maxPageBytes: 0 });
    await blocks(1);
  });
});
