import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { seededRandom } from "../../packages/relay/test/quality/random.ts";
import { blockAt, type ChainNode, call, callAll, hex, type RpcReply, startChain } from "./relay-chain.ts";
import { rpc, rpcAt, startRelay } from "./relay-rig.ts";

const LATEST = '["latest",false]';
/** Questions of one probe. */
const PROBES = 3;

function heightOf({ result, error }: RpcReply): number {
  const text = typeof result === "string" ? result : (result as { number?: unknown } | null | undefined)?.number;
  assert.ok(typeof text === "string", JSON.stringify({ result, error }));
  return Number(text);
}

/** Asks for the newest block in all ways, while nodes overtake each other; every answer is as new as those before it. */
async function readWhileTheyLeap(nodes: readonly ChainNode[], isCacheOn: boolean): Promise<void> {
  await using rig = await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) });
  rig.relay.setFlag("cache", isCacheOn);
  const random = seededRandom(7);
  let highest = 0;
  for (let round = 0; round < 60; round++) {
    rig.clock.advance(150);
    const node = nodes[Math.floor(random() * nodes.length)];
    const sorted = nodes.map(({ height }) => height).sort((a, b) => a - b);
    // The chain of this test allows for two blocks between its suppliers.
    const next = Math.min((sorted.at(-1) ?? 0) + 1, (sorted[1] ?? 0) + 2);
    if (node !== undefined && next > node.height) node.height = next;
    const ways = [
      async () => [await call(rig, "eth_blockNumber")],
      async () => [await call(rig, "eth_getBlockByNumber", LATEST)],
      async () => callAll(rig, [rpc("1", "eth_blockNumber"), rpc("2", "eth_getBlockByNumber", LATEST)]),
      async () =>
        callAll(rig, [rpc("1", "eth_getBlockByNumber", LATEST), rpc("2", "eth_gasPrice"), rpc("3", "eth_blockNumber")]),
    ];
    const replies = (await ways[round % ways.length]?.()) ?? [];
    const heights = replies.filter(({ result }) => result !== "0x5").map(heightOf);
    for (const height of heights) assert.ok(height >= highest, `round ${round}: ${height} after ${highest}`);
    highest = Math.max(highest, ...heights);
  }
  assert.ok(highest > 1_010, String(highest));
}

