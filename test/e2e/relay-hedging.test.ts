import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import {
  type ChainNode,
  call,
  callAll,
  hex,
  metricOf,
  passAfterAnswer,
  type RpcReply,
  sell,
  startChain,
} from "./relay-chain.ts";
import { type RelayBend, type RelayRig, rpc, rpcAt, send, startRelay } from "./relay-rig.ts";

const ADDRESS = `0x${"1".repeat(40)}`;
const at = (height: number): string => JSON.stringify([ADDRESS, hex(height)]);

/** In the order of their list while nothing is held against any. */
const rigOf = (nodes: readonly ChainNode[], bend: RelayBend = {}): Promise<RelayRig> =>
  startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { random: () => 0, ...bend });

const asked = (nodes: readonly ChainNode[]): number => nodes.reduce((sum, { calls }) => sum + calls.length, 0);

/** Makes the relay know how long these calls take: no time at all, so that a hedge comes after the least time. */
async function warm(rig: RelayRig): Promise<void> {
  for (let i = 0; i < 60; i++) await call(rig, "eth_getBalance", at(i));
  // What is usual is not reckoned anew with each call.
  rig.clock.advance(300);
}

/** Long enough for a hedge of a call of which the usual time is known. */
const HEDGE_MS = 50;
/** The same of a call of which it is not. */
const UNKNOWN_HEDGE_MS = 1_050;

const hedges = (rig: RelayRig, result: string): Promise<number> =>
  metricOf(rig, "turnpike_relay_hedges_total", `result="${result}"`);

/** Far longer than a test lets pass. */
const LONG = { timeoutMs: 60_000, gateway: { upstreamTimeoutMs: 60_000 } } as const;

describe("a supplier that hangs", () => {
  test("is overtaken by another after the usual time, let go, and held to account", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b], LONG);
    rig.relay.setFlag("cache", false);
    await warm(rig);
    const before = rig.relay.inspect()[0]?.suppliers[0]?.score ?? 0;
    a.isHanging = true;
    a.onHang = () => rig.clock.advance(HEDGE_MS);
    assert.equal((await call(rig, "eth_getBalance", at(200))).result, "0x5");
    assert.equal(a.hung.length, 1);
    await Promise.all(a.hung);
    assert.equal(await hedges(rig, "won"), 1);
    const [first] = rig.relay.inspect()[0]?.suppliers ?? [];
    assert.ok((first?.score ?? 0) < before, `${first?.score} after ${before}`);
  });

  test("is overtaken before anything is known of such calls, too", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.isHanging = true;
    await using rig = await rigOf([a, b], LONG);
    a.onHang = () => rig.clock.advance(UNKNOWN_HEDGE_MS);
    assert.equal((await call(rig, "eth_getBalance", at(1))).result, "0x5");
    await Promise.all(a.hung);
  });

  test("does not hold up what is sold", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using c = await startChain();
    await using rig = await rigOf([a, b, c], LONG);
    a.isHanging = true;
    for (let i = 0; i < 5; i++) {
      const sold = sell(rig, "eth_getBalance", [ADDRESS, hex(i)], 60_000);
      await passAfterAnswer(rig, UNKNOWN_HEDGE_MS);
      const result = await sold;
      assert.ok(result.ok, JSON.stringify(result));
    }
    await Promise.all(a.hung);
  });

  test("does not hold up a batch for longer than half of its time", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b], LONG);
    a.isHanging = true;
    a.onHang = ({ length }) =>
      rig.clock.advance(length > 1 ? LONG.gateway.upstreamTimeoutMs / 2 + 50 : UNKNOWN_HEDGE_MS);
    const replies = await callAll(rig, [rpc("1", "eth_getBalance", at(1)), rpc('"b"', "eth_getBalance", at(2))]);
    assert.deepEqual(
      replies.map(({ id, result }) => [id, result]),
      [
        [1, "0x5"],
        ["b", "0x5"],
      ],
    );
  });
});

