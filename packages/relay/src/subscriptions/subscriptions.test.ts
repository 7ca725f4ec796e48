import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type MetricSpec, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import {
  eventually,
  FakeChain,
  type SocketNode,
  startSocketNode,
  type VirtualClock,
  virtualClock,
} from "@turnpike/testkit";
import { SUBSCRIPTION_BOUNDS, type SubscriptionOptions } from "./options.ts";
import { createSubscriptions } from "./subscriptions.ts";
import { cometTopic, evmTopic } from "./topics.ts";
import type { SubscribeResult, SubscriptionListener, Subscriptions, Topic } from "./types.ts";

const ETH = "eth" as ServiceId;
const OSMOSIS = "osmosis" as ServiceId;
/** For tests that would else wait for ever when they fail. */
const PATIENTLY = { timeout: 60_000 };

interface Heard extends SubscriptionListener {
  readonly events: Readonly<Record<string, unknown>>[];
  readonly raws: string[];
  readonly reasons: string[];
  until(count: number): Promise<void>;
  over(): Promise<void>;
}

function listener(): Heard {
  let wake = (): void => {};
  const heard: Heard = {
    events: [],
    raws: [],
    reasons: [],
    event({ raw }) {
      heard.raws.push(raw);
      heard.events.push(JSON.parse(raw) as Readonly<Record<string, unknown>>);
      wake();
    },
    ended(reason) {
      heard.reasons.push(reason);
      wake();
    },
    async until(count) {
      while (heard.raws.length < count && heard.reasons.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    over: () => heard.until(Number.POSITIVE_INFINITY),
  };
  return heard;
}

interface Stage extends AsyncDisposable {
  readonly chain: FakeChain;
  readonly nodes: readonly SocketNode[];
  readonly subscriptions: Subscriptions;
  readonly counts: Map<string, number>;
  readonly drained: Set<string>;
  /** How long a supplier is looked for goes by this clock. */
  readonly clock: VirtualClock;
  /** What else is known of the chain's newest block. */
  readonly known: { tipBlocks: number | undefined };
}

async function stage(count: number, change: Partial<SubscriptionOptions> = {}): Promise<Stage> {
  const chain = new FakeChain();
  const nodes = await Promise.all(Array.from({ length: count }, () => startSocketNode(chain)));
  const counts = new Map<string, number>();
  const drained = new Set<string>();
  const clock = virtualClock();
  const known: Stage["known"] = { tipBlocks: undefined };
  const endpoints = nodes.map(({ url }, at) => ({ operator: `op${at}`, url }));
  const add = ({ name }: MetricSpec, by: number): void => void counts.set(name, (counts.get(name) ?? 0) + by);
  const subscriptions = createSubscriptions(
    {
      subscribeTimeoutMs: 60_000,
      connectTimeoutMs: 60_000,
      callTimeoutMs: 60_000,
      ...change,
      suppliers: { eth: endpoints, osmosis: endpoints },
    },
    {
      catalogue: createCatalogue().services,
      clock,
      log: silentLog,
      metrics: { count: (spec, _labels, by = 1) => add(spec, by), set() {}, observe() {} },
      random: () => 0.5,
      isDrained: (_id, operator) => drained.has(operator),
      tipBlocks: () => known.tipBlocks,
    },
  );
  return {
    chain,
    nodes,
    subscriptions,
    counts,
    drained,
    clock,
    known,
    async [Symbol.asyncDispose]() {
      await subscriptions[Symbol.asyncDispose]();
      await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
    },
  };
}

function topic(...params: unknown[]): Topic {
  const found = evmTopic(params);
  assert.ok(found);
  return found;
}

function taken(result: SubscribeResult): { close(): void } {
  assert.ok(result.ok, JSON.stringify(result));
  return result;
}

const numbers = (heard: Heard): number[] => heard.events.map((event) => Number(event.number ?? event.blockNumber));
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);
const other = (nodes: readonly SocketNode[], than: SocketNode): SocketNode => {
  const found = nodes.find((node) => node !== than);
  assert.ok(found);
  return found;
};
const one = (nodes: readonly SocketNode[]): SocketNode => {
  const used = nodes.find((node) => node.connections > 0);
  assert.ok(used);
  return used;
};

/** Lets a node speak CometBFT; its height is told by `heightOf`. */
function speakComet(node: SocketNode, heightOf: () => number): void {
  node.answer = (method, id) => {
    const status = { node_info: { network: "osmosis-1" }, sync_info: { latest_block_height: String(heightOf()) } };
    return JSON.stringify({ jsonrpc: "2.0", id, result: method === "status" ? status : {} });
  };
}

/** The next so many calls of a method at a node. */
async function calledTimes(node: SocketNode, method: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await node.called(method);
}

const subscribeCalls = (node: SocketNode): number =>
  node.calls.filter((method) => method === "eth_subscribe" || method === "subscribe").length;

describe("subscriptions", () => {
  test("many listeners share one upstream subscription, which ends with the last", async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    const heard = Array.from({ length: 50 }, listener);
    const held = await Promise.all(heard.map((each) => here.subscriptions.subscribe(ETH, topic("newHeads"), each)));
    assert.equal(node.calls.filter((method) => method === "eth_subscribe").length, 1);
    here.chain.mine(3);
    await Promise.all(heard.map((each) => each.until(3)));
    for (const each of heard) assert.deepEqual(numbers(each), [1, 2, 3]);
    assert.equal(heard[0]?.raws[0], heard[49]?.raws[0]);
    const gone = node.called("eth_unsubscribe");
    for (const result of held) taken(result).close();
    await gone;
    assert.equal(node.subscriptions, 0);
  });

  test("the supplier is killed in the middle of 200 heads and logs: each comes once, in order", async () => {
    await using here = await stage(2);
    const heads = [listener(), listener(), listener()];
    const logs = listener();
    for (const each of heads) taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), each));
    taken(await here.subscriptions.subscribe(ETH, topic("logs", { address: "0xAA" }), logs));
    for (let i = 1; i <= 200; i++) {
      here.chain.mine();
      if (i % 50 === 20) {
        // Events flow over the socket that replaced the last one; those of the newest blocks are still under way.
        await Promise.all([...heads, logs].map((each) => each.until(i - 10)));
        for (const node of here.nodes) node.drop();
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([...heads, logs].map((each) => each.until(200)));
    here.chain.mine();
    await Promise.all([...heads, logs].map((each) => each.until(201)));
    for (const each of [...heads, logs]) assert.deepEqual(numbers(each), range(1, 201));
    assert.ok((here.counts.get("turnpike_relay_replayed_events_total") ?? 0) > 0);
  });

  test("a drained supplier's subscriptions go to another, and none comes to it", async () => {
    await using here = await stage(2, { stallCheckMs: 20 });
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    here.chain.mine(2);
    await heads.until(2);
    const first = one(here.nodes);
    const second = here.nodes.find((node) => node !== first);
    assert.ok(second);
    const moved = second.called("eth_subscribe");
    here.drained.add(`op${here.nodes.indexOf(first)}`);
    await moved;
    here.chain.mine(2);
    await heads.until(4);
    assert.deepEqual(numbers(heads), range(1, 4));
    assert.equal(first.connections, 0);
  });

  test("a replacement that is behind repeats nothing and misses nothing", async () => {
    await using here = await stage(2);
    const heads = listener();
    const logs = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    const first = one(here.nodes);
    const second = here.nodes.find((node) => node !== first);
    assert.ok(second);
    here.chain.mine(10);
    await Promise.all([heads.until(10), logs.until(10)]);
    second.lagBlocks = 4;
    first.isDown = true;
    const moved = second.called("eth_getLogs");
    first.drop();
    await moved;
    second.lagBlocks = 0;
    here.chain.mine(2);
    await Promise.all([heads.until(12), logs.until(12)]);
    assert.deepEqual(numbers(heads), range(1, 12));
    assert.deepEqual(numbers(logs), range(1, 12));
  });

  test("a reorganisation while no supplier is there: the new branch is delivered, old logs are taken back", async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    const heads = listener();
    const logs = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    here.chain.mine(5);
    await Promise.all([heads.until(5), logs.until(5)]);
    node.isMute = true;
    node.drop();
    here.chain.reorg(2);
    node.isMute = false;
    await Promise.all([heads.until(8), logs.until(10)]);
    assert.deepEqual(numbers(heads), [1, 2, 3, 4, 5, 4, 5, 6]);
    assert.deepEqual(
      logs.events.slice(5).map((log) => [Number(log.blockNumber), log.removed]),
      [
        [5, true],
        [4, true],
        [4, false],
        [5, false],
        [6, false],
      ],
    );
  });

  test("a supplier that cannot give the missing logs is passed over, and they are fetched elsewhere", async () => {
    await using here = await stage(2);
    const heads = listener();
    const logs = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    const first = one(here.nodes);
    const second = here.nodes.find((node) => node !== first);
    assert.ok(second);
    here.chain.mine(2);
    await Promise.all([heads.until(2), logs.until(2)]);
    let refusals = 0;
    second.answer = (method, id) =>
      method === "eth_getLogs" && ++refusals > 0
        ? `{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"too many"}}`
        : undefined;
    first.isMute = true;
    here.chain.mine(20);
    first.isMute = false;
    first.drop();
    await Promise.all([heads.until(22), logs.until(22)]);
    assert.deepEqual([numbers(heads), numbers(logs)], [range(1, 22), range(1, 22)]);
    assert.equal(refusals, 1);
  });

  test("a gap in what one supplier sends is filled", async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    const heads = listener();
    const logs = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    here.chain.mine(2);
    node.isMute = true;
    here.chain.mine(30);
    node.isMute = false;
    here.chain.mine(2);
    await Promise.all([heads.until(34), logs.until(34)]);
    assert.deepEqual(numbers(heads), range(1, 34));
    assert.deepEqual(
      numbers(logs).sort((a, b) => a - b),
      range(1, 34),
    );
  });

  test("a supplier that falls silent is given up, and nothing is missed", async () => {
    await using here = await stage(2, { stallCheckMs: 30 });
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    here.chain.mine(2);
    await heads.until(2);
    one(here.nodes).isMute = true;
    here.chain.mine(3);
    await heads.until(5);
    assert.deepEqual(numbers(heads), range(1, 5));
  });

  test("more missing blocks than may be fetched: the listeners are told, and can begin again", async () => {
    await using here = await stage(1, { maxReplayBlocks: 10 });
    const [node] = here.nodes;
    assert.ok(node);
    const heads = listener();
    const logs = listener();
    const pending = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    taken(await here.subscriptions.subscribe(ETH, topic("newPendingTransactions"), pending));
    node.isMute = true;
    here.chain.mine(11);
    node.isMute = false;
    node.drop();
    await Promise.all([heads.over(), logs.over()]);
    assert.deepEqual([heads.reasons, logs.reasons, pending.reasons], [["missed"], ["missed"], []]);
    const again = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), again));
    here.chain.mine();
    await again.until(1);
    assert.deepEqual(numbers(again), [12]);
  });

  test("no supplier for too long: exhausted; without any, an error", async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    node.isDown = true;
    node.drop();
    await eventually(
      "the loss is noticed",
      () => here.counts.get("turnpike_relay_upstream_websocket_losses_total") === 1,
    );
    assert.deepEqual(heads.reasons, []);
    here.clock.advance(SUBSCRIPTION_BOUNDS.recoveryTimeoutMs);
    await heads.over();
    assert.deepEqual(heads.reasons, ["exhausted"]);
    const refused = here.subscriptions.subscribe(ETH, topic("newHeads"), listener());
    here.clock.advance(60_000);
    assert.deepEqual(await refused, { ok: false, code: "SUPPLIERS_UNREACHABLE" });
    node.isDown = false;
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), listener()));
  });

  test("a supplier of another chain is never used; a supplier's error is passed on", async () => {
    await using here = await stage(2);
    const [wrong, right] = here.nodes;
    assert.ok(wrong && right);
    wrong.chainId = "0x2";
    right.answer = (method, id) =>
      method === "eth_subscribe"
        ? `{"jsonrpc":"2.0","id":${id},"error":{"code":-32602,"message":"no such kind" }}`
        : undefined;
    const refused = await here.subscriptions.subscribe(ETH, topic("nothing"), listener());
    assert.deepEqual(refused, { ok: false, error: '{"code":-32602,"message":"no such kind" }' });
    assert.equal(wrong.calls.includes("eth_subscribe"), false);
  });

  test("an event that comes before the answer to its subscription is not lost; bytes are kept", async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    const raw = '{ "x" : "\\u00e9", "y":[1e3 ] }';
    node.answer = (method, id) => {
      if (method !== "eth_subscribe") return undefined;
      node.broadcast(
        `{"jsonrpc":"2.0","method":"eth_subscription","params": {"result":${raw} , "subscription":"0x5"}}`,
      );
      return `{"jsonrpc":"2.0","id":${id},"result":"0x5"}`;
    };
    const heard = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("other"), heard));
    await heard.until(1);
    assert.deepEqual(heard.raws, [raw]);
  });

  test("calls go over the socket; garbage ends it and another is used", async () => {
    await using here = await stage(2);
    const answer = await here.subscriptions.call(ETH, "evm", "web3_sha3", '["0x",7]');
    assert.equal(answer.kind === "result" ? answer.raw : answer.kind, '["web3_sha3",7]');
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    one(here.nodes).broadcast("<html>");
    here.chain.mine(2);
    await heads.until(2);
    assert.deepEqual(numbers(heads), [1, 2]);
  });

  test("equal filters are one topic, whatever their spelling", () => {
    const a = topic("logs", { topics: ["0xAB"], address: "0xCd" });
    const b = topic("logs", { address: "0xcD", topics: ["0xab"] });
    assert.equal(a.key, b.key);
    assert.notEqual(a.key, topic("logs", { address: "0xcd" }).key);
    assert.equal(evmTopic([1]), undefined);
    assert.equal(evmTopic({}), undefined);
  });

  test("a reorganisation of the block at which the first subscription began is delivered", PATIENTLY, async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    here.chain.mine(600);
    const heads = listener();
    const logs = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
    here.chain.reorg(1);
    await Promise.all([heads.until(2), logs.until(3)]);
    assert.deepEqual(numbers(heads), [600, 601]);
    assert.equal(node.calls.includes("eth_getBlockByHash"), false);
    assert.deepEqual(
      [heads.reasons, logs.reasons, here.counts.get("turnpike_relay_upstream_websocket_losses_total")],
      [[], [], undefined],
    );
  });

  test("so is one that the next supplier shows", PATIENTLY, async () => {
    await using here = await stage(1);
    const [node] = here.nodes;
    assert.ok(node);
    here.chain.mine(600);
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    node.isMute = true;
    node.drop();
    here.chain.reorg(3);
    node.isMute = false;
    await heads.until(2);
    assert.deepEqual([numbers(heads), heads.reasons], [[600, 601], []]);
  });
});

