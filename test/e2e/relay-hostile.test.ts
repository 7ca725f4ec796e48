import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientRequest, request, type ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { eventually, isProbe, probeResult, rpcAnswer, startUpstream } from "@turnpike/testkit";
import { blockAt, call, callAll, hex, sell, shown, startChain } from "./relay-chain.ts";
import { type NodeCall, type RelayRig, rpc, rpcAt, send, startNode, startRelay } from "./relay-rig.ts";

const MIB = 1_048_576;
const TRACE = "debug_traceBlockByNumber";

const answerOf = ({ id }: NodeCall, result: string): string => `{"jsonrpc":"2.0","id":${id},"result":${result}}`;

/** The beginning of an answer that does not end; as much as its reader takes. */
function beginLarge(res: ServerResponse, one: NodeCall): void {
  res.write(`{"jsonrpc":"2.0","id":${one.id},"result":["${"a".repeat(32 * MIB)}`);
}

/** Asks, and leaves the answer to the caller. */
function open(rig: RelayRig, body: string): ClientRequest {
  const asked = request(`${rig.url}/relay/eth`, { method: "POST", agent: false });
  asked.on("error", () => undefined);
  asked.on("response", (answer) => answer.on("error", () => undefined).pause());
  asked.end(body);
  return asked;
}

describe("a client", () => {
  test("that reads large answers slowly leaves connections to others", async () => {
    await using node = await startNode({
      respond: (res, _body, [one]) => {
        assert.ok(one !== undefined);
        if (one.method !== TRACE) {
          res.end(answerOf(one, '"0x5"'));
          return;
        }
        beginLarge(res, one);
      },
    });
    await using rig = await startRelay(
      { eth: rpcAt(node.url) },
      { relay: { maxConnectionsPerOrigin: 4 }, maxAttempts: 1 },
    );
    const readers = Array.from({ length: 4 }, (_, at) => open(rig, rpc(`${at}`, TRACE, `["${hex(at)}"]`)));
    const [first] = readers;
    assert.ok(first !== undefined);
    await once(first, "response");
    assert.equal((await call(rig, "eth_gasPrice")).result, "0x5");
    for (const reader of readers) reader.destroy();
  });

  test("a client whose batch hangs delays no other client of the same read", async () => {
    const held: (() => void)[] = [];
    const came = Promise.withResolvers<void>();
    await using node = await startNode({
      respond: (res, body, calls) => {
        const [one] = calls;
        assert.ok(one !== undefined);
        if (!body.startsWith("[")) {
          res.end(answerOf(one, '"0x5"'));
          return;
        }
        held.push(() => res.end(`[${calls.map((item) => answerOf(item, '"0x6"')).join(",")}]`));
        came.resolve();
      },
    });
    await using rig = await startRelay({ eth: rpcAt(node.url) }, { timeoutMs: 10_000 });
    const batch = callAll(rig, [rpc("1", "eth_gasPrice"), rpc("2", TRACE, '["0x1"]')]);
    await came.promise;
    assert.equal((await call(rig, "eth_gasPrice")).result, "0x5");
    for (const release of held) release();
    assert.deepEqual(
      (await batch).map(({ result }) => result),
      ["0x6", "0x6"],
    );
  });

  test("whose batch has too large an answer does not take batches from the others", async () => {
    await using node = await startNode({
      respond: (res, body, calls) => {
        const results = calls.map((one) =>
          answerOf(one, one.method === TRACE ? `"${"a".repeat(3 * 65_536)}"` : '"0x5"'),
        );
        res.end(body.startsWith("[") ? `[${results.join(",")}]` : results[0]);
      },
    });
    await using rig = await startRelay({ eth: rpcAt(node.url) }, { relay: { maxAnswerBytes: 65_536 } });
    await callAll(rig, [rpc("1", TRACE, '["0x1"]'), rpc("2", TRACE, '["0x2"]')]);
    const before = node.bodies.length;
    await callAll(rig, [rpc("1", "eth_getBalance", `["0x${"1".repeat(40)}","0x1"]`), rpc("2", "eth_gasPrice")]);
    assert.equal(node.bodies.length - before, 1);
  });

  test("that polls a filter takes the newest answers out of the cache only when it learns something", async () => {
    await using node = await startChain();
    await using rig = await startRelay({ eth: rpcAt(node.url) }, { relay: { maxHeadAgeMs: 60_000 } });
    let changes = "[]";
    node.say = ({ method }) =>
      method === "eth_getFilterChanges" ? changes : method === "eth_newBlockFilter" ? '"0x7"' : undefined;
    const { result: filter } = await call(rig, "eth_newBlockFilter");
    const poll = rpc("1", "eth_getFilterChanges", JSON.stringify([filter]));
    const pollAndAsk = async (isBatch: boolean): Promise<number> => {
      const before = node.count("eth_gasPrice");
      await send(rig, isBatch ? `[${poll},${poll}]` : poll);
      await call(rig, "eth_gasPrice");
      await new Promise(setImmediate);
      return node.count("eth_gasPrice") - before;
    };
    for (const isBatch of [false, true]) {
      changes = "[]";
      for (let i = 0; i < 3; i++) await pollAndAsk(isBatch);
      assert.equal(await pollAndAsk(isBatch), 0);
      changes = '["0x1"]';
      assert.equal(await pollAndAsk(isBatch), 1);
    }
  });

  test("that ends a filter by a notification reaches its maker alone, by the maker's own id", async () => {
    const nodes = await Promise.all([0, 1, 2].map(() => startNode({ answer: () => '"0x77"' })));
    await using stack = new AsyncDisposableStack();
    for (const node of nodes) stack.use(node);
    await using rig = await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) });
    for (let i = 0; i < 6; i++) {
      for (const node of nodes) node.calls.length = 0;
      const { result } = await call(rig, "eth_newBlockFilter");
      const maker = nodes.find(({ calls }) => calls.length > 0);
      await send(rig, rpc(undefined, "eth_uninstallFilter", JSON.stringify([result])));
      const ended = nodes.flatMap((node) =>
        node.calls
          .filter(({ method }) => method === "eth_uninstallFilter")
          .map(({ params }) => [node === maker, params]),
      );
      assert.deepEqual(ended, [[true, ["0x77"]]]);
    }
  });
});

