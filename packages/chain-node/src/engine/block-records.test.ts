import assert from "node:assert/strict";
import { join } from "node:path";
import { suite, test } from "node:test";
import { type ChainEvent, eventMessages, MAX_RESULTS_BYTES, type TxResult } from "@turnpike/chain";
import { type BlockRecord, type ChainStore, heightToBytes, openChainStore } from "@turnpike/chain-store";
import { EMPTY_COMMIT, txHash } from "@turnpike/cometbft";
import { cometAbci, createMessage, encodeMessage } from "@turnpike/proto";
import { openTestNode, sendTx } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { must } from "../../test/engine/verify.ts";
import { resultFields } from "../abci/convert.ts";
import { blockRecords } from "./block-records.ts";
import { decodeOutline, decodeTxResult } from "./result-codec.ts";
import { pairsOfBlock } from "./tx-groups.ts";
import { readPlace, TABLES } from "./tx-places.ts";

/** CometBFT 0.38, `abci/types/messages.go`, `maxMsgSize`: a longer answer ends the node. */
const COMETBFT_MAX_MESSAGE_BYTES = 104_857_600;

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

  test("attack: a block whose results are at all maximums is written and read, and is an answer that CometBFT accepts", async () => {
    await using folder = await scratchFolder();
    await using node = await openTestNode({ folder: folder.path });
    const stored = await node.produceBlock();
    const eventOf = (bytes: number): ChainEvent => ({
      type: "large",
      attributes: [{ key: "value", value: "x".repeat(bytes), index: true }],
    });
    const eventsOf = (bytes: number): ChainEvent[] => Array.from({ length: bytes / 2_048 }, () => eventOf(2_048));
    const txs = Array.from({ length: 64 }, (_, i) => Uint8Array.of(i));
    const events = eventsOf(MAX_RESULTS_BYTES / 2);
    const txEvents = eventsOf(MAX_RESULTS_BYTES / 2 / txs.length);
    const txResults = txs.map((): TxResult => {
      const data = new Uint8Array(0);
      return { code: 0, codespace: "", log: "", data, gasWanted: 0n, gasUsed: 0n, events: txEvents };
    });
    const block = { ...stored.block, header: { ...stored.block.header, height: 1n }, txs };
    const results = { heightBlocks: 1n, txResults, events, validatorUpdates: [], appHash: new Uint8Array(32) };
    const emptyStore = { record: () => undefined, records: () => [] };
    const written = { stored: { ...stored, block }, results, commit: EMPTY_COMMIT, validators: new Map() };
    await using store = await openChainStore({ folder: join(folder.path, "other") });
    await store.commit({ heightBlocks: 1n, changes: [], records: blockRecords(emptyStore, written) });
    const outline = decodeOutline(1n, must(store.record(TABLES.results, heightToBytes(1n))));
    assert.equal(outline.events.length, events.length);
    const pairs = pairsOfBlock(store, 1n, txs.length);
    assert.equal(decodeTxResult(must(pairs[63]).result).events.length, txEvents.length);
    const answer = createMessage(cometAbci.ResponseFinalizeBlockSchema, {
      events: eventMessages(events),
      txResults: txResults.map((result) => createMessage(cometAbci.ExecTxResultSchema, resultFields(result))),
      appHash: results.appHash,
    });
    const { length } = encodeMessage(cometAbci.ResponseFinalizeBlockSchema, answer);
    assert.ok(length > MAX_RESULTS_BYTES && length < COMETBFT_MAX_MESSAGE_BYTES, `${length} bytes`);
  });
});
