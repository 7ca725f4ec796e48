import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { TxResult } from "@turnpike/chain";
import type { BlockRecord, ChainStore } from "@turnpike/chain-store";
import { EMPTY_COMMIT, txHash } from "@turnpike/cometbft";
import { openTestNode, sendTx } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { must } from "../../test/engine/verify.ts";
import { blockRecords } from "./block-records.ts";
import { readPlace, TABLES } from "./tx-places.ts";

suite("records of blocks", () => {
  test("a transaction that fails later does not hide the one that succeeded; one that succeeds replaces", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    const tx = sendTx({ from: 0, sequence: 0n });
    node.submit(tx);
    const stored = await node.produceBlock();
    const results = must(node.blocks.results(1n));
    const kept = new Map<string, Uint8Array>();
    const nameOf = (table: string, key: Uint8Array): string => `${table} ${Buffer.from(key).toString("hex")}`;
    const store: Pick<ChainStore, "record" | "records"> = {
      record: (table, key) => kept.get(nameOf(table, key)),
      // One transaction a block: its group has its own place for a key.
      records: (table, { prefix }) => {
        const key = Buffer.concat([prefix, Buffer.alloc(4)]);
        const value = kept.get(nameOf(table, key));
        return value === undefined ? [] : [[key, value]];
      },
    };
    const write = (heightBlocks: bigint, code: number): bigint => {
      const { block } = stored;
      const at = { ...stored, block: { ...block, header: { ...block.header, height: heightBlocks } } };
      const result: TxResult = { ...must(results.txResults[0]), code };
      const written = { stored: at, results: { ...results, txResults: [result] }, commit: EMPTY_COMMIT };
      const records: BlockRecord[] = blockRecords(store, { ...written, validators: new Map() });
      for (const { table, key, value } of records) kept.set(nameOf(table, key), value);
      return readPlace(must(kept.get(nameOf(TABLES.places, txHash(tx))))).heightBlocks;
    };
    assert.equal(write(1n, 5), 1n);
    assert.equal(write(2n, 7), 2n);
    assert.equal(write(3n, 0), 3n);
    assert.equal(write(4n, 5), 3n);
    assert.equal(write(5n, 0), 5n);
  });
});
