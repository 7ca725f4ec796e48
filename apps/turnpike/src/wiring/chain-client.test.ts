import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { isAppError, systemClock } from "@turnpike/base";
import {
  AccountSender,
  type BlockMark,
  ChainClient,
  type ChainSigner,
  type IncludedTx,
  subscribeBlocks,
} from "@turnpike/chain-client";
import { type Any, bank, createMessage, packAny } from "@turnpike/proto";
import { startFakeRpc, statusAt } from "@turnpike/testkit";
import { startTestChain, type TestChain } from "../../test/chain-part.ts";
import { findKey, firstAnswering, keysFolderOf, nodeUrl } from "./chain-client.ts";

let chain: TestChain;
let client: ChainClient;
before(async () => {
  chain = await startTestChain();
  client = new ChainClient({ url: chain.url }, { clock: systemClock });
});
after(async () => {
  await client?.[Symbol.asyncDispose]();
  await chain?.[Symbol.asyncDispose]();
});

async function signerOf(name: string): Promise<ChainSigner> {
  const { signer } = await findKey(name, { home: chain.home });
  assert.ok(signer);
  return signer;
}

const payment = (from: string, amount: string): Any =>
  packAny(
    bank.MsgSendSchema,
    createMessage(bank.MsgSendSchema, {
      fromAddress: from,
      toAddress: "pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t",
      amount: [{ denom: "upokt", amount }],
    }),
  );

/** The next blocks of a subscription. */
async function take(blocks: AsyncIterator<BlockMark>, count: number): Promise<BlockMark[]> {
  const taken: BlockMark[] = [];
  while (taken.length < count) {
    const { value, done } = await blocks.next();
    assert.notEqual(done, true, "the subscription ended");
    taken.push(value as BlockMark);
  }
  return taken;
}

test("every block comes once and in order, over a restart of the server and behind it", async () => {
  const ending = new AbortController();
  const { signal } = ending;
  const blocks = subscribeBlocks({ url: chain.url, fromHeightBlocks: 1n, signal, retryMs: 10 }, {});
  const seen = await take(blocks, 2);
  await chain.produce(3);
  seen.push(...(await take(blocks, 3)));
  // More than a page, while nobody listens.
  await chain.restartRpc(() => chain.produce(45));
  await chain.produce(2);
  seen.push(...(await take(blocks, 47)));
  const waiting = blocks.next();
  await chain.produce();
  seen.push((await waiting).value as BlockMark);
  assert.deepEqual(
    seen.map(({ heightBlocks }) => heightBlocks),
    seen.map((_, at) => BigInt(at + 1)),
  );
  for (const { heightBlocks, hash, timeNanos } of [seen[0], seen[20], seen.at(-1)].filter((one) => one !== undefined)) {
    const answer = await client.call("block", { height: `${heightBlocks}` });
    assert.ok(answer.ok);
    const { block_id: id, block } = answer.result as {
      block_id: { hash: string };
      block: { header: { time: string } };
    };
    assert.equal(hash, id.hash);
    assert.equal(timeNanos / 1_000_000n, BigInt(Date.parse(block.header.time)));
  }
  ending.abort();
  assert.equal((await blocks.next()).done, true);
});

test("without a first height it begins with the newest block, and its end leaves nothing open", async () => {
  const { latestHeightBlocks } = await client.status();
  const blocks = subscribeBlocks({ url: chain.url }, {});
  assert.equal((await take(blocks, 1))[0]?.heightBlocks, latestHeightBlocks);
  const seen: bigint[] = [];
  await chain.produce(2);
  for await (const { heightBlocks } of blocks) {
    seen.push(heightBlocks - latestHeightBlocks);
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, [1n, 2n]);
  const ended = subscribeBlocks({ url: "http://127.0.0.1:1", signal: AbortSignal.abort() }, {});
  assert.equal((await ended.next()).done, true);
  const stopping = new AbortController();
  const never = subscribeBlocks({ url: "http://127.0.0.1:1", signal: stopping.signal, retryMs: 5 }, {}).next();
  stopping.abort();
  assert.equal((await never).done, true);
});

