import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { jsonText, noMetrics, type RequestId, type ServiceId, type SettlementId, silentLog } from "@turnpike/base";
import { createCatalogue, withRegistered } from "@turnpike/catalogue";
import { type FreeRequest, mintFree, mintPaid, mintParsed, type PaidRequest } from "@turnpike/protocol";
import { eventually, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { type FakeAnswer, FakeSupplierSet, FakeTransport, failureOf } from "../../test/fake-suppliers.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import { parseFreeRpc } from "../families/free-call.ts";
import type { RelayOutcome } from "../types.ts";
import type { RelayEngine } from "./relay-engine.ts";

const ETH = "eth" as ServiceId;
const { services } = createCatalogue({});
const clock = virtualClock();
const eth = services.get(ETH);
assert.ok(eth !== undefined);

const METHOD = "eth_getBalance";

function freeCall(account: string, id = 1): FreeRequest {
  assert.ok(eth !== undefined);
  const params = [account, "latest"];
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, method: METHOD, params }));
  const at = body.indexOf('"id":') + 5;
  const span = { start: at, end: at + String(id).length };
  const read = { body, bodyText: jsonText(body), id: span, rawId: String(id), paramsSpan: undefined, isPlain: true };
  const parsed = parseFreeRpc(eth, { method: METHOD, params, ...read });
  assert.ok(parsed.ok);
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: ETH, call: parsed.call };
  const request = mintParsed({ ...facts, requestHash: new Uint8Array(0) });
  return mintFree({ request, deadlineMs: clock.monotonicMs() + 180_000 });
}

function paidCall(account: string): PaidRequest {
  const { request, deadlineMs } = freeCall(account);
  return mintPaid({ request, deadlineMs, settlementId: "s" as SettlementId });
}

/** A live node of the chain, which has `said` for every balance. */
const node =
  (said: FakeAnswer): FakeAnswer =>
  (sent) => {
    const method = sent.calls[0]?.method;
    if (method === METHOD) return said(sent);
    if (method === "eth_chainId") return '"0x1"';
    return `{"number":"0x64","hash":"0x${"a".repeat(64)}","parentHash":"0x${"b".repeat(64)}"}`;
  };

interface Scene extends AsyncDisposable {
  readonly set: FakeSupplierSet;
  readonly transport: FakeTransport;
  readonly relay: RelayEngine;
}

function sceneOf(
  answers: Readonly<Record<string, FakeAnswer>>,
  change: { readonly hedgeQuantile?: number } = {},
): Scene {
  const transport = new FakeTransport(Object.fromEntries(Object.entries(answers).map(([k, v]) => [k, node(v)])));
  const set = new FakeSupplierSet(transport);
  set.become(Object.keys(answers));
  const rules = { endpoints: [], timeoutMs: 60_000, maxAttempts: 3 };
  // Random numbers of 0 keep suppliers that nothing is known of in their order.
  const relay = createRelayEngine(
    { ...engineOptions, probeIntervalMs: 60_000, ...change, suppliers: { eth: rules } },
    {
      catalogue: services,
      suppliers: new Map([[ETH, set]]),
      clock,
      log: silentLog,
      metrics: noMetrics,
      random: () => 0,
    },
  );
  return { set, transport, relay, [Symbol.asyncDispose]: () => relay[Symbol.asyncDispose]() };
}

const show = (outcome: RelayOutcome): string =>
  outcome.ok ? `${outcome.operator} ${Buffer.from(outcome.body).toString()}` : outcome.code;
const good = (operator: string, said = '"0x5"'): string => `${operator} {"jsonrpc":"2.0","id":1,"result":${said}}`;
const scoreOf = (relay: RelayEngine, operator: string): number | undefined =>
  relay.inspect(ETH)[0]?.suppliers.find((one) => one.operator === operator)?.score;

