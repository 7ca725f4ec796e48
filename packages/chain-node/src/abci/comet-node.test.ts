import assert from "node:assert/strict";
import { once } from "node:events";
import { join } from "node:path";
import { suite, test } from "node:test";
import { bytesToBase64, bytesToHex } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { headerHash, resultsHash, rfc3339ToNs, txHash } from "@turnpike/cometbft";
import { bank, decodeMessage } from "@turnpike/proto";
import { eventually } from "@turnpike/testkit";
import { must, scratchFolder } from "@turnpike/testkit/fixtures";
import {
  ADDRESSES,
  balanceQuery,
  CHAIN_ID,
  fromBase64,
  LATER_POWER,
  POWER_CHANGES_AT,
  START,
  sendTx,
  testApp,
} from "../../test/abci/chain.ts";
import { makeHome, type Running, run, startComet, withoutComet } from "../../test/abci/comet.ts";
import { CometRpc } from "./comet-rpc.ts";
import { CometSource } from "./comet-source.ts";

const APP = join(import.meta.dirname, "../../test/abci/app.ts");

/** When our side kills itself: as a block is to be committed, or once the store has it. */
interface Death {
  readonly when: "before" | "after";
  readonly heightBlocks: bigint;
}

async function startApp(folder: string, address: string, death: Death | undefined): Promise<Running> {
  const given = death === undefined ? [] : [death.when, `${death.heightBlocks}`];
  const app = run(process.execPath, [APP, folder, address, ...given]);
  await once(app.lines, "line");
  return app;
}

class Node implements AsyncDisposable {
  readonly app: Running;
  readonly comet: Running;
  readonly rpc: CometRpc;
  readonly source: CometSource;

  constructor(app: Running, comet: Running, url: string) {
    this.app = app;
    this.comet = comet;
    this.rpc = new CometRpc({ url });
    this.source = new CometSource({ rpc: this.rpc });
  }

  static async start(folder: string, death?: Death): Promise<Node> {
    const address = `unix://${join(folder, "abci.sock")}`;
    const app = await startApp(join(folder, "store"), address, death);
    const { running, url } = await startComet(join(folder, "home"), address);
    return new Node(app, running, url);
  }

  /** Waits until a block of this height is there, asking again and again: RPC over HTTP has no events. */
  async reach(heightBlocks: bigint): Promise<void> {
    await eventually(`block ${heightBlocks}`, async () => (await this.source.latestHeightBlocks()) >= heightBlocks);
  }

  async send(tx: Uint8Array): Promise<bigint> {
    const sent = await this.source.submit(tx);
    assert.ok(
      sent.kind === "checked" && sent.result.code === 0,
      JSON.stringify(sent, (_, v) => `${v}`),
    );
    const found = await eventually("the transaction in a block", () => this.source.tx(sent.hash));
    assert.equal(found.result.code, 0, found.result.log);
    return found.heightBlocks;
  }

  async balance(address: string, height?: bigint): Promise<bigint> {
    const { path, data } = balanceQuery(address);
    const params = { path, data: bytesToHex(data), ...(height === undefined ? {} : { height: `${height}` }) };
    const answer = await this.rpc.call("abci_query", params);
    assert.ok(answer.ok);
    const { response } = answer.result as { response: { code: number; value: string } };
    assert.equal(response.code, 0);
    const decoded = decodeMessage(bank.QueryBalanceResponseSchema, fromBase64(response.value));
    assert.ok(decoded.ok);
    return BigInt(must(decoded.message.balance).amount);
  }

  /** The engine's end: it gives up when our side is gone. */
  async ended(): Promise<void> {
    await once(this.comet.process, "exit");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.rpc[Symbol.dispose]();
    await this.comet[Symbol.asyncDispose]();
    await this.app[Symbol.asyncDispose]();
  }
}

suite("under CometBFT", { skip: withoutComet, timeout: 180_000 }, () => {
  test("blocks go on when either side is killed, and replayed they give the same hashes", async () => {
    await using folder = await scratchFolder();
    const genesis = makeHome(join(folder.path, "home"));
    let last = 0n;
    const [from, to] = [must(ADDRESSES[0]), must(ADDRESSES[1])];
    {
      await using node = await Node.start(folder.path);
      await node.reach(2n);
      const height = await node.send(sendTx(0n, 10n));
      await node.reach(height + 1n);
      assert.deepEqual([await node.balance(from), await node.balance(to)], [START - 10n, START + 10n]);
      assert.equal(await node.balance(to, height - 1n), START);
      assert.deepEqual(await node.source.submit(sendTx(0n, 10n)), { kind: "known", hash: txHash(sendTx(0n, 10n)) });
      const outOfOrder = await node.source.submit(sendTx(9n, 10n));
      assert.ok(outOfOrder.kind === "checked");
      assert.deepEqual([outOfOrder.result.code, outOfOrder.result.codespace], [32, "sdk"]);
      last = await node.source.latestHeightBlocks();
    }
    for (const when of ["before", "after"] as const) {
      const death = { when, heightBlocks: last + 4n };
      await using node = await Node.start(folder.path, death);
      await Promise.all([once(node.app.process, "exit"), node.ended()]);
      await using store = await openChainStore({ folder: join(folder.path, "store") });
      last = when === "before" ? death.heightBlocks - 1n : death.heightBlocks;
      assert.equal(store.latestHeightBlocks(), last);
    }
    {
      await using node = await Node.start(folder.path);
      assert.equal(await node.balance(to), START + 10n);
      await node.reach((await node.send(sendTx(1n, 20n, { memo: "second" }))) + 1n);
      // The engine is killed, then our side.
    }
    await using node = await Node.start(folder.path);
    for (const sequence of [2n, 3n, 4n]) await node.send(sendTx(sequence, 1n));
    const latest = (await node.source.latestHeightBlocks()) + 2n;
    await node.reach(latest);
    await replay(node, genesis, latest);
    await readsAll(node, latest);
  });
});

