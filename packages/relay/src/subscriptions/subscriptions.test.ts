import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type MetricSpec, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { type SubscriptionOptions, subscriptionDefaults } from "./options.ts";
import { createSubscriptions } from "./subscriptions.ts";
import { FakeChain, type SocketNode, startSocketNode } from "./testing/socket-node.ts";
import { evmTopic } from "./topics.ts";
import type { SubscribeResult, SubscriptionListener, Subscriptions, Topic } from "./types.ts";

const ETH = "eth" as ServiceId;

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
}

async function stage(count: number, change: Partial<SubscriptionOptions> = {}): Promise<Stage> {
  const chain = new FakeChain();
  const nodes = await Promise.all(Array.from({ length: count }, () => startSocketNode(chain)));
  const counts = new Map<string, number>();
  const drained = new Set<string>();
  const add = ({ name }: MetricSpec, by: number): void => void counts.set(name, (counts.get(name) ?? 0) + by);
  const subscriptions = createSubscriptions(
    {
      ...subscriptionDefaults,
      recoveryTimeoutMs: 2_000,
      callTimeoutMs: 500,
      ...change,
      suppliers: { eth: nodes.map(({ url }, at) => ({ operator: `op${at}`, url })) },
    },
    {
      catalogue: createCatalogue().services,
      clock: systemClock,
      log: silentLog,
      metrics: { count: (spec, _labels, by = 1) => add(spec, by), set() {}, observe() {} },
      random: () => 0.5,
      isDrained: (_id, operator) => drained.has(operator),
    },
  );
  return {
    chain,
    nodes,
    subscriptions,
    counts,
    drained,
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
const one = (nodes: readonly SocketNode[]): SocketNode => {
  const used = nodes.find((node) => node.connections > 0);
  assert.ok(used);
  return used;
};

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
      if (i % 50 === 20) for (const node of here.nodes) node.drop();
      await new Promise((resolve) => setTimeout(resolve, 1));
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
    await using here = await stage(1, { recoveryTimeoutMs: 300, subscribeTimeoutMs: 200 });
    const [node] = here.nodes;
    assert.ok(node);
    const heads = listener();
    taken(await here.subscriptions.subscribe(ETH, topic("newHeads"), heads));
    node.isDown = true;
    node.drop();
    await heads.over();
    assert.deepEqual(heads.reasons, ["exhausted"]);
    const refused = await here.subscriptions.subscribe(ETH, topic("newHeads"), listener());
    assert.deepEqual(refused, { ok: false, code: "SUPPLIERS_UNREACHABLE" });
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
});