describe("what is sold", () => {
  const alone = { crossCheck: { sold: 1, free: 1, methods: {}, strict: false } };

  test("is not the `null` of a supplier that is known not to have the block", async () => {
    await using low = await startChain(990);
    await using high = await startChain(1_000);
    await using rig = await startRelay({ eth: rpcAt(low.url, high.url) }, { random: () => 0, set: alone });
    high.say = () => ',"error":{"code":-32603,"message":"no"}';
    assert.equal(shown(await sell(rig, "eth_getBlockByNumber", [hex(1_000), false])), "SUPPLIERS_FAILED");
    assert.equal(low.calls.length, 1);
  });

  test("is not a newest block without a height", async () => {
    await using node = await startChain();
    await using rig = await startRelay({ eth: rpcAt(node.url) }, { set: alone });
    node.say = () => "null";
    assert.equal(shown(await sell(rig, "eth_getBlockByNumber", ["latest", true])), "SUPPLIERS_FAILED");
  });
});

describe("in strict mode", () => {
  test("an answer from an older block that no other supplier confirms is not returned", async () => {
    const nodes = await Promise.all([startChain(), startChain()]);
    await using stack = new AsyncDisposableStack();
    for (const node of nodes) stack.use(node);
    const set = { crossCheck: { sold: 2, free: 2, methods: {}, strict: true } };
    await using rig = await startRelay({ eth: rpcAt(...nodes.map(({ url }) => url)) }, { set });
    const ask = (): ReturnType<typeof call> => call(rig, "eth_getBlockByNumber", '["latest",true]');
    assert.deepEqual((await ask()).result, blockAt(1_000));
    for (const node of nodes) node.height = 998;
    rig.relay.clearCache();
    const { error, result } = await ask();
    assert.equal(result, undefined);
    assert.match(error?.message ?? "", /different answers/);
  });
});

describe("a supplier", () => {
  test("that was found to serve another chain has none of its answers left in the cache", async () => {
    let chainId = "0x1";
    await using turned = await startUpstream((asked, response) => {
      const rest = isProbe(asked) ? probeResult(asked, chainId, "0x400") : '"result":"0xbad"';
      response.end(rpcAnswer(asked, rest));
    });
    await using good = await startChain(1_024);
    const both = rpcAt(turned.url, good.url);
    await using rig = await startRelay({ eth: both }, { random: () => 0, relay: { probeIntervalMs: 20 } });
    const ask = async (): Promise<unknown> =>
      (await call(rig, "eth_getBalance", `["0x${"1".repeat(40)}","0x1"]`)).result;
    assert.equal(await ask(), "0xbad");
    chainId = "0x2";
    await eventually("it is found out", () => rig.relay.inspect()[0]?.suppliers[0]?.isWrongChain);
    assert.equal(await ask(), "0x5");
  });
});

describe("an honest node", () => {
  test("that repeats a client's long request in its error holds up no other client, and is not blamed", async () => {
    const height = { result: { node_info: { network: "pocket" }, sync_info: { latest_block_height: "7" } } };
    // CometBFT 0.37: "got: <query>".
    await using node = await startUpstream((call, response) => {
      const { id = -1, params = {} } = (call.text === "" ? {} : JSON.parse(call.text)) as {
        readonly id?: number;
        readonly params?: { readonly query?: string };
      };
      const data = `failed to parse query, min height 9 can't be greater than max height 1, got: ${params.query}`;
      const error = { code: -32_603, message: "Internal error", data };
      const answer = params.query === undefined ? height : { error };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    });
    await using rig = await startRelay({ pocket: [{ operator: "one", urls: { comet_bft: node.url } }] });
    const query = "min height ".repeat(18_000);
    for (let round = 0; round < 20; round++) {
      const answer = await send(rig, rpc(`${round}`, "tx_search", JSON.stringify({ query })), {
        host: "pocket.localhost",
      });
      assert.equal(answer.status, 200);
      assert.match(answer.text, /can't be greater/);
    }
    assert.doesNotMatch(await rig.metrics(), /turnpike_relay_attempts_total\{[^}]*blame="supplier"/);
  });
});