describe("heights that clients see", () => {
  for (const isCacheOn of [true, false]) {
    test(`never go back while three suppliers overtake each other, cache ${isCacheOn ? "on" : "off"}`, async () => {
      await using a = await startChain();
      await using b = await startChain();
      await using c = await startChain();
      await readWhileTheyLeap([a, b, c], isCacheOn);
    });
  }

  test("never go back though only one of six suppliers has the newest block, and three are asked at most", async () => {
    const nodes = await Promise.all(Array.from({ length: 6 }, () => startChain()));
    await using stack = new AsyncDisposableStack();
    for (const node of nodes) stack.use(node);
    await using rig = await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) });
    rig.relay.setFlag("cache", false);
    const [ahead] = nodes;
    assert.ok(ahead !== undefined);
    ahead.height = 1_002;
    let highest = 0;
    for (let i = 0; i < 40; i++) {
      const isBatch = i % 2 === 1;
      const one = rpc("1", "eth_getBlockByNumber", LATEST);
      const [reply] = isBatch
        ? await callAll(rig, [one, rpc("2", "eth_gasPrice")])
        : [await call(rig, "eth_getBlockByNumber", LATEST)];
      assert.ok(reply !== undefined);
      const height = heightOf(reply);
      assert.ok(height >= highest, `${height} after ${highest}`);
      highest = height;
    }
    assert.equal(highest, 1_002);
  });

  const LIES: readonly (readonly [string, string, string])[] = [
    ["2^40", '"0x10000000000"', JSON.stringify(blockAt(2 ** 40))],
    ["0", '"0x0"', JSON.stringify(blockAt(0))],
    ["negative", '"-0x5"', JSON.stringify({ ...blockAt(5), number: "-0x5" })],
    ["beyond 2^64", '"0x1ffffffffffffffff"', JSON.stringify({ ...blockAt(5), number: "0x1ffffffffffffffff" })],
    ["words", '"soon"', '"soon"'],
    ["null", "null", "null"],
    ["a number", "1", "[]"],
  ];
  for (const [name, number, block] of LIES) {
    test(`are true though one of three says: ${name}`, async () => {
      await using liar = await startChain();
      await using b = await startChain();
      await using c = await startChain();
      liar.say = ({ method, params }) => {
        if (method === "eth_blockNumber") return number;
        return method === "eth_getBlockByNumber" && params[0] === "latest" ? block : undefined;
      };
      await using rig = await startRelay({ eth: rpcAt(liar.url, b.url, c.url) }, { random: () => 0 });
      rig.relay.setFlag("cache", false);
      await call(rig, "eth_blockNumber");
      for (let i = 0; i < 20; i++) {
        assert.equal(heightOf(await call(rig, "eth_blockNumber")), 1_000);
        const [one, two] = await callAll(rig, [rpc("1", "eth_getBlockByNumber", LATEST), rpc("2", "eth_blockNumber")]);
        assert.ok(one !== undefined && two !== undefined);
        assert.equal(heightOf(one), 1_000, JSON.stringify(one));
        assert.equal(heightOf(two), 1_000);
      }
      assert.ok(liar.calls.length > 0, "the liar was never asked");
      const [view] = rig.relay.inspect();
      assert.equal(view?.tipBlocks, 1_000);
      for (const node of [b, c]) node.height = 1_001;
      for (let i = 0; i < 4; i++) heightOf(await call(rig, "eth_blockNumber"));
      assert.ok(heightOf(await call(rig, "eth_getBlockByNumber", LATEST)) >= 1_000);
    });
  }

  /** Seven suppliers, two of which say a million more than the others, which answer probes when a test lets them. */
  async function startWithTwoLiars(): Promise<{
    readonly nodes: readonly ChainNode[];
    readonly liars: readonly ChainNode[];
    readonly release: () => void;
  }> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const nodes = await Promise.all(Array.from({ length: 7 }, (_, at) => startChain(at < 2 ? 1_001_000 : 1_000)));
    for (const node of nodes.slice(2)) node.beforeProbe = () => promise;
    return { nodes, liars: nodes.slice(0, 2), release: resolve };
  }

  const QUICK_LIARS = "are true though two of seven suppliers are heard first and say a million more";
  test(`${QUICK_LIARS}, and those get no more calls than others`, async () => {
    const { nodes, liars, release } = await startWithTwoLiars();
    await using stack = new AsyncDisposableStack();
    for (const node of nodes) stack.use(node);
    // The others answer once both liars were heard in full.
    let probes = 0;
    for (const liar of liars) {
      liar.beforeProbe = async () => {
        probes++;
        if (probes === 2 * PROBES) release();
      };
    }
    await using rig = await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { random: seededRandom(3) });
    rig.relay.setFlag("cache", false);
    assert.equal(rig.relay.inspect()[0]?.tipBlocks, 1_000);
    for (let i = 0; i < 60; i++) {
      assert.equal(heightOf(await call(rig, "eth_blockNumber")), 1_000);
      await call(rig, "eth_getBalance", `["0x${"1".repeat(40)}","latest"]`);
    }
    const counts = nodes.map((node) => node.count("eth_getBalance"));
    const ofLiars = counts.slice(0, 2).reduce((sum, count) => sum + count, 0);
    assert.ok(ofLiars < 40, counts.join());
    assert.ok(
      counts.slice(2).every((count) => count > 0),
      counts.join(),
    );
  });

  test(`${QUICK_LIARS}, also to the first client, while the others were not heard yet`, async () => {
    const { nodes, release } = await startWithTwoLiars();
    await using stack = new AsyncDisposableStack();
    for (const node of nodes) stack.use(node);
    await using rig = await startRelay(
      { eth: rpcAt(...nodes.map(({ url }) => url)) },
      { isUnprobed: true, random: () => 0 },
    );
    const started = rig.relay.start();
    const heights = (): readonly unknown[] => rig.relay.inspect()[0]?.suppliers.map((one) => one.heightBlocks) ?? [];
    const heard = (): boolean => heights().filter((height) => height === 1_001_000).length === 2;
    await eventually("the liars were heard", heard);
    const first = call(rig, "eth_blockNumber");
    await eventually("both were asked", () => nodes.slice(0, 2).every((node) => node.count("eth_blockNumber") > 0));
    release();
    assert.equal(heightOf(await first), 1_000);
    await started;
    assert.equal(heightOf(await call(rig, "eth_blockNumber")), 1_000);
  });

  for (const suppliers of [1, 2]) {
    test(`are shown at once by ${suppliers} of ${suppliers} suppliers`, async () => {
      await using node = await startChain();
      await using silent = await startChain();
      const { promise, resolve } = Promise.withResolvers<void>();
      silent.beforeProbe = () => promise;
      const urls = [node.url, silent.url].slice(0, suppliers);
      await using rig = await startRelay({ eth: rpcAt(...urls) }, { isUnprobed: true, random: () => 0 });
      assert.equal(heightOf(await call(rig, "eth_blockNumber")), 1_000);
      assert.equal(rig.relay.inspect()[0]?.tipBlocks, 1_000);
      resolve();
    });
  }

  test("follow the one supplier of a chain that began anew, within fifteen seconds", async () => {
    await using node = await startChain(1_000);
    await using rig = await startRelay({ eth: rpcAt(node.url) });
    assert.equal(heightOf(await call(rig, "eth_blockNumber")), 1_000);
    node.height = 3;
    node.fork = "c";
    const read = async (): Promise<readonly number[]> => [
      heightOf(await call(rig, "eth_blockNumber")),
      heightOf(await call(rig, "eth_getBlockByNumber", LATEST)),
    ];
    rig.clock.advance(1_000);
    await read();
    rig.clock.advance(15_500);
    await read();
    rig.clock.advance(1_000);
    assert.deepEqual(await read(), [3, 3]);
    const { result } = await call(rig, "eth_getBlockByNumber", '["0x2",false]');
    assert.deepEqual(result, blockAt(2, "c"));
  });
});