describe("hedges", () => {
  test("are never for writes and filter calls: each is delivered exactly once", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b], { timeoutMs: 1_500 });
    await warm(rig);
    const { result: filter } = JSON.parse((await send(rig, rpc("9", "eth_newBlockFilter"))).text) as RpcReply;
    const before = asked([a, b]);
    const hedged = async (): Promise<number> => (await hedges(rig, "won")) + (await hedges(rig, "lost"));
    const hedgedBefore = await hedged();
    for (const node of [a, b]) node.isHanging = true;
    const once = [
      rpc("1", "eth_sendRawTransaction", '["0x02"]'),
      rpc("2", "eth_newFilter", "[{}]"),
      rpc("3", "eth_getFilterChanges", JSON.stringify([filter])),
      rpc("4", "eth_uninstallFilter", JSON.stringify([filter])),
      rpc("5", "made_upMethod", "[]"),
    ];
    const asking = Promise.all(once.map(async (one) => JSON.parse((await send(rig, one)).text) as RpcReply));
    await eventually("all are there", () => asked([a, b]) - before === once.length);
    // A read after them is hedged: by then they would have been, too.
    const read = call(rig, "eth_getBalance", at(200));
    await eventually("so is the read", () => asked([a, b]) - before === once.length + 1);
    rig.clock.advance(1_000);
    await eventually("the read's hedge is there", () => asked([a, b]) - before > once.length + 1);
    rig.clock.advance(2_000);
    assert.ok((await read).error !== undefined);
    const replies = await asking;
    for (const [index, { id, error }] of replies.entries()) {
      assert.equal(id, index + 1);
      assert.ok(error !== undefined);
    }
    assert.equal(asked([a, b]) - before, once.length + 2);
    for (const one of once) {
      const { method } = JSON.parse(one) as { readonly method: string };
      assert.equal(a.count(method) + b.count(method), 1, method);
    }
    assert.equal(await hedged(), hedgedBefore);
  });

  test("are few when all suppliers have become slow", async () => {
    await using a = await startChain();
    await using b = await startChain();
    const nodes = [a, b];
    await using rig = await rigOf(nodes, { timeoutMs: 10_000, gateway: LONG.gateway });
    rig.relay.setFlag("cache", false);
    await warm(rig);
    for (const node of nodes) node.isHanging = true;
    const before = asked(nodes);
    const [calls, round] = [300, 50];
    const counted = async (): Promise<number> => (await hedges(rig, "won")) + (await hedges(rig, "lost"));
    let extra = 0;
    for (let from = 0; from < calls; from += round) {
      const countedBefore = await counted();
      const own = Array.from({ length: round }, (_, i) => at(from + i + 1_000_000));
      // A hedge of the round before may still arrive.
      const arrived = (): string[] =>
        nodes
          .flatMap(({ calls: all }) => all.map(({ params }) => JSON.stringify(params)))
          .filter((one) => own.includes(one));
      const asking = own.map((params) => call(rig, "eth_getBalance", params));
      await eventually("all hang", () => new Set(arrived()).size === round);
      // A hedge comes after half of the attempt's time at the latest.
      rig.clock.advance(5_050);
      await eventually("what may be hedged is", () => arrived().length > round);
      for (const node of nodes) node.release();
      await Promise.all(asking);
      extra += (await counted()) - countedBefore;
    }
    const most = 10 + calls / 10;
    assert.ok(extra > 0 && extra <= most, `${extra} more calls by the relay's count`);
    // What the suppliers saw, whether the relay counts it or not.
    const arrived = asked(nodes) - before - calls;
    assert.ok(arrived > 0 && arrived <= most, `${arrived} more calls at the suppliers`);
  });

  test("that come too late are let go", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b], LONG);
    await warm(rig);
    for (const node of [a, b]) node.isHanging = true;
    a.onHang = () => rig.clock.advance(HEDGE_MS);
    const { promise: hedged, resolve: sayHedged } = Promise.withResolvers<void>();
    b.onHang = () => sayHedged();
    const answer = call(rig, "eth_getBalance", at(200));
    await hedged;
    a.release();
    assert.equal((await answer).result, "0x5");
    await Promise.all(b.hung);
    assert.equal(await hedges(rig, "lost"), 1);
  });

  for (const way of ["flag", "quantile"]) {
    test(`are none with the ${way} off`, async () => {
      await using a = await startChain();
      await using b = await startChain();
      const hedgeQuantile = way === "quantile" ? 1 : 0.95;
      const timeoutMs = 1_000;
      const gateway = { upstreamTimeoutMs: 60_000 };
      await using rig = await rigOf([a, b], { timeoutMs, gateway, relay: { hedgeQuantile } });
      await warm(rig);
      if (way === "flag") rig.relay.setFlag("hedging", false);
      a.isHanging = true;
      // A hedge would come before the attempt's own end, and win.
      a.onHang = () => rig.clock.advance(timeoutMs + 50);
      assert.equal((await call(rig, "eth_getBalance", at(200))).result, "0x5");
      assert.deepEqual([await hedges(rig, "won"), await hedges(rig, "lost")], [0, 0]);
    });
  }
});

