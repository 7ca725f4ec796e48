import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Log, silentLog } from "@turnpike/base";
import type { ServiceSuppliers } from "@turnpike/relay";
import { paymentHeader, standInPayment } from "../../packages/gateway/test/stand-ins.ts";
import {
  blockAt,
  type ChainNode,
  call,
  callAll,
  hex,
  metricOf,
  passAfterAnswer,
  sell,
  shown,
  startChain,
} from "./relay-chain.ts";
import { type RelayBend, type RelayRig, rpc, rpcAt, send, startRelay } from "./relay-rig.ts";

const ADDRESS = `0x${"1".repeat(40)}`;
const AT_16 = [ADDRESS, "0x10"] as const;
const LIE = '"0xbad"';

/** In the order of their list, so that a test knows who is asked first. */
const rigOf = (
  nodes: readonly ChainNode[],
  set: Partial<ServiceSuppliers> = {},
  bend: RelayBend = {},
): Promise<RelayRig> => startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { random: () => 0, set, ...bend });

const WORD = `0x${"0".repeat(64)}`;
/** What a block has besides its place in the chain. */
const REST = {
  nonce: "0x0000000000000000",
  sha3Uncles: WORD,
  logsBloom: `0x${"0".repeat(512)}`,
  transactionsRoot: WORD,
  stateRoot: WORD,
  receiptsRoot: WORD,
  mixHash: WORD,
  miner: ADDRESS,
  difficulty: "0x0",
  totalDifficulty: "0x0",
  extraData: "0x",
  size: "0x1",
  gasLimit: "0x1",
  gasUsed: "0x0",
  timestamp: "0x1",
  transactions: [],
  uncles: [],
};

const checks = (rig: RelayRig, result: string): Promise<number> =>
  metricOf(rig, "turnpike_relay_cross_checks_total", `result="${result}"`);

const scoreOf = (rig: RelayRig, at: number): number => rig.relay.inspect()[0]?.suppliers[at]?.score ?? Number.NaN;

const RULES = { sold: 2, free: 1, methods: {}, strict: false } as const;