describe("suppliers that are behind", () => {
  test("beyond the sync allowance get no calls", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using behind = await startChain(100);
    await using rig = await startRelay({ eth: rpcAt(a.url, b.url, behind.url) });
    for (let i = 0; i < 30; i++) {
      await call(rig, "eth_getBalance", `["0x${"1".repeat(40)}","${hex(900 + i)}"]`);
      await callAll(rig, [rpc("1", "eth_gasPrice"), rpc("2", "eth_getBlockByNumber", `["${hex(900 + i)}",true]`)]);
    }
    assert.equal(behind.calls.length, 0);
    assert.ok(a.calls.length > 0 && b.calls.length > 0);
  });

  for (const isBatch of [false, true]) {
    test(`cannot say that a block is not there which they do not have${isBatch ? ", in a batch" : ""}`, async () => {
      await using low = await startChain(990);
      await using high = await startChain(1_000);
      await using other = await startChain(1_000);
      await using rig = await startRelay({ eth: rpcAt(low.url, high.url, other.url) });
      rig.relay.setFlag("cache", false);
      for (let i = 0; i < 12; i++) {
        const params = `["${hex(1_000)}",false]`;
        const [reply] = isBatch
          ? await callAll(rig, [rpc("1", "eth_getBlockByNumber", params), rpc("2", "eth_gasPrice")])
          : [await call(rig, "eth_getBlockByNumber", params)];
        assert.equal(reply && heightOf(reply), 1_000);
      }
    });
  }

  test("say `null` for what is within their height, or above everybody's: that is the answer", async () => {
    await using a = await startChain();
    await using b = await startChain();
    for (const node of [a, b])
      node.say = ({ method }) => (method === "eth_getUncleByBlockNumberAndIndex" ? "null" : undefined);
    await using rig = await startRelay({ eth: rpcAt(a.url, b.url) });
    const ask = async (height: number): Promise<number> => {
      const before = a.calls.length + b.calls.length;
      const reply = await call(rig, "eth_getUncleByBlockNumberAndIndex", `["${hex(height)}","0x0"]`);
      assert.deepEqual(reply, { jsonrpc: "2.0", id: 7, result: null });
      return a.calls.length + b.calls.length - before;
    };
    assert.equal(await ask(900), 1);
    assert.equal(await ask(5_000), 1);
  });

  test("that have thrown old states away are asked last for old ones from then on, and not for new ones", async () => {
    await using pruned = await startChain();
    await using archive = await startChain();
    pruned.say = ({ params }) =>
      Number(params[1]) < 500 ? ',"error":{"code":-32000,"message":"missing trie node 00 (path )"}' : undefined;
    await using rig = await startRelay({ eth: rpcAt(pruned.url, archive.url) }, { random: () => 0 });
    rig.relay.setFlag("cache", false);
    const ask = (height: number): Promise<RpcReply> =>
      call(rig, "eth_getBalance", `["0x${"1".repeat(40)}","${hex(height)}"]`);
    assert.equal((await ask(300)).result, "0x5");
    const before = pruned.calls.length;
    assert.equal(before, 1);
    for (let i = 0; i < 20; i++) assert.equal((await ask(100 + i)).result, "0x5");
    assert.equal(pruned.calls.length, before);
    await ask(990);
    assert.equal(pruned.calls.length, before + 1);
    const [view] = rig.relay.inspect();
    for (const { score } of view?.suppliers ?? []) assert.ok(score > 70, `score ${score}`);
  });
});
