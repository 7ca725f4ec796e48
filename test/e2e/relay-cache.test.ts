import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { blockAt, type ChainNode, call, callAll, hex, startChain } from "./relay-chain.ts";
import { type RelayBend, type RelayRig, rpc, rpcAt, send, startRelay } from "./relay-rig.ts";

const BALANCE = `"0x${"1".repeat(40)}"`;
const FINAL = '["0x10",false]';
const HASH = `"0x${"ab".repeat(32)}"`;
const IDS = [
  "7",
  "1.50",
  "-0.0",
  "1e3",
  '"a"',
  '"\\u00e9 \\"q\\""',
  '"é"',
  "null",
  "123456789012345678901",
  '""',
  '"x\\/y"',
];

const rigOf = (nodes: readonly ChainNode[], bend: RelayBend = {}): Promise<RelayRig> =>
  startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, bend);

/** Answers are stored when nobody waits for them. */
const stored = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

/** What is asked for once may not be worth its room: the second time it is kept. */
async function twice(ask: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < 2; i++) {
    await ask();
    await stored();
  }
}

describe("kept answers", () => {
  test("of a final block come once from a supplier, with each asker's id as it was written", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    const result = JSON.stringify(blockAt(16));
    for (const id of IDS) {
      const { text } = await send(rig, rpc(id, "eth_getBlockByNumber", FINAL));
      assert.equal(text, `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      await stored();
    }
    assert.equal(node.calls.length, 1);
  });

  test("serve the items of batches, with their ids and in their order", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    await call(rig, "eth_getBlockByNumber", FINAL);
    await stored();
    const { text } = await send(rig, `[${IDS.map((id) => rpc(id, "eth_getBlockByNumber", FINAL)).join(",")}]`);
    const result = JSON.stringify(blockAt(16));
    assert.equal(text, `[${IDS.map((id) => `{"jsonrpc":"2.0","id":${id},"result":${result}}`).join(",")}]`);
    assert.equal(node.bodies.length, 1);
    // What is not kept goes upstream alone, and its place is kept.
    const mixed = await callAll(rig, [
      rpc("1", "eth_getBlockByNumber", FINAL),
      rpc("2", "eth_getBlockByNumber", '["0x11",false]'),
      rpc("3", "eth_getBlockByNumber", FINAL),
    ]);
    assert.deepEqual(
      mixed.map(({ id, result: block }) => [id, (block as { number: string }).number]),
      [
        [1, "0x10"],
        [2, "0x11"],
        [3, "0x10"],
      ],
    );
    assert.equal(node.bodies.length, 2);
  });

  test("of a batch are kept for others", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    await callAll(rig, [rpc("1", "eth_getBlockByNumber", FINAL), rpc("2", "eth_getBalance", `[${BALANCE},"0x10"]`)]);
    await stored();
    assert.equal((await call(rig, "eth_getBalance", `[${BALANCE},"0x10"]`)).result, "0x5");
    assert.equal(node.bodies.length, 1);
  });

  test("about the newest block live no longer than maxHeadAgeMs", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node], { relay: { maxHeadAgeMs: 300 } });
    const ask = (): Promise<unknown> =>
      call(rig, "eth_getBalance", `[${BALANCE},"latest"]`).then(({ result }) => result);
    await twice(ask);
    const before = node.calls.length;
    await ask();
    assert.equal(node.calls.length, before);
    rig.clock.advance(301);
    await ask();
    assert.equal(node.calls.length, before + 1);
  });

  test("about the newest block do not outlive it", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node], { relay: { maxHeadAgeMs: 60_000 } });
    node.say = ({ method }) => (method === "eth_getBalance" ? `"${hex(node.height)}"` : undefined);
    const balance = async (): Promise<unknown> => (await call(rig, "eth_getBalance", `[${BALANCE},"latest"]`)).result;
    await twice(balance);
    node.height = 1_001;
    assert.equal(await balance(), "0x3e8");
    // Another way to write the call shows the new block.
    await call(rig, "eth_blockNumber", "[ ]");
    assert.equal(await balance(), "0x3e9");
  });

  test("never say that there is nothing where there may soon be something", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    node.say = ({ method }) => (method === "eth_chainId" ? undefined : "null");
    const asked = [
      ["eth_getTransactionReceipt", `[${HASH}]`],
      ["eth_getBlockByNumber", '["0x3e9",false]'],
      ["eth_getBlockByNumber", '["0x3e7",false]'],
      ["eth_getBlockByHash", `[${HASH},false]`],
    ] as const;
    for (const [method, params] of asked) {
      assert.equal((await call(rig, method, params)).result, null);
      await stored();
    }
    const before = node.calls.length;
    node.say = ({ method, params }) =>
      method === "eth_getBlockByNumber"
        ? undefined
        : `{"blockNumber":"0x3e6","number":"0x3e6","of":${JSON.stringify(params[0])}}`;
    node.height = 1_001;
    for (const [method, params] of asked) assert.notEqual((await call(rig, method, params)).result, null, method);
    assert.equal(node.calls.length, before + asked.length);
  });

  test("are no errors", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    node.say = () => ',"error":{"code":3,"message":"execution reverted","data":"0x"}';
    const ask = (): Promise<{ readonly error?: unknown; readonly result?: unknown }> =>
      call(rig, "eth_call", `[{"to":${BALANCE}},"0x10"]`);
    assert.deepEqual((await ask()).error, { code: 3, message: "execution reverted", data: "0x" });
    await stored();
    node.say = undefined;
    assert.equal((await ask()).result, "0x5");
  });

  test("are dropped when blocks are replaced", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node], { relay: { probeIntervalMs: 20, maxHeadAgeMs: 60_000 } });
    const block = async (): Promise<unknown> => {
      const { result } = await call(rig, "eth_getBlockByNumber", '["0x3e8",false]');
      return (result as { hash?: unknown }).hash;
    };
    assert.equal(await block(), blockAt(1_000).hash);
    await stored();
    assert.equal(await block(), blockAt(1_000).hash);
    assert.equal(node.calls.length, 1);
    node.fork = "c";
    // The relay's probes see the other hash.
    await eventually("the new block", async () => (await block()) === blockAt(1_000, "c").hash);
  });

  test("are not given to who has just written", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node], { relay: { maxHeadAgeMs: 60_000 } });
    let nonce = 5;
    node.say = ({ method }) => {
      if (method === "eth_getTransactionCount") return `"${hex(nonce)}"`;
      if (method !== "eth_sendRawTransaction") return undefined;
      nonce++;
      return HASH;
    };
    const read = async (): Promise<unknown> =>
      (await call(rig, "eth_getTransactionCount", `[${BALANCE},"latest"]`)).result;
    await twice(read);
    const kept = node.calls.length;
    assert.equal(await read(), "0x5");
    assert.equal(node.calls.length, kept);
    await call(rig, "eth_sendRawTransaction", '["0x02"]');
    await twice(async () => assert.equal(await read(), "0x6"));
    await callAll(rig, [rpc("1", "eth_sendRawTransaction", '["0x03"]'), rpc("2", "eth_gasPrice")]);
    await twice(async () => assert.equal(await read(), "0x7"));
    // A notification writes, too.
    await send(rig, rpc(undefined, "eth_sendRawTransaction", '["0x04"]'));
    const before = node.count("eth_getTransactionCount");
    await eventually("a read that is not kept", async () => {
      await read();
      return node.count("eth_getTransactionCount") > before;
    });
  });

  test("go when the operator says so, and none are kept while the flag is off", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    const asks = async (): Promise<number> => {
      const before = node.calls.length;
      await call(rig, "eth_getBlockByNumber", FINAL);
      await stored();
      return node.calls.length - before;
    };
    assert.deepEqual([await asks(), await asks()], [1, 0]);
    rig.relay.clearCache();
    assert.deepEqual([await asks(), await asks()], [1, 0]);
    rig.relay.setFlag("cache", false);
    assert.deepEqual([await asks(), await asks()], [1, 1]);
    rig.relay.setFlag("cache", true);
    assert.deepEqual([await asks(), await asks()], [1, 0]);
  });
});

/** Waits until the relay works on so many requests. */
function inFlight(rig: RelayRig, count: number): Promise<true> {
  const wanted = new RegExp(`turnpike_relay_in_flight ${count}$`, "m");
  return eventually(`${count} in flight`, async () => wanted.test(await rig.metrics()));
}

describe("equal reads", () => {
  /** Hangs until it is let go. */
  async function slowChain(): Promise<{ readonly node: ChainNode; readonly rig: RelayRig } & AsyncDisposable> {
    const node = await startChain();
    const rig = await rigOf([node], { timeoutMs: 300, maxAttempts: 1, relay: { hedgeQuantile: 1 } });
    return {
      node,
      rig,
      async [Symbol.asyncDispose]() {
        await rig[Symbol.asyncDispose]();
        await node[Symbol.asyncDispose]();
      },
    };
  }

  test("within a batch are one upstream call", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    const replies = await callAll(
      rig,
      Array.from({ length: 50 }, (_, at) =>
        rpc(String(at % 2 === 0 ? 1 : at), "eth_getBalance", `[${BALANCE},"latest"]`),
      ),
    );
    assert.deepEqual(
      replies.map(({ id, result }) => [id, result]),
      Array.from({ length: 50 }, (_, at) => [at % 2 === 0 ? 1 : at, "0x5"]),
    );
    assert.equal(node.calls.length, 1);
  });

  test("of several clients are one upstream call, and a single's serves a batch's", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node]);
    rig.relay.setFlag("cache", false);
    node.isHanging = true;
    const asked = Promise.all([
      ...Array.from({ length: 20 }, (_, at) => call(rig, "eth_gasPrice", "[]", String(at))),
      ...Array.from({ length: 10 }, async (_, at) => {
        const [, second] = await callAll(rig, [rpc("0", "eth_chainId"), rpc(String(20 + at), "eth_gasPrice")]);
        return second;
      }),
    ]);
    await inFlight(rig, 30);
    node.release();
    const replies = await asked;
    assert.deepEqual(
      replies.map((reply) => [reply?.id, reply?.result]),
      replies.map((_, at) => [at, "0x5"]),
    );
    assert.equal(node.count("eth_gasPrice"), 1);
    assert.equal(node.count("eth_chainId"), 1);
  });

  test("that fail together fail once, each with its id", async () => {
    await using slow = await slowChain();
    const { node, rig } = slow;
    node.isHanging = true;
    const asked = Promise.all(
      Array.from({ length: 40 }, (_, at) => call(rig, "eth_getBalance", `[${BALANCE},"0x10"]`, String(at))),
    );
    await inFlight(rig, 40);
    rig.clock.advance(350);
    const replies = await asked;
    assert.deepEqual(
      replies.map(({ id }) => id),
      Array.from({ length: 40 }, (_, at) => at),
    );
    for (const { error } of replies) assert.ok(error !== undefined);
    assert.equal(node.calls.length, 1);
  });

  test("share no answer that is passed on while it arrives", async () => {
    await using node = await startChain();
    await using rig = await rigOf([node], { relay: { streamAfterBytes: 1_024 } });
    node.say = ({ method }) => (method === "debug_traceBlockByNumber" ? `["${"a".repeat(200_000)}"]` : undefined);
    const ask = async (id: string): Promise<string> =>
      (await send(rig, rpc(id, "debug_traceBlockByNumber", '["0x10"]'))).text;
    const texts = await Promise.all(["1", "2", '"three"', "4.0"].map(ask));
    for (const [at, id] of ["1", "2", '"three"', "4.0"].entries()) {
      assert.equal(texts[at], `{"jsonrpc":"2.0","id":${id},"result":["${"a".repeat(200_000)}"]}`);
    }
  });
});
