import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { cometAbci, createMessage } from "@turnpike/proto";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { AbciClient } from "../../test/abci/client.ts";
import { GENESIS, openNode, startNode, type TestNode } from "../../test/snapshots/snapshots.ts";
import { makeSnapshot } from "../snapshots/make-snapshot.ts";
import { startAbciServer } from "./server.ts";

const { ResponseOfferSnapshot_Result: Offer, ResponseApplySnapshotChunk_Result: Apply } = cometAbci;
const list = createMessage(cometAbci.RequestListSnapshotsSchema);
const load = (height: bigint, chunk: number) =>
  createMessage(cometAbci.RequestLoadSnapshotChunkSchema, { height, format: 1, chunk });
const apply = (index: number, chunk: Uint8Array, sender: string) =>
  createMessage(cometAbci.RequestApplySnapshotChunkSchema, { index, chunk, sender });
const offerOf = (snapshot: cometAbci.Snapshot | undefined, appHash: Uint8Array) =>
  createMessage(cometAbci.RequestOfferSnapshotSchema, { appHash, ...(snapshot === undefined ? {} : { snapshot }) });
const initChain = createMessage(cometAbci.RequestInitChainSchema, {
  chainId: GENESIS.chainId,
  time: { seconds: GENESIS.timeNanos / 1_000_000_000n },
  initialHeight: GENESIS.initialHeightBlocks,
  appStateBytes: Buffer.from(JSON.stringify(GENESIS.appState)),
});

async function serve(node: TestNode, withSync: boolean) {
  const { application, folder, restorer } = node;
  const sync = withSync ? { sync: { folder, restorer } } : {};
  const server = await startAbciServer(
    { address: "tcp://127.0.0.1:0" },
    { application, queries: application, log: silentLog, ...sync },
  );
  const client = new AbciClient(server.address);
  return {
    client,
    another: () => new AbciClient(server.address),
    async [Symbol.asyncDispose]() {
      client.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

test("a snapshot goes from one node to another over ABCI, and no InitChain is answered over its state", async () => {
  await using scratch = await scratchFolder();
  await using from = await startNode(join(scratch.path, "from"), 3);
  await using to = await openNode(join(scratch.path, "to"));
  const { appHash } = await makeSnapshot({ heightBlocks: 3n, chunkBytes: 300 }, from);
  await using giving = await serve(from, true);
  await using taking = await serve(to, true);
  const { snapshots } = await giving.client.ask("listSnapshots", list);
  const [snapshot] = snapshots;
  assert.ok(snapshot !== undefined && snapshots.length === 1 && snapshot.chunks > 2);
  const none = await giving.client.ask("loadSnapshotChunk", load(3n, snapshot.chunks));
  assert.equal(none.chunk.length, 0);
  const { result } = await taking.client.ask("offerSnapshot", offerOf(snapshot, appHash));
  assert.equal(result, Offer.ACCEPT);
  const bad = await taking.client.ask("applySnapshotChunk", apply(0, Buffer.from("bad"), "hostile"));
  assert.deepEqual([bad.result, bad.refetchChunks, bad.rejectSenders], [Apply.RETRY, [0], ["hostile"]]);
  for (let index = 0; index < snapshot.chunks; index++) {
    const { chunk } = await giving.client.ask("loadSnapshotChunk", load(3n, index));
    const applied = await taking.client.ask("applySnapshotChunk", apply(index, chunk, "peer"));
    assert.deepEqual([applied.result, applied.refetchChunks, applied.rejectSenders], [Apply.ACCEPT, [], []]);
  }
  const info = await taking.client.ask("info", createMessage(cometAbci.RequestInfoSchema));
  assert.equal(info.lastBlockHeight, 3n);
  assert.deepEqual(Buffer.from(info.lastBlockAppHash), Buffer.from(appHash));
  const beginning = taking.another();
  beginning.send({ case: "initChain", value: initChain });
  const answer = await beginning.answer();
  assert.ok(answer?.case === "exception" && answer.value.error.includes("snapshot"), `${answer?.case}`);
  beginning.close();
  // Where the chain began, it is answered as ever.
  assert.ok((await giving.client.ask("initChain", initChain)).appHash.length > 0);
});

test("no request of state sync is an exception, whatever is wrong", async () => {
  await using scratch = await scratchFolder();
  await using node = await startNode(join(scratch.path, "node"), 1);
  for (const withSync of [false, true]) {
    await using served = await serve(node, withSync);
    const { client } = served;
    if (withSync) {
      const fails = () => Promise.reject(new TypeError("as told"));
      Object.assign(node.folder, { list: fails, load: fails });
    }
    assert.deepEqual((await client.ask("listSnapshots", list)).snapshots, []);
    assert.equal((await client.ask("loadSnapshotChunk", load(1n, 0))).chunk.length, 0);
    const { result: offered } = await client.ask("offerSnapshot", offerOf(undefined, Buffer.alloc(32)));
    assert.equal(offered, Offer.REJECT);
    const { result: applied } = await client.ask("applySnapshotChunk", apply(0, Buffer.alloc(9), "peer"));
    assert.equal(applied, Apply.ABORT);
  }
});
