import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { EventLoopQueue } from "@turnpike/chain-node";
import { createMessage, decodeMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { testApi } from "../test/chain-api.ts";
import { TestNode, txResult } from "../test/rpc/node.ts";
import { startRpcServer } from "./rpc/rpc-server.ts";
import { ChainApi } from "./services/chain-api.ts";

/** Bytes of one item, more than a turn of the event loop has. */
const ITEM_BYTES = 70_000;
const ITEMS = 8;

/** A queue that counts its steps. */
class CountingQueue extends EventLoopQueue {
  steps = 0;

  override run: EventLoopQueue["run"] = (work, client) => {
    this.steps++;
    return super.run(work, client);
  };
}

/** A node with one block of large transactions, and as many large ones that wait. */
function largeNode(): TestNode {
  const node = new TestNode({ deliveries: () => txResult({ log: "x".repeat(ITEM_BYTES) }) });
  for (let each = 0; each < ITEMS; each++) node.submit(Buffer.alloc(ITEM_BYTES, each + 1));
  node.produce();
  for (let each = 0; each < ITEMS; each++) node.submit(Buffer.alloc(ITEM_BYTES, each + 101));
  return node;
}

suite("attack: large answers are made in steps, and other work runs between", () => {
  const node = largeNode();
  for (const address of [
    'tx_search?query="tx.height=1"&per_page=100',
    'tx_search?query="tx.height=1"&per_page=100&prove=true',
    "block_results?height=1",
    "unconfirmed_txs?limit=100",
  ]) {
    test(`of ${address}`, async () => {
      const queue = new CountingQueue();
      const modules = { node, queries: node.application, log: silentLog, clock: systemClock, queue };
      await using server = await startRpcServer({ host: "127.0.0.1", port: 0 }, modules);
      const answer = await fetch(`${server.url}/${address}`);
      const { result } = (await answer.json()) as { readonly result: Readonly<Record<string, unknown>> };
      const list = result["txs"] ?? result["txs_results"];
      assert.equal(Array.isArray(list) ? list.length : 0, ITEMS);
      assert.ok(queue.steps > ITEMS, `${queue.steps} steps`);
    });
  }

  for (const address of ["blockchain?minHeight=1&maxHeight=4", 'block_search?query="block.height>=1"']) {
    test(`of ${address}`, async () => {
      const blocks = new TestNode();
      for (let height = 1; height <= 4; height++) {
        blocks.submit(Buffer.alloc(ITEM_BYTES, height));
        blocks.produce();
      }
      const queue = new CountingQueue();
      const modules = { node: blocks, queries: blocks.application, log: silentLog, clock: systemClock, queue };
      await using server = await startRpcServer({ host: "127.0.0.1", port: 0 }, modules);
      assert.equal((await fetch(`${server.url}/${address}`)).status, 200);
      assert.ok(queue.steps > 4, `${queue.steps} steps`);
    });
  }

  test("of GetTxsEvent, whose bytes are those of one message", async () => {
    const { application, source, options } = testApi();
    const [first] = source.txs;
    assert.ok(first !== undefined);
    const items = Array.from({ length: ITEMS }, () => ({
      ...first,
      result: { ...first.result, log: "x".repeat(ITEM_BYTES) },
    }));
    source.searchTxs = async () => ({ items, total: ITEMS });
    const queue = new CountingQueue();
    const api = new ChainApi(options, { application, source, log: silentLog, queue });
    const request = createMessage(txs.GetTxsEventRequestSchema, { query: "tx.height=1" });
    const path = "/cosmos.tx.v1beta1.Service/GetTxsEvent";
    const answer = await api.call(path, encodeMessage(txs.GetTxsEventRequestSchema, request), undefined);
    assert.ok(answer.ok);
    assert.ok(queue.steps > ITEMS, `${queue.steps} steps`);
    const decoded = decodeMessage(txs.GetTxsEventResponseSchema, answer.value);
    assert.ok(decoded.ok);
    assert.equal(decoded.message.txs.length, ITEMS);
    assert.equal(decoded.message.txResponses.at(-1)?.rawLog.length, ITEM_BYTES);
    assert.deepEqual(encodeMessage(txs.GetTxsEventResponseSchema, decoded.message), new Uint8Array(answer.value));
  });

  test("unconfirmed_txs shows what fits, and says how many there are", async () => {
    const full = new TestNode();
    for (let each = 0; each < 6; each++) full.submit(Buffer.alloc(1_000_000, each + 1));
    const modules = { node: full, queries: full.application, log: silentLog, clock: systemClock };
    await using server = await startRpcServer({ host: "127.0.0.1", port: 0 }, modules);
    const answer = await fetch(`${server.url}/unconfirmed_txs?limit=100`);
    const { result } = (await answer.json()) as { readonly result: Readonly<Record<string, unknown>> };
    assert.deepEqual([result["n_txs"], result["total"], (result["txs"] as unknown[]).length], ["4", "6", 4]);
  });
});
