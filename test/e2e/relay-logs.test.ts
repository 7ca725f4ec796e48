import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ServiceSuppliers } from "@turnpike/relay";
import { eventually } from "@turnpike/testkit";
import { type ChainNode, callAll, hex, metricOf, type RpcReply, sell, startChain } from "./relay-chain.ts";
import { type NodeCall, type RelayBend, type RelayRig, rpc, rpcAt, send, startRelay } from "./relay-rig.ts";

const ADDRESS = `0x${"1".repeat(40)}`;
const TIP = 1_000;

/** A log as this node writes it: with spaces, so that a list that was built anew differs. */
function logAt(height: number, index: number): string {
  const word = (value: number): string => `0x${value.toString(16).padStart(64, "0")}`;
  return `{"address": "${ADDRESS}", "blockNumber": "${hex(height)}", "blockHash": "${word(height)}", "data": "0x", "logIndex": "${hex(index)}", "topics": ["${word(7)}"], "transactionHash": "${word(height * 8 + index)}", "transactionIndex": "${hex(index)}", "removed": false}`;
}

/** Two logs in each third block. */
function logsOf(from: number, to: number): readonly string[] {
  const logs: string[] = [];
  for (let height = from; height <= to; height++) {
    if (height % 3 === 0) logs.push(logAt(height, 0), logAt(height, 1));
  }
  return logs;
}

const REFUSAL = ',"error":{"code":-32005,"message":"query returned more than 10000 results"}';

function rangeOf({ params }: NodeCall, height: number): { readonly from: number; readonly to: number } {
  const { fromBlock, toBlock = "latest" } = params[0] as { fromBlock: string; toBlock?: string };
  const to = toBlock === "latest" ? height : Number(toBlock);
  return { from: fromBlock === "earliest" ? 0 : Number(fromBlock), to: Math.min(height, to) };
}

/** A node that gives so many blocks' logs at once; `spoil` may answer for a range in its place. */
async function startLogs(
  maxBlocks: number,
  spoil?: (from: number, to: number) => string | undefined,
): Promise<ChainNode> {
  const node = await startChain(TIP);
  node.say = (call) => {
    if (call.method !== "eth_getLogs") return undefined;
    const { from, to } = rangeOf(call, node.height);
    if (to - from + 1 > maxBlocks) return REFUSAL;
    return spoil?.(from, to) ?? `[ ${logsOf(from, to).join(",")} ]`;
  };
  return node;
}

const rigOf = (
  nodes: readonly ChainNode[],
  set: Partial<ServiceSuppliers> = {},
  bend: RelayBend = {},
): Promise<RelayRig> => startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { set, random: () => 0, ...bend });

const filter = (from: number | string, to: number | string): string => {
  const show = (block: number | string): string => (typeof block === "number" ? hex(block) : block);
  return JSON.stringify([{ fromBlock: show(from), toBlock: show(to), address: ADDRESS }]);
};

const ask = async (rig: RelayRig, from: number | string, to: number | string, id = "7"): Promise<string> =>
  (await send(rig, rpc(id, "eth_getLogs", filter(from, to)))).text;

const whole = (from: number, to: number, id = "7"): string =>
  `{"jsonrpc":"2.0","id":${id},"result":[${logsOf(from, to).join(",")}]}`;

