import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type BlockRecord, openChainStore } from "@turnpike/chain-store";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { fc } from "@turnpike/testkit/property";
import { groupRecords, pairAt, pairsOfBlock, type StoredPair } from "./tx-groups.ts";
import { placeBytes, TABLES } from "./tx-places.ts";

const bytes = (size: number, fill: number): Uint8Array => new Uint8Array(size).fill(fill);
const plain = (pairs: readonly (StoredPair | undefined)[]): unknown[] =>
  pairs.map((pair) => pair && [Buffer.from(pair.bytes), Buffer.from(pair.result)]);
const isDamaged = { code: "CHAIN_STORE_DAMAGED" };

suite("groups of transactions", () => {
  test("give each transaction at its place, whatever their sizes, and those that earlier versions wrote", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    const size = fc.oneof(fc.nat(2_000), fc.constantFrom(0, 16_383, 16_384, 70_000));
    let heightBlocks = 0n;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(size, size), { maxLength: 60 }), fc.boolean(), async (sizes, isOld) => {
        heightBlocks++;
        const pairs = sizes.map(([a, b], i) => ({ bytes: bytes(a, i), result: bytes(b, i + 1) }));
        const single = (i: number, { bytes: tx, result }: StoredPair): BlockRecord[] => {
          const key = placeBytes({ heightBlocks, index: i });
          return [
            { table: TABLES.txs, key, value: tx },
            { table: TABLES.txResults, key, value: result },
          ];
        };
        await store.writeRecords(
          isOld ? pairs.flatMap((pair, i) => single(i, pair)) : groupRecords(heightBlocks, pairs),
        );
        assert.deepEqual(plain(pairsOfBlock(store, heightBlocks, pairs.length)), plain(pairs));
        const each = pairs.map((_, index) => pairAt(store, { heightBlocks, index }));
        assert.deepEqual(plain(each), plain(pairs));
        assert.equal(pairAt(store, { heightBlocks, index: pairs.length }), undefined);
        assert.throws(() => pairsOfBlock(store, heightBlocks, pairs.length + 1), isDamaged);
      }),
      { numRuns: 30 },
    );
  });

  test("attack: a group that is missing, short or not a group is a damaged store", async () => {
    await using folder = await scratchFolder();
    await using store = await openChainStore({ folder: folder.path });
    await store.commit({ heightBlocks: 0n, changes: [], records: [] });
    const pairs = Array.from({ length: 3 }, (_, i) => ({ bytes: bytes(20_000, i), result: bytes(20_000, i) }));
    const [first, second, third] = groupRecords(1n, pairs);
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    await store.writeRecords([first, third]);
    assert.throws(() => pairsOfBlock(store, 1n, 3), isDamaged);
    const bad = [second.value.subarray(0, -1), bytes(3, 0), bytes(16, 0xff), bytes(5, 0), bytes(9, 1), bytes(0, 0)];
    for (const value of bad) {
      await store.writeRecords([{ ...second, value }]);
      assert.throws(() => pairsOfBlock(store, 1n, 3), isDamaged);
      assert.throws(() => pairAt(store, { heightBlocks: 1n, index: 1 }), isDamaged);
    }
  });
});