suite("suppliers of a set that may change", () => {
  test("a supplier over its limit is left out without a penalty, and the next answers", async () => {
    await using to = sceneOf({ a: () => failureOf("over_limit"), b: () => '"0x5"' });
    await to.relay.start();
    const quality = to.relay.memory.quality(eth, "a", "json_rpc");
    const before = quality.score(clock.monotonicMs());
    assert.equal(show(await to.relay.send(freeCall("0x1"))), good("b"));
    assert.deepEqual(to.set.dropped, ["a over_limit"]);
    assert.deepEqual([quality.score(clock.monotonicMs()), quality.isFailing], [before, false]);
    assert.equal(show(await to.relay.send(freeCall("0x2"))), good("b"));
    assert.deepEqual(to.transport.purposesOf(METHOD), ["a client", "b retry", "b client"]);
  });

  test("an answer whose signature is wrong is neither sold nor given away, and its supplier is left out", async () => {
    for (const call of [freeCall, paidCall]) {
      await using to = sceneOf({ a: () => failureOf("bad_signature") });
      await to.relay.start();
      const quality = to.relay.memory.quality(eth, "a", "json_rpc");
      const before = quality.score(clock.monotonicMs());
      assert.equal(show(await to.relay.send(call("0x1"))), "SUPPLIERS_FAILED");
      assert.deepEqual(to.set.dropped, ["a bad_signature"]);
      assert.ok(quality.score(clock.monotonicMs()) < before - 10);
      assert.equal(show(await to.relay.send(call("0x1"))), "NO_SUPPLIERS");
    }
  });

  const MALFORMED: readonly (readonly [string, string])[] = [
    ["a control character", '"a\u0001b"'],
    ["a comma too much", '["5",]'],
    ["an unknown escape", '{"a":"\\x00"}'],
    ["two million levels", `${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}`],
    ["two million levels that do not end", "[".repeat(2_000_000)],
  ];
  for (const [name, said] of MALFORMED) {
    test(`JSON that is none is its supplier's fault, and the next answers, alone and in a batch: ${name}`, async () => {
      await using to = sceneOf({ a: () => said, b: () => '"0x5"' });
      await to.relay.start();
      const quality = to.relay.memory.quality(eth, "a", "json_rpc");
      const before = quality.score(clock.monotonicMs());
      assert.equal(show(await to.relay.send(freeCall("0x1"))), good("b"));
      assert.ok(quality.score(clock.monotonicMs()) < before, "it costs nothing");
      const outcomes = await to.relay.sendBatch([freeCall("0x2", 1), freeCall("0x3", 2)]);
      assert.deepEqual(
        outcomes.map((one) => one.ok && one.operator),
        ["b", "b"],
      );
      // The cache holds for the next client the answer that was passed on.
      assert.equal(show(await to.relay.send(freeCall("0x1"))), good("b"));
      await using lone = sceneOf({ a: () => said });
      await lone.relay.start();
      assert.equal(show(await lone.relay.send(freeCall("0x1"))), "SUPPLIERS_FAILED");
    });
  }

  test("the same holds for a batch, and for a probe", async () => {
    await using to = sceneOf({ a: () => failureOf("over_limit"), b: () => '"0x5"' });
    await to.relay.start();
    const outcomes = await to.relay.sendBatch([freeCall("0x1", 1), freeCall("0x2", 2)]);
    assert.deepEqual(
      outcomes.map((one) => one.ok && one.operator),
      ["b", "b"],
    );
    assert.deepEqual(to.set.dropped, ["a over_limit"]);
    assert.deepEqual(to.transport.purposesOf(METHOD), ["a client", "b retry"]);
    const refusing = new FakeTransport({ a: () => failureOf("over_limit") });
    const set = new FakeSupplierSet(refusing);
    set.become(["a"]);
    await using relay = createRelayEngine(
      { ...engineOptions, suppliers: {} },
      {
        catalogue: services,
        suppliers: new Map([[ETH, set]]),
        clock,
        log: silentLog,
        metrics: noMetrics,
        random: () => 0,
      },
    );
    await relay.start();
    assert.deepEqual(set.dropped, ["a over_limit"]);
  });

  test("a session ends while a call is in flight: it ends at its supplier, and the next goes to those of the new one", async () => {
    const held = Promise.withResolvers<string>();
    await using to = sceneOf({ a: () => held.promise, b: () => '"0x6"' }, { hedgeQuantile: 1 });
    to.set.become(["a"]);
    await to.relay.start();
    const first = to.relay.send(freeCall("0x1"));
    await eventually("it is sent", () => to.transport.purposesOf(METHOD).length === 1);
    to.set.become(["b"], "second");
    assert.equal(show(await to.relay.send(freeCall("0x2"))), good("b", '"0x6"'));
    held.resolve('"0x5"');
    assert.equal(show(await first), good("a"));
    assert.deepEqual(
      to.relay.inspect(ETH)[0]?.suppliers.map(({ operator }) => operator),
      ["b"],
    );
  });

  test("a supplier that stays keeps what is known of it, and is sent to by its new session's handle", async () => {
    await using to = sceneOf({ a: () => '"0x5"' });
    await to.relay.start();
    await to.relay.send(freeCall("0x1"));
    const asked = to.transport.sent.length;
    const score = scoreOf(to.relay, "a");
    to.set.become(["a"], "second");
    assert.equal(show(await to.relay.send(freeCall("0x2"))), good("a"));
    assert.equal(to.transport.sent.length, asked + 1, "it was not probed again");
    assert.deepEqual(to.transport.sent.at(-1)?.handle, { session: "second" });
    assert.ok((scoreOf(to.relay, "a") ?? 0) >= (score ?? 100));
  });

  test("a supplier that is new is probed at once, as one of a chain that has to be checked", async () => {
    await using to = sceneOf({ a: () => '"0x5"', b: () => '"0x6"' });
    to.set.become(["a"]);
    await to.relay.start();
    to.set.become(["a", "b"], "second");
    await eventually("b is healthy", () => to.relay.inspect(ETH)[0]?.suppliers.every((one) => one.isHealthy) === true);
    assert.ok(to.transport.sent.some(({ operator, request }) => operator === "b" && request.purpose === "probe"));
  });

  test("a service without a session is served by none now, and says why", async () => {
    await using to = sceneOf({ a: () => '"0x5"' });
    await to.relay.start();
    to.set.become([]);
    assert.equal(show(await to.relay.send(freeCall("0x1"))), "NO_SUPPLIERS");
    assert.deepEqual(to.relay.served(), [ETH]);
    assert.deepEqual(to.relay.missing(ETH), ["a session with suppliers"]);
    assert.equal(to.relay.hasSupplier(ETH, "json_rpc"), false);
    to.set.become(["a"], "second", "comet_bft");
    assert.equal(to.set.whyEmpty("json_rpc"), "no_rpc_type");
    assert.equal(show(await to.relay.send(freeCall("0x1"))), "NO_SUPPLIERS");
    to.set.become(["a"], "third");
    assert.equal(show(await to.relay.send(freeCall("0x1"))), good("a"));
  });

  test("each request says what it is for", async () => {
    const slow = Promise.withResolvers<string>();
    await using to = sceneOf({ a: () => slow.promise, b: () => '"0x5"' });
    await to.relay.start();
    assert.deepEqual([...new Set(to.transport.sent.map(({ request }) => request.purpose))], ["probe"]);
    const hedged = to.relay.send(freeCall("0x1"));
    await eventually("a is asked", () => to.transport.purposesOf(METHOD).length === 1);
    clock.advance(1_100);
    assert.equal(show(await hedged), good("b"));
    assert.deepEqual(to.transport.purposesOf(METHOD), ["a client", "b hedge"]);
    await using pair = sceneOf({ a: () => '"0x5"', b: () => '"0x5"' });
    await pair.relay.start();
    assert.ok((await pair.relay.send(paidCall("0x1"))).ok);
    assert.deepEqual(pair.transport.purposesOf(METHOD).toSorted(), ["a client", "b comparison"]);
  });

  test("an engine that has ended follows its sets no more", async () => {
    const to = sceneOf({ a: () => '"0x5"' });
    assert.equal(to.set.listeners, 1);
    await to[Symbol.asyncDispose]();
    assert.equal(to.set.listeners, 0);
    assert.equal(show(await to.relay.send(freeCall("0x1"))), "SHUTTING_DOWN");
  });

  test("services come and go beside those that stay, which are neither probed again nor forgotten", async () => {
    await using to = sceneOf({ a: () => '"0x5"', b: () => '"0x6"' });
    await to.relay.start();
    const probes = to.transport.sent.length;
    const { memory } = to.relay;
    const quality = memory.quality(eth, "a", "json_rpc");
    const next = new FakeSupplierSet(to.transport);
    next.become(["b"]);
    const other = "my-api" as ServiceId;
    const found = withRegistered({ services, get: () => undefined }, [{ id: other, ownerAddress: "" }]);
    to.relay.add(
      found.services,
      new Map([
        [ETH, to.set],
        [other, next],
      ]),
    );
    assert.deepEqual([to.set.listeners, next.listeners], [1, 1]);
    assert.equal(to.transport.sent.length, probes);
    const call = freeCall("0x1").request;
    const request = mintParsed({ ...call, serviceId: other });
    const send = () => to.relay.send(mintFree({ request, deadlineMs: clock.monotonicMs() + 180_000 }));
    assert.equal(show(await send()), good("b", '"0x6"'));

    to.relay.keepOnly(services);
    memory.keepServices(services);
    assert.equal(show(await send()), "NO_SUPPLIERS");
    assert.deepEqual([to.set.listeners, next.listeners], [1, 0]);
    assert.equal(memory.quality(eth, "a", "json_rpc"), quality);
    assert.equal(show(await to.relay.send(freeCall("0x2"))), good("a"));
  });

  test("a service whose id every object has as a name has the rules of any other", async () => {
    const id = "constructor" as ServiceId;
    const transport = new FakeTransport({ a: node(() => failureOf("timeout")), b: node(() => '"0x5"') });
    const set = new FakeSupplierSet(transport);
    set.become(["a", "b"]);
    await using relay = createRelayEngine(
      { ...engineOptions, suppliers: {} },
      {
        catalogue: new Map([[id, { ...eth, id }]]),
        suppliers: new Map([[id, set]]),
        clock,
        log: silentLog,
        metrics: noMetrics,
        random: () => 0,
      },
    );
    const request = mintParsed({ ...freeCall("0x1").request, serviceId: id });
    assert.equal(show(await relay.send(mintFree({ request, deadlineMs: clock.monotonicMs() + 180_000 }))), good("b"));
    assert.ok(transport.sent.every(({ request: { timeoutMs } }) => timeoutMs > 0 && timeoutMs <= 60_000));
  });
});