/** The blocks that CometBFT decided, run by the state machine alone. */
async function replay({ source }: Node, genesis: Record<string, unknown>, latest: bigint): Promise<void> {
  await using folder = await scratchFolder();
  await using store = await openChainStore({ folder: join(folder.path, "store") });
  const app = testApp(store);
  const timeNanos = must(rfc3339ToNs(String(genesis.genesis_time)));
  const appState = genesis.appState as Record<string, unknown>;
  const begun = await app.start({ chainId: CHAIN_ID, initialHeightBlocks: 1n, timeNanos, appState });
  let [appHash, lastResults] = [begun.appHash, resultsHash([])];
  for (let height = 1n; height <= latest; height++) {
    const { block, id } = must(await source.block(height));
    assert.equal(bytesToHex(headerHash(block.header)), bytesToHex(id.hash));
    assert.equal(bytesToHex(block.header.appHash), bytesToHex(appHash), `app hash before block ${height}`);
    assert.equal(bytesToHex(block.header.lastResultsHash), bytesToHex(lastResults));
    const { proposerAddress: proposer, timeNs } = block.header;
    const ran = app.run(
      { chainId: CHAIN_ID, heightBlocks: height, timeNanos: timeNs, hash: id.hash, proposer },
      block.txs,
    );
    await app.commit([]);
    const results = must(await source.results(height));
    const { results: txResults, events, validatorUpdates } = ran.outcome;
    const ours = { heightBlocks: height, txResults, events, validatorUpdates, appHash: ran.appHash };
    assert.deepEqual(plain(results), plain(ours));
    appHash = ran.appHash;
    lastResults = resultsHash(ran.outcome.results);
  }
}

// Bytes as hex digits, whatever kind of array holds them.
function plain(value: object): unknown {
  if (value instanceof Uint8Array) return bytesToHex(value);
  if (Array.isArray(value)) return value.map((item) => (typeof item === "object" ? plain(item) : item));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, typeof member === "object" ? plain(member) : member]),
  );
}

async function readsAll({ source, rpc }: Node, latest: bigint): Promise<void> {
  const info = await source.nodeInfo();
  assert.deepEqual([info.network, info.version.slice(0, 5)], [CHAIN_ID, "0.38."]);
  assert.equal(await source.block(latest + 1000n), undefined);
  assert.equal(await source.results(latest + 1000n), undefined);
  assert.equal(await source.validators(latest + 1000n), undefined);
  assert.equal(await source.block(0n), undefined);
  assert.equal(await source.tx(Buffer.alloc(32, 1)), undefined);
  const { validators, proposer } = must(await source.validators(2n));
  assert.deepEqual(validators, [proposer]);
  assert.equal(proposer.votingPower, 10n);
  assert.equal((await source.validators(POWER_CHANGES_AT + 2n))?.proposer.votingPower, LATER_POWER);
  const all = await source.searchTxs(`message.sender='${must(ADDRESSES[0])}'`, { order: "asc", skip: 0, take: 10 });
  assert.equal(all.total, 5);
  const [, second] = all.items;
  const some = await source.searchTxs("tx.height>0", { order: "desc", skip: 3, take: 1 });
  assert.deepEqual([some.items, some.total], [[second], 5]);
  assert.deepEqual(await source.searchTxs("tx.height>0", { order: "asc", skip: 500, take: 5 }), {
    items: [],
    total: 5,
  });
  assert.deepEqual(await source.tx(must(second).hash), second);
  const { sizeBytes, block } = must(await source.block(must(second).heightBlocks));
  assert.equal(bytesToBase64(must(block.txs[0])), bytesToBase64(must(second).bytes));
  const metas = await rpc.call("blockchain", {
    minHeight: `${block.header.height}`,
    maxHeight: `${block.header.height}`,
  });
  assert.ok(metas.ok);
  const [meta] = (metas.result as { block_metas: { block_size: string }[] }).block_metas;
  assert.equal(meta?.block_size, `${sizeBytes}`);
  await assert.rejects(source.searchTxs("nonsense", { order: "asc", skip: 0, take: 1 }), {
    code: "INVALID_PARAMS",
    message: "offset 8: EOF",
  });
}