describe("what is sold", () => {
  for (const at of [0, 1, 2]) {
    test(`is what two of three agree on, whichever lies: ${at}`, async () => {
      const nodes = await Promise.all([startChain(), startChain(), startChain()]);
      await using stack = new AsyncDisposableStack();
      for (const node of nodes) stack.use(node);
      const liar = nodes[at];
      assert.ok(liar !== undefined);
      liar.say = ({ method }) => (method === "eth_getBalance" ? LIE : undefined);
      await using rig = await rigOf(nodes);
      for (let i = 0; i < 12; i++) {
        assert.equal(shown(await sell(rig, "eth_getBalance", [ADDRESS, hex(i + 1)])), '"0x5"');
      }
      assert.equal(await checks(rig, "agreed"), 12);
      if (at < 2) assert.ok(scoreOf(rig, at) < 60, `score ${scoreOf(rig, at)}`);
      for (const other of [0, 1, 2])
        if (other !== at) assert.ok(scoreOf(rig, other) > 70, `other ${scoreOf(rig, other)}`);
    });
  }

  test("is what two of three agree on when the third hangs, long before the deadline", async () => {
    await using hangs = await startChain();
    await using b = await startChain();
    await using c = await startChain();
    hangs.isHanging = true;
    await using rig = await rigOf([hangs, b, c], {}, { timeoutMs: 20_000 });
    const sold = sell(rig, "eth_getBalance", AT_16, 20_000);
    await passAfterAnswer(rig, 1_050);
    assert.equal(shown(await sold), '"0x5"');
    assert.equal(await checks(rig, "agreed"), 1);
    await Promise.all(hangs.hung);
  });

  test("is the other's answer when one of two hangs, within the deadline", async () => {
    await using hangs = await startChain();
    await using b = await startChain();
    hangs.isHanging = true;
    await using rig = await rigOf([hangs, b]);
    const sold = sell(rig, "eth_getBalance", AT_16, 6_000);
    // The attempt's own time, and no more of the deadline's.
    await passAfterAnswer(rig, 1_050);
    assert.equal(shown(await sold), '"0x5"');
    assert.equal(await checks(rig, "unconfirmed"), 1);
  });

  test("is nothing when two contradict each other about a fixed block", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.say = ({ method }) => (method === "eth_getBalance" ? LIE : undefined);
    const warned: unknown[] = [];
    const log: Log = { ...silentLog, warn: (...line) => void warned.push(line), child: () => log };
    await using rig = await rigOf([a, b], {}, { log });
    const result = await sell(rig, "eth_getBalance", AT_16);
    assert.equal(shown(result), "SUPPLIERS_DISAGREE");
    assert.equal(shown(await sell(rig, "eth_getBalance", AT_16)), "SUPPLIERS_DISAGREE");
    assert.equal(await checks(rig, "disagreed"), 2);
    // Once a minute: whoever buys can ask again and again.
    const facts = { service: "eth", operation: "eth_getBalance", operators: ["op0", "op1"] };
    assert.deepEqual(warned, [[facts, "suppliers disagree, and there is no majority"]]);
    assert.equal(scoreOf(rig, 0), scoreOf(rig, 1));
  });

  test("through the gateway: the payment is released and the buyer is told", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.say = ({ method }) => (method === "eth_getBalance" ? LIE : undefined);
    const payment = standInPayment();
    await using rig = await rigOf([a, b], {}, { modules: { payment } });
    const headers = { "payment-signature": paymentHeader(), "content-type": "application/json" };
    const body = JSON.stringify({ method: "eth_getBalance", params: AT_16 });
    const got = await send(rig, body, { host: "127.0.0.1", path: "/v1/eth", headers });
    assert.equal(got.status, 503, got.text);
    assert.match(got.text, /nothing was charged/);
    assert.ok(!got.text.includes("0xbad") && !got.text.includes('"0x5"'));
    assert.deepEqual(payment.calls, ["decode", "admit", "release SUPPLIERS_DISAGREE"]);
    a.say = undefined;
    const good = await send(rig, body, { host: "127.0.0.1", path: "/v1/eth", headers });
    assert.equal(good.status, 200, good.text);
    assert.deepEqual(payment.calls.slice(3), ["decode", "admit", "settle"]);
  });

  test("about the newest block may differ between two: the newer is sold, and counted", async () => {
    await using a = await startChain(1_000);
    await using b = await startChain(1_001);
    await using rig = await rigOf([a, b]);
    for (const node of [a, b]) {
      node.say = ({ method }) =>
        method === "eth_getBalance" ? `"${hex(node.height)}"` : JSON.stringify({ ...blockAt(node.height), ...REST });
    }
    assert.match(shown(await sell(rig, "eth_getBlockByNumber", ["latest", true])), /"number":"0x3e9"/);
    assert.match(shown(await sell(rig, "eth_getBalance", [ADDRESS, "latest"])), /^"0x3e[89]"$/);
    assert.ok((await checks(rig, "unconfirmed")) >= 1);
    assert.equal(await checks(rig, "disagreed"), 0);
    for (const at of [0, 1]) assert.ok(scoreOf(rig, at) > 70);
  });

  test("about a fixed block is held against it, though two suppliers spell it in their own ways", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.say = ({ method }) => (method === "eth_getBalance" ? '"0xABC"' : undefined);
    b.say = ({ method }) => (method === "eth_getBalance" ? ' "0xabc" ' : undefined);
    await using rig = await rigOf([a, b]);
    assert.equal(shown(await sell(rig, "eth_getBalance", AT_16)).toLowerCase(), '"0xabc"');
    assert.equal(await checks(rig, "agreed"), 1);
  });

  test("is a revert when both revert, and nobody is blamed", async () => {
    await using a = await startChain();
    await using b = await startChain();
    for (const node of [a, b]) {
      node.say = ({ method }) =>
        method === "eth_call" ? ',"error":{"code":3,"message":"execution reverted","data":"0x01"}' : undefined;
    }
    await using rig = await rigOf([a, b]);
    assert.match(shown(await sell(rig, "eth_call", [{ to: ADDRESS }, "0x10"])), /execution reverted/);
    for (const at of [0, 1]) assert.ok(scoreOf(rig, at) > 70);
  });

  test("is given by one operator where there are no more, and counted", async () => {
    await using a = await startChain();
    await using rig = await rigOf([a]);
    assert.equal(shown(await sell(rig, "eth_getBalance", AT_16)), '"0x5"');
    assert.equal(await checks(rig, "too_few"), 1);
    assert.equal(a.calls.length, 1);
  });

  test("in strict mode is nothing that is not confirmed", async () => {
    await using a = await startChain();
    await using b = await startChain();
    const crossCheck = { ...RULES, strict: true };
    await using alone = await rigOf([a], { crossCheck });
    assert.equal(shown(await sell(alone, "eth_getBalance", AT_16)), "SUPPLIERS_DISAGREE");
    await using two = await rigOf([a, b], { crossCheck });
    assert.equal(shown(await sell(two, "eth_getBalance", AT_16)), '"0x5"');
    b.isHanging = true;
    const unconfirmed = sell(two, "eth_getBalance", AT_16, 1_000);
    await passAfterAnswer(two, 1_050);
    assert.equal(shown(await unconfirmed), "SUPPLIERS_DISAGREE");
  });

  test("is compared as the rules say for its method, and not at all with the flag off", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using c = await startChain();
    const nodes = [a, b, c];
    const asked = (): number => nodes.reduce((sum, { calls }) => sum + calls.length, 0);
    for (const node of nodes) node.say = ({ method }) => (method === "eth_getCode" ? '"0x"' : undefined);
    const crossCheck = { ...RULES, methods: { eth_getBalance: 3, eth_getCode: 1 } };
    await using rig = await rigOf(nodes, { crossCheck });
    const cost = async (method: string): Promise<number> => {
      const before = asked();
      await sell(rig, method, AT_16);
      return asked() - before;
    };
    assert.deepEqual(
      [await cost("eth_getBalance"), await cost("eth_getCode"), await cost("eth_getTransactionCount")],
      [3, 1, 2],
    );
    // What suppliers may rightly answer in several ways is not compared.
    assert.equal(shown(await sell(rig, "eth_estimateGas", [{ to: ADDRESS }])), '"0x5"');
    assert.equal(
      nodes.reduce((sum, node) => sum + node.count("eth_estimateGas"), 0),
      1,
    );
    rig.relay.setFlag("cross_validation", false);
    assert.equal(await cost("eth_getBalance"), 1);
  });

  test("is not confirmed by two endpoints of one operator", async () => {
    await using a = await startChain();
    await using b = await startChain();
    const endpoints = [a, b].map(({ url }) => ({ operator: "one", urls: { json_rpc: url } }));
    await using rig = await startRelay({ eth: endpoints });
    assert.equal(shown(await sell(rig, "eth_getBalance", AT_16)), '"0x5"');
    assert.equal(await checks(rig, "too_few"), 1);
  });
});