describe("eth_getLogs that is too much for suppliers", () => {
  test("comes in halves of halves, joined in order, each byte as suppliers wrote it", async () => {
    await using node = await startLogs(40);
    await using rig = await rigOf([node]);
    assert.equal(await ask(rig, 100, 500), whole(100, 500));
    assert.equal(await ask(rig, 301, 401, '"é\\u00e9"'), whole(301, 401, '"é\\u00e9"'));
    assert.ok(node.calls.length > 10);
    assert.equal(await metricOf(rig, "turnpike_relay_split_logs_total", 'result="joined"'), 2);
  });

  test("is right for ranges of all lengths, where many blocks have no logs", async () => {
    await using node = await startLogs(3);
    await using rig = await rigOf([node]);
    for (const [from, to] of [
      [10, 10],
      [10, 11],
      [10, 12],
      [10, 14],
      [9, 40],
      [1, 2],
      [0, 5],
    ] as const) {
      const { result } = JSON.parse(await ask(rig, from, to)) as RpcReply;
      assert.deepEqual(
        result,
        logsOf(from, to).map((log) => JSON.parse(log) as unknown),
        `${from} to ${to}`,
      );
    }
  });

  test("has open ends: up to the newest block, whatever that is then", async () => {
    await using node = await startLogs(40);
    await using rig = await rigOf([node]);
    assert.equal(await ask(rig, 900, "latest"), whole(900, TIP));
    const open = (await send(rig, rpc("7", "eth_getLogs", JSON.stringify([{ fromBlock: hex(901), address: ADDRESS }]))))
      .text;
    assert.equal(open, whole(901, TIP));
    const last = node.calls.at(-1);
    assert.ok(
      node.calls.some(({ id, params }) => id === "1" && (params[0] as { toBlock?: string }).toBlock === "latest"),
      JSON.stringify(last),
    );
    // Another block came meanwhile: the open part has it.
    node.height = TIP + 2;
    assert.equal(await ask(rig, 902, "latest"), whole(902, TIP + 2));
  });

  test("may name blocks that are not there yet", async () => {
    await using node = await startLogs(40);
    await using rig = await rigOf([node]);
    assert.equal(await ask(rig, 850, 0xffff_ffff), whole(850, TIP));
    assert.ok(node.calls.length < 12, `${node.calls.length} calls`);
  });

  test("comes in slices from the start where the operator says so", async () => {
    await using node = await startLogs(1_000);
    await using rig = await rigOf([node], { logs: { maxBlocks: 50, maxParts: 32 } });
    assert.equal(await ask(rig, 100, 500), whole(100, 500));
    assert.equal(node.calls.length, 9);
    assert.equal(await ask(rig, 100, 149), whole(100, 149).replace("[", "[ ").replace(/\]\}$/, " ]}"));
    assert.equal(node.calls.length, 10);
  });

  test("of more parts than are allowed gets the supplier's own refusal, with the client's id", async () => {
    await using node = await startLogs(5);
    await using rig = await rigOf([node], { logs: { maxBlocks: undefined, maxParts: 8 } });
    assert.equal(await ask(rig, 0, 900, '"mine"'), `{"jsonrpc":"2.0","id":"mine"${REFUSAL}}`);
    assert.ok(node.calls.length <= 12, `${node.calls.length} calls`);
    assert.equal(await metricOf(rig, "turnpike_relay_split_logs_total", 'result="failed"'), 1);
    await using sliced = await rigOf([node], { logs: { maxBlocks: 5, maxParts: 8 } });
    assert.equal(await ask(sliced, 0, 900, "1.0"), `{"jsonrpc":"2.0","id":1.0${REFUSAL}}`);
  });

  test("is no part of an answer when one part fails", async () => {
    const broken = (from: number): string | undefined =>
      from > 300 ? ',"error":{"code":-32603,"message":"disk"}' : undefined;
    await using node = await startLogs(100, broken);
    await using rig = await rigOf([node]);
    const reply = JSON.parse(await ask(rig, 100, 500)) as RpcReply;
    assert.equal(reply.id, 7);
    assert.ok(reply.result === undefined && reply.error !== undefined, JSON.stringify(reply).slice(0, 100));
    // With another supplier for the broken part, it is whole.
    await using good = await startLogs(100);
    await using both = await rigOf([node, good]);
    assert.equal(await ask(both, 100, 500), whole(100, 500));
  });

  test("is taken apart, too, when the next supplier has troubles of its own", async () => {
    await using node = await startLogs(100);
    await using limited = await startLogs(100);
    limited.say = () => ',"error":{"code":-32005,"message":"rate limit exceeded"}';
    await using rig = await rigOf([node, limited]);
    assert.equal(await ask(rig, 100, 500), whole(100, 500));
  });

  test("is asked in few parts at once", async () => {
    await using node = await startLogs(20);
    await using rig = await rigOf([node], { logs: { maxBlocks: undefined, maxParts: 100 } });
    node.isHanging = true;
    let isOver = false;
    const answer = ask(rig, 100, 500).finally(() => {
      isOver = true;
    });
    const held: number[] = [];
    const others: Promise<unknown>[] = [];
    while (!isOver) {
      const before = node.count("eth_getLogs");
      const marks = node.count("eth_getBalance");
      await eventually("as many parts as go at once, or the end", () => isOver || node.count("eth_getLogs") > before);
      // What was asked with them is there before what is asked after them.
      others.push(send(rig, rpc("8", "eth_getBalance", `["0x${String(marks).padStart(40, "0")}","latest"]`)));
      await eventually("a later call", () => node.count("eth_getBalance") > marks);
      held.push(node.count("eth_getLogs") - before);
      node.release();
    }
    node.release();
    assert.equal(await answer, whole(100, 500));
    await Promise.all(others);
    assert.equal(Math.max(...held), 4, held.join());
  });

  test("is no list when a part is none", async () => {
    await using node = await startLogs(100, (from) => (from > 300 ? '{"not":"a list"}' : undefined));
    await using rig = await rigOf([node]);
    const reply = JSON.parse(await ask(rig, 100, 500)) as RpcReply;
    assert.ok(reply.result === undefined && reply.id === 7);
  });

  test("is bounded in bytes, all parts together", async () => {
    await using node = await startLogs(100);
    await using rig = await rigOf([node], {}, { relay: { maxAnswerBytes: 60_000, streamAfterBytes: 60_000 } });
    const reply = JSON.parse(await ask(rig, 0, 900)) as RpcReply;
    assert.ok(reply.result === undefined && reply.id === 7);
    assert.equal(await ask(rig, 0, 150), whole(0, 150));
  });

  test("comes whole in a batch, next to other calls", async () => {
    await using node = await startLogs(40);
    await using rig = await rigOf([node]);
    const replies = await callAll(rig, [
      rpc("1", "eth_getLogs", filter(100, 300)),
      rpc("2", "eth_gasPrice"),
      rpc("3", "eth_getLogs", filter(400, 410)),
      rpc("4", "eth_getLogs", filter(100, 300)),
    ]);
    const parsed = (from: number, to: number): unknown => logsOf(from, to).map((log) => JSON.parse(log) as unknown);
    assert.deepEqual(
      replies.map(({ id, result }) => [id, result]),
      [
        [1, parsed(100, 300)],
        [2, "0x5"],
        [3, parsed(400, 410)],
        [4, parsed(100, 300)],
      ],
    );
  });

  test("comes whole when it is sold, each part confirmed by a second supplier", async () => {
    await using a = await startLogs(40);
    await using b = await startLogs(60);
    await using rig = await rigOf([a, b]);
    const result = await sell(rig, "eth_getLogs", JSON.parse(filter(100, 300)) as unknown[]);
    assert.ok(result.ok, JSON.stringify(result));
    assert.equal(Buffer.from(result.body).toString(), whole(100, 300, "1"));
    assert.equal(result.schemaCheck, "passed");
  });

  test("is not sold when suppliers contradict each other about a part", async () => {
    await using a = await startLogs(40);
    await using liar = await startLogs(40, (from) => (from > 200 ? "[]" : undefined));
    await using rig = await rigOf([a, liar]);
    const result = await sell(rig, "eth_getLogs", JSON.parse(filter(100, 300)) as unknown[]);
    assert.ok(!result.ok);
    assert.equal(result.code, "SUPPLIERS_DISAGREE");
  });

  test("is passed on as refused with the flag off, and for what cannot be taken apart", async () => {
    await using node = await startLogs(40);
    await using rig = await rigOf([node]);
    for (const params of ['[{"fromBlock":"latest","toBlock":"0x1"}]', "[{}]", '["0x1"]', "[]"]) {
      node.say = () => REFUSAL;
      const { text } = await send(rig, rpc("7", "eth_getLogs", params));
      assert.equal(text, `{"jsonrpc":"2.0","id":7${REFUSAL}}`);
    }
    rig.relay.setFlag("log_splitting", false);
    const before = node.calls.length;
    assert.equal(await ask(rig, 100, 500), `{"jsonrpc":"2.0","id":7${REFUSAL}}`);
    assert.equal(node.calls.length, before + 1);
  });
});
