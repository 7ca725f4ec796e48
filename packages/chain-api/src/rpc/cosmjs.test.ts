import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Comet38Client, connectComet, WebsocketClient } from "@cosmjs/tendermint-rpc";
import { bytesToHex, silentLog, systemClock } from "@turnpike/base";
import { sha256, verifyMerkleProof } from "@turnpike/crypto";
import { CHAIN_ID } from "@turnpike/testkit/cometbft";
import { must } from "@turnpike/testkit/fixtures";
import { TestNode, txResult } from "../../test/rpc/node.ts";
import { startRpcServer } from "./rpc-server.ts";

const event = (type: string, key: string, value: string) => ({ type, attributes: [{ key, value, index: true }] });
const node = new TestNode({
  autoBlocks: true,
  checks: (tx) =>
    tx[0] === 0
      ? txResult({ code: 2, codespace: "sdk", log: "tx parse error" })
      : txResult({ gasWanted: 10n, gasUsed: 7n }),
  deliveries: () =>
    txResult({ data: Uint8Array.of(9), gasWanted: 10n, gasUsed: 8n, events: [event("message", "sender", "me")] }),
  query: (path, data, height) => ({
    code: 0,
    codespace: "",
    log: path,
    value: data,
    heightBlocks: height === 0n ? 4n : height,
  }),
});
const txs = [1, 2, 3].map((byte) => ({
  bytes: Uint8Array.of(byte),
  result: txResult({ events: [event("a", "b", "c")] }),
}));
node.produce();
node.produce(txs);
node.produce([], [event("end", "mode", "EndBlock")]);
const server = await startRpcServer(
  { host: "127.0.0.1", port: 0 },
  { node, queries: node.application, log: silentLog, clock: systemClock },
);
after(() => server?.[Symbol.asyncDispose]());
const client = await Comet38Client.connect(server.url);
after(() => client?.disconnect());

describe("unmodified cosmjs", () => {
  it("chooses its client by the version", async () => {
    const chosen = await connectComet(server.url);
    assert.ok(chosen instanceof Comet38Client);
    chosen.disconnect();
  });

  it("reads the node", async () => {
    const status = await client.status();
    assert.equal(status.nodeInfo.network, CHAIN_ID);
    assert.equal(status.nodeInfo.version, "0.38.19");
    assert.deepEqual(status.validatorInfo.pubkey?.data, Uint8Array.from(node.validatorKey));
    assert.equal(status.validatorInfo.votingPower, 1023n);
    assert.equal(await client.health(), null);
    assert.equal((await client.abciInfo()).data, "pocket");
    const genesis = await client.genesis();
    assert.equal(genesis.chainId, CHAIN_ID);
    assert.equal(genesis.consensusParams.block?.maxBytes, 22_020_096);
    const { code, value, height, log } = await client.abciQuery({ path: "/x", data: Uint8Array.of(5, 6), height: 3 });
    assert.deepEqual({ code, value, height, log }, { code: 0, value: Uint8Array.of(5, 6), height: 3, log: "/x" });
  });

  it("reads blocks", async () => {
    const { block, blockId } = await client.block(2);
    assert.equal(block.header.height, 2);
    assert.equal(block.txs.length, 3);
    const results = await client.blockResults(2);
    assert.equal(results.results.length, 3);
    assert.equal((await client.blockResults(3)).finalizeBlockEvents[0]?.attributes[0]?.value, "EndBlock");
    const chain = await client.blockchain(1, 3);
    assert.deepEqual(
      chain.blockMetas.map(({ header }) => header.height),
      [3, 2, 1],
    );
    assert.deepEqual((await client.commit(2)).commit.blockId, blockId);
    assert.equal((await client.validatorsAll(2)).validators[0]?.votingPower, 1023n);
    assert.equal((await client.blockSearch({ query: "block.height=2" })).totalCount, 1);
    assert.equal(
      (await client.blockSearchAll({ query: "block.height>=1" })).blocks.length,
      node.blocks.latestHeightBlocks() > 3n ? Number(node.blocks.latestHeightBlocks()) : 3,
    );
  });

  it("reads a transaction with its proof, and finds it", async () => {
    const hash = sha256(Uint8Array.of(2));
    const { tx, proof, height, index } = await client.tx({ hash, prove: true });
    assert.deepEqual([tx, height, index], [Uint8Array.of(2), 2, 1]);
    const found = must(proof);
    const stored = must(node.blocks.block(2n));
    const { total, index: at, leafHash, aunts } = found.proof;
    assert.ok(verifyMerkleProof(stored.block.header.dataHash, hash, { total, index: at, leafHash, aunts }));
    const searched = await client.txSearch({ query: `tx.hash='${bytesToHex(hash).toUpperCase()}'` });
    assert.equal(searched.totalCount, 1);
    assert.equal((await client.txSearchAll({ query: "a.b='c'", per_page: 2 })).txs.length, 3);
    await assert.rejects(client.tx({ hash: sha256(Uint8Array.of(9)) }), /not found/);
    await assert.rejects(client.txSearch({ query: "nonsense" }), /offset 8: EOF/);
  });

  it("sends transactions", async () => {
    const junk = await client.broadcastTxSync({ tx: Uint8Array.of(0) });
    assert.deepEqual([junk.code, junk.codespace], [2, "sdk"]);
    const sent = await client.broadcastTxCommit({ tx: Uint8Array.of(77) });
    assert.equal(sent.checkTx.code, 0);
    assert.equal(sent.txResult?.gasUsed, 8n);
    assert.deepEqual(sent.hash, Uint8Array.from(sha256(Uint8Array.of(77))));
    assert.equal((await client.numUnconfirmedTxs()).total, 0);
    assert.ok((await client.broadcastTxAsync({ tx: Uint8Array.of(78) })).hash.length === 32);
  });

  it("subscribes over a WebSocket", async () => {
    const transport = new WebsocketClient(server.url.replace("http", "ws"));
    const socket = Comet38Client.create(transport);
    assert.equal((await socket.status()).nodeInfo.network, CHAIN_ID);
    const blocks: number[] = [];
    const headers: number[] = [];
    const { promise: got, resolve } = Promise.withResolvers<Uint8Array>();
    const quiet = { error: () => {}, complete: () => {} };
    const subscriptions = [
      socket.subscribeNewBlock().subscribe({ next: ({ header }) => blocks.push(header.height), ...quiet }),
      socket.subscribeNewBlockHeader().subscribe({ next: ({ height }) => headers.push(height), ...quiet }),
      socket.subscribeTx("message.sender='me'").subscribe({ next: ({ hash }) => resolve(hash), ...quiet }),
    ];
    // A subscription is made when an answer to a later call has come.
    await socket.health();
    const before = Number(node.blocks.latestHeightBlocks());
    await client.broadcastTxSync({ tx: Uint8Array.of(99) });
    assert.deepEqual(await got, Uint8Array.from(sha256(Uint8Array.of(99))));
    await turn();
    assert.deepEqual([blocks.at(-1), headers.at(-1)], [before + 1, before + 1]);
    for (const subscription of subscriptions) subscription.unsubscribe();
    socket.disconnect();
    // cosmjs goes on and connects again after its end.
    const { reconnectTimeout } = (transport as unknown as { socket: { reconnectTimeout: NodeJS.Timeout | null } })
      .socket;
    if (reconnectTimeout !== null) clearTimeout(reconnectTimeout);
  });
});