describe("free answers", () => {
  test("are compared where the operator wants it, in batches, too; the liar's answer is not passed on, nor kept", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using c = await startChain();
    a.say = ({ method }) => (method === "eth_getBalance" ? LIE : undefined);
    await using rig = await rigOf([a, b, c], { crossCheck: { ...RULES, free: 2 } });
    const params = JSON.stringify(AT_16);
    assert.equal((await call(rig, "eth_getBalance", params)).result, "0x5");
    const replies = await callAll(rig, [
      rpc("1", "eth_getBalance", JSON.stringify([ADDRESS, "0x11"])),
      rpc("2", "eth_getBlockByNumber", '["0x10",false]'),
      rpc("3", "eth_blockNumber"),
      rpc("4", "eth_getBalance", params),
    ]);
    assert.deepEqual(
      replies.map(({ result }) => result),
      ["0x5", blockAt(16), "0x3e8", "0x5"],
    );
    assert.ok(scoreOf(rig, 0) < 80);
  });

  test("that contradict each other are an error with the client's id", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.say = ({ method }) => (method === "eth_getBalance" ? LIE : undefined);
    await using rig = await rigOf([a, b], { crossCheck: { ...RULES, free: 2 } });
    const { id, error } = await call(rig, "eth_getBalance", JSON.stringify(AT_16), '"mine"');
    assert.equal(id, "mine");
    assert.match(error?.message ?? "", /different answers/);
    const [one, two] = await callAll(rig, [
      rpc('"x"', "eth_getBalance", JSON.stringify(AT_16)),
      rpc("2", "eth_gasPrice"),
    ]);
    assert.equal(one?.id, "x");
    assert.match(one?.error?.message ?? "", /different answers/);
    assert.equal(two?.result, "0x5");
  });
});