test("a node that dropped a block, and one whose blocks do not follow, are faults", async () => {
  const { WebSocketServer } = await import("ws");
  const header = (height: number, before: string) => ({
    block_id: { hash: `HASH${height}` },
    header: { height: `${height}`, time: "2026-11-21T14:49:03.5Z", last_block_id: { hash: before } },
  });
  let metas: unknown[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => {
      text += String(part);
    });
    request.on("end", () => {
      const { id, method } = JSON.parse(text) as { id: number; method: string };
      const result = method === "abci_info" ? { response: { last_block_height: "9" } } : { block_metas: metas };
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.on("message", () => socket.send('{"jsonrpc":"2.0","id":1,"result":{}}'));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    metas = [header(8, "HASH7"), header(7, "HASH6")];
    await assert.rejects(
      take(subscribeBlocks({ url, fromHeightBlocks: 5n }, {}), 1),
      (error: Error) => isAppError(error, "HEIGHT_UNAVAILABLE") && /no block 5 any more.* is 7/.test(error.message),
    );
    metas = [header(8, "OTHER"), header(7, "HASH6")];
    const blocks = subscribeBlocks({ url, fromHeightBlocks: 7n }, {});
    assert.equal((await take(blocks, 1))[0]?.timeNanos, 1_795_272_543_500_000_000n);
    await assert.rejects(take(blocks, 1), (error: Error) => isAppError(error, "CHAIN_MISMATCH"));
  } finally {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("an account's transactions follow each other before the next block, and find back after others of it", async () => {
  const signer = await signerOf("gateway-1");
  const sender = new AccountSender({ signer }, { client });
  const options = { timeoutMs: 30_000, gasLimit: 90_000n };
  const send = (amount: string): Promise<IncludedTx> => sender.send([payment(signer.address, amount)], options);
  const account = await client.account(signer.address);
  const first = await chain.during(Promise.all([send("1"), send("2"), send("3")]));
  assert.deepEqual(
    first.map(({ code }) => code),
    [0, 0, 0],
  );
  assert.equal((await client.account(signer.address))?.sequence, (account?.sequence ?? 0n) + 3n);
  // Another program sends for the same account, twice: one is in a block, one still waits.
  const other = async (): Promise<void> => {
    const sent = await client.broadcast(await client.sign(signer, [payment(signer.address, "4")]));
    assert.equal(sent.code, 0, sent.log);
  };
  await other();
  await chain.produce();
  await other();
  const later = await chain.during(
    Promise.all([send("5"), sender.send([payment(signer.address, "6")], { timeoutMs: 30_000 })]),
  );
  assert.deepEqual(
    later.map(({ code }) => code),
    [0, 0],
  );
  assert.equal((await client.account(signer.address))?.sequence, (account?.sequence ?? 0n) + 7n);
  // What is refused takes no sequence.
  const tooMuch = "99999999999999999";
  await assert.rejects(sender.send([payment(signer.address, tooMuch)], { timeoutMs: 30_000 }), (error: Error) =>
    isAppError(error, "TX_FAILED"),
  );
  assert.equal((await chain.during(send("7"))).code, 0);
});

test("unordered transactions end with the time of blocks, not of this machine", async () => {
  const signer = await signerOf("application-1");
  const { latestTimeNanos } = await client.status();
  const after = async (timeoutMs?: number): Promise<bigint> => {
    const { timeoutNanos } = await client.unordered(timeoutMs);
    return (timeoutNanos - latestTimeNanos) / 1_000_000_000n;
  };
  assert.ok([120n, 121n].includes(await after()));
  assert.ok([590n, 591n].includes(await after(3_600_000)));
  const send = async (amount: string): Promise<IncludedTx> =>
    client.send(signer, [payment(signer.address, amount)], { order: await client.unordered(), timeoutMs: 30_000 });
  const [one, two] = await chain.during(Promise.all([send("1"), send("2")]));
  assert.deepEqual([one?.code, two?.code], [0, 0]);
  assert.equal((await client.account(signer.address))?.sequence, 0n);
});

test("keys are found by name and address; a name cannot leave the folder", async () => {
  const flags = { home: chain.home };
  const { address } = await findKey("faucet", flags);
  assert.equal((await findKey(address, flags)).name, "faucet");
  for (const name of ["../config/node_key", join(chain.home, "keys/faucet"), ""]) {
    await assert.rejects(findKey(name, flags), (error: Error) => isAppError(error, "USAGE"));
  }
});

test("node and keys are those that are named, else of the turnpike up that runs here, else the usual ones", async () => {
  const folder = join(chain.home, "project");
  mkdirSync(join(folder, ".turnpike"), { recursive: true, mode: 0o700 });
  mkdirSync(join(folder, "inner"));
  const inner = join(folder, "inner");
  assert.equal(await nodeUrl({}, inner), "http://127.0.0.1:26657");
  assert.equal(keysFolderOf({ home: "/somewhere" }, inner), "/somewhere/keys");
  const address = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
  const up = {
    gateway: "http://127.0.0.1:1",
    settlement: { rpc: "http://127.0.0.1:2", network: "eip155:84532", asset: address, payTo: address },
    buyer: { address, privateKey: "k" },
    chain: { rpc: "http://127.0.0.1:3" },
  };
  writeFileSync(join(folder, ".turnpike", "up.json"), JSON.stringify(up), { mode: 0o600 });
  assert.equal(await nodeUrl({}, inner), "http://127.0.0.1:3");
  assert.equal(await nodeUrl({ node: "tcp://127.0.0.1:4" }, inner), "tcp://127.0.0.1:4");
  assert.equal(keysFolderOf({}, inner), join(folder, ".turnpike", "keys"));
  // A key that was there before the folder was unpacked or cloned: its coins go to no name of a stranger.
  const keyFile = "/home/me/me.json";
  assert.equal(keysFolderOf({ keyFile }, inner), keysFolderOf({ keyFile }, "/"));
  assert.equal(await nodeUrl({ keyFile }, inner), "http://127.0.0.1:26657");
  const own = { keyFile: join(folder, ".turnpike/keys/faucet.json") };
  assert.equal(keysFolderOf(own, inner), join(folder, ".turnpike", "keys"));
  assert.equal(await nodeUrl(own, inner), "http://127.0.0.1:3");
});

test("a testnet's folder: its keys, and the first of its nodes that answers", async () => {
  await using first = await startFakeRpc({ status: statusAt(5) });
  await using second = await startFakeRpc({ status: statusAt(7) });
  const gone = "http://127.0.0.1:1";
  assert.equal(await firstAnswering([first.url, second.url]), first.url);
  assert.equal(await firstAnswering([gone, second.url, first.url]), second.url);
  assert.equal(await firstAnswering([gone]), undefined);

  const folder = join(chain.home, "testnet");
  mkdirSync(folder);
  const node = (name: string) => ({ name, isValidator: true, host: `${name}.invalid`, nodeId: "ab".repeat(20) });
  const testnet = { format: 1, id: "0a0b0c", chainId: "many", place: "hosts", nodes: [node("node0"), node("node1")] };
  writeFileSync(join(folder, "testnet.json"), JSON.stringify(testnet));
  await assert.rejects(nodeUrl({ home: "testnet" }, chain.home), (error: Error) => {
    assert.ok(isAppError(error, "CHAIN_UNREACHABLE"), String(error));
    assert.match(error.message, /testnet answers: http:\/\/node0\.invalid:26657, http:\/\/node1\.invalid:26657\.$/);
    assert.ok(error.advice?.includes(`chain testnet start --home ${folder}, or name a node with --node`));
    return true;
  });
  assert.equal(await nodeUrl({ home: "testnet", node: "http://127.0.0.1:4" }, chain.home), "http://127.0.0.1:4");
  assert.equal(keysFolderOf({ home: folder }), join(folder, "keys"));
  writeFileSync(join(folder, "testnet.json"), "{}");
  await assert.rejects(nodeUrl({ home: folder }), (error: Error) => isAppError(error, "CHAIN_HOME"));
});

test("beside a key file of a folder keys/ other names are looked up too, unless --home says where", () => {
  const keyFile = "testnet/keys/faucet.json";
  assert.equal(keysFolderOf({ keyFile }, "/work"), "/work/testnet/keys");
  assert.equal(keysFolderOf({ keyFile, home: "/other" }, "/work"), "/other/keys");
  assert.notEqual(keysFolderOf({ keyFile: "/mine/me.json" }, "/work"), "/mine");
});