describe("what an operator can do", () => {
  const ETH = "eth" as Parameters<RelayRig["relay"]["resetScore"]>[0];

  test("takes a supplier out and puts it back", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b]);
    const round = async (from: number): Promise<void> => {
      for (let i = 0; i < 5; i++) await call(rig, "eth_getBalance", at(from + i));
      await callAll(rig, [rpc("1", "eth_getBalance", at(from + 10)), rpc("2", "eth_getBalance", at(from + 11))]);
      await call(rig, "eth_sendRawTransaction", '["0x02"]');
      await send(rig, rpc(undefined, "eth_sendRawTransaction", '["0x03"]'));
      const result = await sell(rig, "eth_getBalance", [ADDRESS, hex(from + 12)]);
      assert.ok(result.ok);
    };
    assert.equal(rig.relay.setDrained(ETH, "op0", true), true);
    assert.equal(rig.relay.setDrained(ETH, "unknown", true), false);
    assert.equal(rig.relay.setDrained("base" as typeof ETH, "op0", true), false);
    await round(0);
    assert.equal(a.calls.length, 0);
    assert.ok(b.calls.length > 0);
    assert.equal(rig.relay.setDrained(ETH, "op0", false), true);
    await round(100);
    assert.ok(a.calls.length > 0);
  });

  test("takes them all out: 503, and /ready says so", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b]);
    const made = await call(rig, "eth_newFilter", "[{}]");
    for (const operator of ["op0", "op1"]) rig.relay.setDrained(ETH, operator, true);
    const before = asked([a, b]);
    const got = await send(rig, rpc('"x"', "eth_getBalance", at(1)));
    assert.equal(got.status, 503);
    const { id, error } = JSON.parse(got.text) as RpcReply;
    assert.equal(id, "x");
    assert.ok(error !== undefined);
    const [one, two] = await callAll(rig, [rpc("1", "eth_gasPrice"), rpc("2", "eth_getBalance", at(2))]);
    assert.ok(one?.error !== undefined && two?.error !== undefined);
    const used = await call(rig, "eth_getFilterChanges", JSON.stringify([made.result]));
    assert.ok(used.error !== undefined);
    assert.equal(asked([a, b]), before);
    assert.deepEqual(rig.relay.missing(ETH), ["a supplier that is not drained"]);
    const ready = await send(rig, "", { host: "127.0.0.1", path: "/ready/eth", method: "GET" });
    assert.equal(ready.status, 503, ready.text);
    assert.match(ready.text, /not drained/);
    rig.relay.setDrained(ETH, "op1", false);
    assert.equal((await call(rig, "eth_getBalance", at(3))).result, "0x5");
  });

  test("resets the score, and the breaker is closed", async () => {
    await using a = await startChain();
    await using b = await startChain();
    a.say = () => ',"jsonrpc":"1.0"';
    await using rig = await rigOf([a, b]);
    rig.relay.setDrained(ETH, "op1", true);
    for (let i = 0; i < 3; i++) await call(rig, "eth_getBalance", at(i));
    rig.relay.setDrained(ETH, "op1", false);
    const standing = (): unknown => {
      const { breaker, score } = rig.relay.inspect(ETH)[0]?.suppliers[0] ?? {};
      return { breaker, isGood: (score ?? 0) > 75 };
    };
    assert.deepEqual(standing(), { breaker: "open", isGood: false });
    a.say = undefined;
    assert.equal(rig.relay.resetScore(ETH, "op0"), true);
    assert.equal(rig.relay.resetScore(ETH, "unknown"), false);
    assert.deepEqual(standing(), { breaker: "closed", isGood: true });
    const before = a.calls.length;
    assert.equal((await call(rig, "eth_getBalance", at(100))).result, "0x5");
    assert.equal(a.calls.length, before + 1);
  });

  test("sees heights and hosts, and nothing that may hold a key", async () => {
    await using a = await startChain(1_000);
    const { host } = new URL(a.url);
    const endpoints = [
      {
        operator: "keyed",
        urls: { json_rpc: `http://user:secret1@${host}/v3/secret2?key=secret3` },
        headers: { "x-key": "secret4" },
      },
    ];
    await using rig = await startRelay({ eth: endpoints });
    assert.equal((await call(rig, "eth_getBalance", at(1))).result, "0x5");
    const views = rig.relay.inspect();
    assert.doesNotMatch(JSON.stringify(views), /secret|v3|user/);
    assert.deepEqual(rig.relay.inspect("base" as typeof ETH), []);
    const [view] = views;
    assert.equal(view?.tipBlocks, 1_000);
    const [supplier] = view?.suppliers ?? [];
    assert.equal(supplier?.heightBlocks, 1_000);
    assert.equal(supplier?.isHealthy, true);
    assert.match(supplier?.host ?? "", /^127\.0\.0\.1/);
    assert.doesNotMatch(await rig.metrics(), /secret/);
  });
});

