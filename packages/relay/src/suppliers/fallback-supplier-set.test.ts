import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { jsonText, noMetrics, type RequestId, type ServiceId, type SettlementId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { mintFree, mintPaid, mintParsed, type PaidRequest } from "@turnpike/protocol";
import { eventually, rpcAnswer, startEvmUpstream, virtualClock } from "@turnpike/testkit";
import { engineOptions } from "../../test/engine-options.ts";
import { FakeSupplierSet, FakeTransport, failureOf } from "../../test/fake-suppliers.ts";
import { createRelayEngine } from "../create-relay-engine.ts";
import type { RelayEngine } from "../engine/relay-engine.ts";
import { parseFreeRpc } from "../families/free-call.ts";
import { SocketSuppliers } from "../subscriptions/socket-suppliers.ts";
import type { RelayOutcome } from "../types.ts";
import { FallbackSupplierSet } from "./fallback-supplier-set.ts";

const ETH = "eth" as ServiceId;
const METHOD = "eth_getBalance";
const { services } = createCatalogue({});
const clock = virtualClock();
const eth = services.get(ETH);
assert.ok(eth !== undefined);

function paidCall(account: string): PaidRequest {
  assert.ok(eth !== undefined);
  const params = [account, "latest"];
  const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method: METHOD, params }));
  const at = body.indexOf('"id":') + 5;
  const read = { body, bodyText: jsonText(body), id: { start: at, end: at + 1 }, rawId: "1", isPlain: true };
  const parsed = parseFreeRpc(eth, { method: METHOD, params, paramsSpan: undefined, ...read });
  assert.ok(parsed.ok);
  const facts = { requestId: "r" as RequestId, client: "c", serviceId: ETH, call: parsed.call };
  const { request, deadlineMs } = mintFree({
    request: mintParsed({ ...facts, requestHash: new Uint8Array(0) }),
    deadlineMs: clock.monotonicMs() + 180_000,
  });
  return mintPaid({ request, deadlineMs, settlementId: "s" as SettlementId });
}

interface Scene extends AsyncDisposable {
  readonly session: FakeSupplierSet;
  readonly transport: FakeTransport;
  readonly relay: RelayEngine;
  /** Lets slow suppliers answer. */
  release(): void;
  /** Calls that the static supplier answered. */
  staticCalls(): number;
  /** Asks the static supplier something else: what was sent to it before has arrived by then. */
  reachStatic(): Promise<void>;
}

type Supplier = "good" | "dead" | "slow";

/** A relay over a session with suppliers, and one static supplier behind it. */
async function sceneOf(staticFallback: boolean, suppliers: Readonly<Record<string, Supplier>>): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  let calls = 0;
  const slow = Promise.withResolvers<string>();
  const own = stack.use(
    await startEvmUpstream((asked, response) => {
      if (asked.method === METHOD) calls++;
      response.end(rpcAnswer(asked, '"result":"0x5"'));
    }),
  );
  const transport = new FakeTransport(
    Object.fromEntries(
      Object.entries(suppliers).map(([name, kind]) => [
        name,
        ({ calls: [call] }) => {
          if (kind === "dead") return failureOf("connection", "wire");
          if (call?.method === METHOD) return kind === "slow" ? slow.promise : '"0x5"';
          if (call?.method === "eth_chainId") return '"0x1"';
          return `{"number":"0x64","hash":"0x${"a".repeat(64)}","parentHash":"0x${"b".repeat(64)}"}`;
        },
      ]),
    ),
  );
  const session = new FakeSupplierSet(transport);
  session.become(Object.keys(suppliers));
  const endpoints = [{ operator: "static", urls: { json_rpc: own.url } }];
  const relay = stack.use(
    createRelayEngine(
      {
        ...engineOptions,
        probeIntervalMs: 60_000,
        staticFallback,
        suppliers: { eth: { endpoints, timeoutMs: 60_000, maxAttempts: 3 } },
      },
      {
        catalogue: services,
        suppliers: new Map([[ETH, session]]),
        clock,
        log: silentLog,
        metrics: noMetrics,
        random: () => 0,
      },
    ),
  );
  await relay.start();
  const owned = stack.move();
  return {
    session,
    transport,
    relay,
    release: () => slow.resolve('"0x5"'),
    staticCalls: () => calls,
    async reachStatic() {
      const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}';
      for (let n = 0; n < 3; n++) await (await fetch(own.url, { method: "POST", body })).text();
    },

    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const show = (outcome: RelayOutcome): string => (outcome.ok ? outcome.operator : outcome.code);