describe("subscriptions while no supplier can be used", () => {
  test("a recovery time shorter than the first pause makes no busy loop", PATIENTLY, async () => {
    await using at = await stage(1, { recoveryTimeoutMs: 10 });
    let looks = 0;
    const isDrained = (): boolean => {
      // The subscription's time is up after the work that is due by now, or after far too many looks.
      if (++looks === 1) setImmediate(() => at.clock.advance(60_000));
      if (looks === 1_000) at.clock.advance(60_000);
      return true;
    };
    at.drained.has = isDrained;
    const result = await at.subscriptions.subscribe(ETH, topic("newHeads"), listener());
    assert.deepEqual(result, { ok: false, code: "SUPPLIERS_UNREACHABLE" });
    assert.ok(looks < 10, `${looks} looks for a supplier`);
  });
});

describe("subscriptions at a supplier that is behind", () => {
  test(
    "it stays at one block while the chain goes on: another takes over, and nothing is missed",
    PATIENTLY,
    async () => {
      await using here = await stage(2, { stallCheckMs: 20 });
      const heads = listener();
      const logs = listener();
      taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
      taken(await here.subscriptions.subscribe(ETH, topic("logs"), logs));
      here.chain.mine(2);
      await Promise.all([heads.until(2), logs.until(2)]);
      const stuck = one(here.nodes);
      stuck.isMute = true;
      stuck.lagBlocks = 10;
      here.chain.mine(10);
      here.known.tipBlocks = 12;
      await Promise.all([heads.until(12), logs.until(12)]);
      assert.deepEqual([numbers(heads), numbers(logs)], [range(1, 12), range(1, 12)]);
    },
  );

  test("it is passed over at the first connection", PATIENTLY, async () => {
    await using here = await stage(2);
    const [stale] = here.nodes;
    assert.ok(stale);
    here.chain.mine(20);
    stale.lagBlocks = 10;
    here.known.tipBlocks = 20;
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    assert.equal(subscribeCalls(stale), 0);
    here.chain.mine();
    await heads.until(1);
    assert.deepEqual(numbers(heads), [21]);
  });

  test("a socket without heads is checked too", PATIENTLY, async () => {
    await using here = await stage(2, { stallCheckMs: 20 });
    const pending = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newPendingTransactions"), pending));
    const stuck = one(here.nodes);
    const moved = other(here.nodes, stuck).called("eth_subscribe");
    stuck.lagBlocks = 10;
    here.chain.mine(10);
    here.known.tipBlocks = 10;
    await moved;
  });

  test("so is one of a CometBFT node", PATIENTLY, async () => {
    await using here = await stage(2, { stallCheckMs: 20 });
    for (const node of here.nodes) speakComet(node, () => (node.isMute ? 1 : 100));
    const blocks = listener();
    taken(await here.subscriptions.subscribe(OSMOSIS, cometTopic("tm.event='NewBlock'"), blocks));
    const stuck = one(here.nodes);
    const moved = other(here.nodes, stuck).called("subscribe");
    stuck.isMute = true;
    here.known.tipBlocks = 100;
    await moved;
  });

  test("one check is not enough: blocks take time to travel", PATIENTLY, async () => {
    await using here = await stage(2, { stallCheckMs: 10 });
    taken(await here.subscriptions.subscribe(ETH, topic("newPendingTransactions"), listener()));
    const node = one(here.nodes);
    here.chain.mine(10);
    let asked = 0;
    node.answer = (method, id) => {
      if (method !== "eth_blockNumber") return undefined;
      return JSON.stringify({ jsonrpc: "2.0", id, result: asked++ % 2 === 0 ? "0x0" : "0xa" });
    };
    here.known.tipBlocks = 10;
    await calledTimes(node, "eth_blockNumber", 8);
    assert.equal(subscribeCalls(other(here.nodes, node)), 0);
  });

  test("when all are behind, one is used, and is not given up at every check", PATIENTLY, async () => {
    await using here = await stage(1, { stallCheckMs: 10 });
    const [node] = here.nodes;
    assert.ok(node);
    here.known.tipBlocks = 1_000;
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    await calledTimes(node, "eth_getBlockByNumber", 6);
    here.chain.mine();
    await heads.until(1);
    assert.equal(subscribeCalls(node), 1);
  });
});