describe("a shutdown while calls are in flight", () => {
  test("gives every client an error with its id, and nothing hangs", async () => {
    await using a = await startChain();
    await using b = await startChain();
    const rig = await rigOf([a, b], LONG);
    for (const node of [a, b]) node.isHanging = true;
    const singles = Array.from({ length: 10 }, (_, i) => call(rig, "eth_getBalance", at(i), String(i)));
    const batch = callAll(rig, [
      rpc('"a"', "eth_getBalance", at(50)),
      rpc('"b"', "eth_getBalance", at(51)),
      rpc('"c"', "eth_sendRawTransaction", '["0x1"]'),
      rpc('"d"', "eth_getLogs", '[{"fromBlock":"0x1","toBlock":"0x2"}]'),
    ]);
    await eventually("all are there", () => asked([a, b]) === 14);
    await Promise.all([rig[Symbol.asyncDispose](), ...a.hung, ...b.hung]);
    for (const [i, reply] of (await Promise.all(singles)).entries()) {
      assert.equal(reply.id, i);
      assert.ok(reply.error !== undefined);
    }
    assert.deepEqual(
      (await batch).map(({ id, error }) => [id, error !== undefined]),
      ["a", "b", "c", "d"].map((id) => [id, true]),
    );
  });

  test("of the relay alone ends what it has sent", async () => {
    await using a = await startChain();
    await using b = await startChain();
    await using rig = await rigOf([a, b], LONG);
    for (const node of [a, b]) node.isHanging = true;
    const results = [
      sell(rig, "eth_getBalance", [ADDRESS, "0x1"], 60_000),
      sell(rig, "eth_getLogs", [{ fromBlock: "0x1", toBlock: "0x9" }], 60_000),
    ];
    await eventually("all are there", () => asked([a, b]) === 4);
    await rig.relay[Symbol.asyncDispose]();
    for (const result of await Promise.all(results)) {
      assert.ok(!result.ok);
      assert.equal(result.code, "SHUTTING_DOWN");
    }
    const late = await sell(rig, "eth_getBalance", [ADDRESS, "0x1"]);
    assert.ok(!late.ok);
    assert.equal(late.code, "SHUTTING_DOWN");
  });
});