suite("static suppliers behind those of a session", () => {
  test("a session without suppliers is served by them only where the operator wants it", async () => {
    for (const [staticFallback, expected] of [
      [true, "static"],
      [false, "NO_SUPPLIERS"],
    ] as const) {
      await using to = await sceneOf(staticFallback, {});
      assert.equal(show(await to.relay.send(paidCall("0x1"))), expected);
      assert.equal(to.relay.hasSupplier(ETH, "json_rpc"), staticFallback);
      assert.equal(to.staticCalls(), staticFallback ? 1 : 0);
    }
  });

  test("a session none of whose suppliers can be reached is served by them only where the operator wants it", async () => {
    const dead = { a: "dead", b: "dead", c: "dead", d: "dead" } as const;
    for (const [staticFallback, expected] of [
      [true, "static"],
      [false, "SUPPLIERS_UNREACHABLE"],
    ] as const) {
      await using to = await sceneOf(staticFallback, dead);
      for (let n = 0; n < 3; n++) assert.equal(show(await to.relay.send(paidCall(`0x${n}`))), expected);
      assert.equal(to.staticCalls(), staticFallback ? 3 : 0);
    }
  });

  test("they answer nothing while a supplier of the session does: no first call, and no comparison", async () => {
    await using to = await sceneOf(true, { a: "dead", b: "good" });
    for (let n = 0; n < 20; n++) assert.equal(show(await to.relay.send(paidCall(`0x${n}`))), "b");
    assert.equal(to.staticCalls(), 0);
  });

  test("a supplier of the session that is slow is waited for: none in reserve is asked beside it", async () => {
    await using to = await sceneOf(true, { a: "slow" });
    const call = to.relay.send(paidCall("0x1"));
    await eventually("it is asked", () => to.transport.purposesOf(METHOD).length === 1);
    clock.advance(1_100);
    await to.reachStatic();
    assert.equal(to.staticCalls(), 0);
    to.release();
    assert.equal(show(await call), "a");
    assert.equal(to.staticCalls(), 0);
  });

  test("a session that gets suppliers again has its calls from then on", async () => {
    await using to = await sceneOf(true, { a: "good" });
    to.session.become([]);
    assert.equal(show(await to.relay.send(paidCall("0x1"))), "static");
    to.session.become(["a"], "second");
    assert.equal(show(await to.relay.send(paidCall("0x2"))), "a");
    assert.equal(to.staticCalls(), 1);
  });

  test("a supplier whose answer is not signed by it is not sold, and the next one is static", async () => {
    await using to = await sceneOf(true, { a: "good" });
    to.session.drop(to.session.endpoints()[0] ?? assert.fail(), "bad_signature");
    assert.equal(show(await to.relay.send(paidCall("0x1"))), "static");
  });

  test("their WebSockets come after those of the session, which may rest", () => {
    const session = new FakeSupplierSet(new FakeTransport({}));
    const own = new FakeSupplierSet(new FakeTransport({}));
    session.become(["a"], "first", "websocket");
    own.become(["static"], "own", "websocket");
    for (const [whenEmpty, expected] of [
      [true, ["a", "static"]],
      [false, ["a"]],
    ] as const) {
      const set = new FallbackSupplierSet({ whenEmpty }, session, own);
      const suppliers = new SocketSuppliers(set, { clock, random: () => 0.5, isDrained: () => false });
      const names = (): readonly string[] => suppliers.order().map(({ operator }) => operator);
      assert.deepEqual(names(), expected);
      const [a] = suppliers.order();
      assert.ok(a !== undefined);
      suppliers.failed(a);
      assert.deepEqual(names(), expected.toReversed());
      const [first] = suppliers.order();
      assert.ok(first !== undefined);
      assert.equal(suppliers.isDrained(first), false, "nothing better while the session's supplier rests");
      clock.advance(60_000);
      assert.equal(suppliers.isDrained(first), whenEmpty, "its subscriptions go back to the session");
    }
  });
});