describe("subscriptions that a supplier ends", () => {
  test("CometBFT: all of the socket are made again elsewhere, and no event is made of it", PATIENTLY, async () => {
    await using here = await stage(2);
    for (const node of here.nodes) speakComet(node, () => 100);
    const queries = ["tm.event='NewBlock'", "tm.event='Tx'"];
    const heard = queries.map(() => listener());
    for (const [at, query] of queries.entries()) {
      taken(await here.subscriptions.subscribe(OSMOSIS, cometTopic(query), heard[at] ?? listener()));
    }
    const first = one(here.nodes);
    const second = other(here.nodes, first);
    const message = "subscription was cancelled (reason: client is not pulling messages fast enough)";
    first.broadcast(
      JSON.stringify({ jsonrpc: "2.0", id: 2, error: { code: -32000, message: "Server error", data: message } }),
    );
    while (subscribeCalls(second) < 2) await new Promise((resolve) => setImmediate(resolve));
    second.broadcast('{"jsonrpc":"2.0","id":2,"result":{"height":1}}');
    second.broadcast('{"jsonrpc":"2.0","id":3,"result":{"height":2}}');
    await Promise.all(heard.map((each) => each.until(1)));
    assert.deepEqual(
      heard.map(({ raws }) => raws),
      [['{"height":1}'], ['{"height":2}']],
    );
  });

  test("CometBFT: an error for a call that is over ends nothing", PATIENTLY, async () => {
    await using here = await stage(2);
    for (const node of here.nodes) speakComet(node, () => 100);
    const heard = listener();
    taken(await here.subscriptions.subscribe(OSMOSIS, cometTopic("tm.event='Tx'"), heard));
    const node = one(here.nodes);
    node.broadcast('{"jsonrpc":"2.0","id":77,"error":{"code":-32603,"message":"late"}}');
    node.broadcast('{"jsonrpc":"2.0","id":2}');
    node.broadcast('{"jsonrpc":"2.0","id":2,"result":{"height":1}}');
    await heard.until(1);
    assert.deepEqual([heard.raws, subscribeCalls(other(here.nodes, node))], [['{"height":1}'], 0]);
  });

  test("EVM: the same", PATIENTLY, async () => {
    await using here = await stage(2);
    const heard = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newPendingTransactions"), heard));
    const first = one(here.nodes);
    const second = other(here.nodes, first);
    const moved = second.called("eth_subscribe");
    first.broadcast('{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xf01"}}');
    first.broadcast(
      '{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xf01","error":{"code":-32000,"message":"lagged"}}}',
    );
    await moved;
    second.broadcast('{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xf01","result":"0xt"}}');
    await heard.until(1);
    assert.deepEqual(heard.raws, ['"0xt"']);
  });
});
