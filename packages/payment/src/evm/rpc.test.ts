import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { isAppError, noMetrics, silentLog } from "@turnpike/base";
import { type EvmRpc, EvmRpcClient } from "./rpc.ts";

interface Call {
  readonly id: number;
  readonly method: string;
}
type Handler = (body: Call | Call[], response: ServerResponse, request: IncomingMessage) => void;

interface Node extends AsyncDisposable {
  readonly url: string;
  readonly bodies: (Call | Call[])[];
}

async function node(handler: Handler): Promise<Node> {
  const bodies: (Call | Call[])[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const parsed = JSON.parse(body) as Call | Call[];
      bodies.push(parsed);
      handler(parsed, response, request);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-key`,
    bodies,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

const result = (call: Call): object => ({ jsonrpc: "2.0", id: call.id, result: call.method });
const echo: Handler = (body, response) => {
  // Reversed, since a node may answer a batch in any order.
  response.end(JSON.stringify(Array.isArray(body) ? body.map(result).reverse() : result(body)));
};
const open = (urls: readonly string[], more = {}): EvmRpc =>
  new EvmRpcClient({ urls, timeoutMs: 60_000, ...more }, { log: silentLog, metrics: noMetrics });
const call = (method: string): { method: string; params: unknown[] } => ({ method, params: [] });

async function assertUnavailable(run: Promise<unknown>): Promise<void> {
  await assert.rejects(run, (error) => {
    assert.ok(isAppError(error, "SETTLEMENT_UNAVAILABLE"));
    const shown = `${error.message} ${JSON.stringify(error.detail)} ${String(error.cause)} ${String(error.stack)}`;
    assert.ok(!shown.includes("secret-key"));
    return true;
  });
}

test("calls and batches are answered in order, large batches in parts", async () => {
  await using server = await node(echo);
  await using rpc = open([server.url], { maxBatch: 2 });
  assert.deepEqual(await rpc.call("a", []), { ok: true, result: "a" });
  const replies = await rpc.batch([call("a"), call("b"), call("c"), call("d"), call("e")]);
  assert.deepEqual(
    replies.map((reply) => (reply.ok ? reply.result : undefined)),
    ["a", "b", "c", "d", "e"],
  );
  assert.equal(server.bodies.length, 4);
  assert.deepEqual(await rpc.batch([]), []);
});

test("a JSON-RPC error is an answer, also with status 400", async () => {
  await using server = await node((body, response) => {
    response.statusCode = 400;
    const error = { code: 3, message: "execution reverted", data: "0x01" };
    response.end(JSON.stringify({ jsonrpc: "2.0", id: (body as Call).id, error }));
  });
  await using rpc = open([server.url]);
  assert.deepEqual(await rpc.call("eth_call", []), {
    ok: false,
    code: 3,
    message: "execution reverted",
    data: "0x01",
  });
});

test("a node that refused a batch in a bad moment is asked in batches again", async () => {
  let isBad = true;
  await using server = await node((body, response, request) => {
    if (!Array.isArray(body) || !isBad) return echo(body, response, request);
    isBad = false;
    response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32603, message: "internal error" } }));
  });
  await using rpc = open([server.url], { restMs: 0 });
  for (let times = 0; times < 2; times++) assert.equal((await rpc.batch([call("a"), call("b")])).length, 2);
  assert.deepEqual(
    server.bodies.map((body) => (Array.isArray(body) ? body.length : 1)),
    [2, 1, 1, 2],
  );
});

test("a user or password that is no URL's is a fault of the configuration that shows neither", () => {
  for (const escapes of ["100%", "%ff"]) {
    assert.throws(
      () => open([`http://user:${escapes}@127.0.0.1:1/`]),
      (error) =>
        isAppError(error, "CONFIG_INVALID") &&
        !error.message.includes("user:") &&
        !error.message.includes(escapes) &&
        /% escapes are no UTF-8; write a % as %25/.test(error.message),
    );
  }
});

test("a node that refuses batches gets single calls", async () => {
  await using server = await node((body, response) => {
    if (!Array.isArray(body)) return echo(body, response, undefined as never);
    response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32600, message: "no batches" } }));
    return undefined;
  });
  await using rpc = open([server.url]);
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(await rpc.batch([call("a"), call("b")]), [
      { ok: true, result: "a" },
      { ok: true, result: "b" },
    ]);
  }
  assert.equal(server.bodies.filter(Array.isArray).length, 1);
});

test("wire failures are SETTLEMENT_UNAVAILABLE and show no path", async (t) => {
  const cases: Record<string, Handler> = {
    "status 500": (_, response) => {
      response.statusCode = 500;
      response.end("secret-key");
    },
    "not JSON": (_, response) => response.end("<html>"),
    "another id": (_, response) => response.end(JSON.stringify({ jsonrpc: "2.0", id: 77, result: 1 })),
    "no result": (_, response) => response.end(JSON.stringify({ jsonrpc: "2.0", id: 0 })),
    limited: (_, response) => response.end(JSON.stringify({ id: 0, error: { code: -32005, message: "limit" } })),
    "cut off": (_, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("{");
      response.socket?.destroy();
    },
    "too large": (_, response) => response.end(JSON.stringify({ id: 0, result: "x".repeat(5_000) })),
    silent: () => {},
  };
  for (const [name, handler] of Object.entries(cases)) {
    await t.test(name, async () => {
      await using server = await node(handler);
      await using rpc = open([server.url], { maxResponseBytes: 1_000, timeoutMs: name === "silent" ? 50 : 60_000 });
      await assertUnavailable(rpc.call("a", []));
    });
  }
  await t.test("a part of a batch missing", async () => {
    await using server = await node((body, response) =>
      response.end(JSON.stringify([result((body as Call[])[0] as Call)])),
    );
    await using rpc = open([server.url]);
    await assertUnavailable(rpc.batch([call("a"), call("b")]));
  });
  await t.test("nothing listens", async () => {
    const server = await node(echo);
    await server[Symbol.asyncDispose]();
    await using rpc = open([server.url]);
    await assertUnavailable(rpc.call("a", []));
  });
});

test("the next node is asked when one fails, and the failed one rests", async () => {
  await using bad = await node((_, response) => {
    response.statusCode = 503;
    response.end();
  });
  await using good = await node(echo);
  await using rpc = open([bad.url, good.url], { restMs: 600_000 });
  assert.deepEqual(await rpc.call("a", []), { ok: true, result: "a" });
  assert.deepEqual(await rpc.call("b", []), { ok: true, result: "b" });
  assert.equal(bad.bodies.length, 1);
  assert.equal(good.bodies.length, 2);
});

test("an aborted call rejects with the signal's reason and asks no other node", async () => {
  const arrived = Promise.withResolvers<void>();
  await using silent = await node(() => arrived.resolve());
  await using other = await node(echo);
  await using rpc = open([silent.url, other.url]);
  const controller = new AbortController();
  const run = rpc.call("a", [], controller.signal);
  await arrived.promise;
  const reason = new Error("stop");
  controller.abort(reason);
  await assert.rejects(run, reason);
  assert.equal(other.bodies.length, 0);
});

test("URLs that are none are refused without being shown", () => {
  for (const urls of [[], ["ftp://host/secret-key"], ["secret-key"]]) {
    assert.throws(
      () => open(urls),
      (error) => isAppError(error, "CONFIG_INVALID") && !error.message.includes("secret-key"),
    );
  }
});

const onChain =
  (chainId: number, then: Handler = echo): Handler =>
  (body, response, request) => {
    if (Array.isArray(body) || body.method !== "eth_chainId") return then(body, response, request);
    response.end(JSON.stringify({ jsonrpc: "2.0", id: body.id, result: `0x${chainId.toString(16)}` }));
  };
const methodsOf = ({ bodies }: Node): string[] => bodies.flat().map(({ method }) => method);

test("a node of another chain is never used, and is an error in the log", async () => {
  await using wrong = await node(onChain(1));
  await using right = await node(onChain(8453));
  const errors: object[] = [];
  const log = { ...silentLog, error: (fields: object) => void errors.push(fields) };
  await using rpc = new EvmRpcClient(
    { urls: [wrong.url, right.url], timeoutMs: 60_000, expectedChainId: 8453, restMs: 0 },
    { log, metrics: noMetrics },
  );
  for (let round = 0; round < 3; round++) {
    const replies = await Promise.all([rpc.call("a", []), rpc.batch([call("b"), call("c")])]);
    assert.deepEqual(replies[0], { ok: true, result: "a" });
  }
  assert.deepEqual(new Set(methodsOf(wrong)), new Set(["eth_chainId"]));
  assert.equal(methodsOf(right).filter((method) => method === "eth_chainId").length, 1, "it is asked once");
  assert.equal(errors.length, 1);
  assert.deepEqual(Object.keys(errors[0] ?? {}).sort(), ["expected", "found", "host"]);
});

test("with nodes of another chain only, the call says so", async () => {
  await using wrong = await node(onChain(1));
  await using rpc = open([wrong.url], { expectedChainId: 8453 });
  await assert.rejects(rpc.call("a", []), (error) => {
    assert.ok(isAppError(error, "SETTLEMENT_UNAVAILABLE"));
    assert.equal(error.detail.foundChainId, "1");
    return true;
  });
});

test("a node that was unreachable is asked for its chain again", async () => {
  let chainId = 8453;
  let broken = false;
  await using first = await node((body, response, request) => {
    if (broken) return void response.destroy();
    onChain(chainId)(body, response, request);
  });
  await using second = await node(onChain(8453));
  await using rpc = open([first.url, second.url], { expectedChainId: 8453, restMs: 0 });
  await rpc.call("a", []);
  assert.deepEqual(methodsOf(first), ["eth_chainId", "a"]);
  broken = true;
  await rpc.call("b", []);
  broken = false;
  chainId = 1;
  await rpc.call("c", []);
  assert.deepEqual(methodsOf(first).slice(-1), ["eth_chainId"]);
  assert.deepEqual(methodsOf(second).slice(-1), ["c"]);
});

test("a dead node is one line in the log, and one more when it is back", async () => {
  let broken = true;
  await using only = await node((body, response, request) => {
    if (broken) return void response.destroy();
    echo(body, response, request);
  });
  const lines: string[] = [];
  const log = {
    ...silentLog,
    warn: (_fields: object, message: string) => void lines.push(message),
    info: (_fields: object, message: string) => void lines.push(message),
  };
  await using rpc = new EvmRpcClient({ urls: [only.url], timeoutMs: 60_000 }, { log, metrics: noMetrics });
  for (let round = 0; round < 5; round++) await assertUnavailable(rpc.call("a", []));
  assert.deepEqual(lines, ["settlement node failed"]);
  broken = false;
  await rpc.call("a", []);
  await rpc.call("a", []);
  assert.deepEqual(lines, ["settlement node failed", "settlement node works again"]);
});

test("attack: what one node by itself limits or loses sends nothing else to another node", async () => {
  const asked: string[] = [];
  let isBatchRefused = false;
  const open2 = (name: string): Promise<Node> =>
    node((body, response) => {
      const calls = Array.isArray(body) ? body : [body];
      for (const { method } of calls) asked.push(`${name} ${method}`);
      if (calls.some(({ method }) => method === "lost")) return response.writeHead(429).end();
      if (isBatchRefused && Array.isArray(body)) {
        const error = { code: -32005, message: "too much for a batch" };
        return response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error }));
      }
      const replies = calls.map((one) => {
        const error = { code: -32005, message: "query returned more than 10000 results" };
        return one.method === "eth_getLogs" ? { jsonrpc: "2.0", id: one.id, error } : result(one);
      });
      return response.end(JSON.stringify(Array.isArray(body) ? replies : replies[0]));
    });
  await using first = await open2("first");
  await using second = await open2("second");
  await using rpc = open([first.url, second.url, first.url]);
  const [preferred, other, twin] = rpc.nodes;
  assert.deepEqual(
    [preferred?.name, other?.name],
    [first.url, second.url].map((url) => new URL(url).host),
  );
  assert.equal(twin?.name, `${new URL(first.url).host}#2`);
  const refused = { ok: false, code: -32005, message: "query returned more than 10000 results" };
  assert.deepEqual(await preferred?.batch([call("a"), call("eth_getLogs")]), [{ ok: true, result: "a" }, refused]);
  assert.deepEqual(await preferred?.batch([call("eth_getLogs")]), [refused]);
  await assertUnavailable(preferred?.batch([call("lost")]) ?? Promise.resolve());
  assert.deepEqual(await other?.batch([call("b")]), [{ ok: true, result: "b" }]);
  assert.deepEqual(await rpc.call("sale", []), { ok: true, result: "sale" });
  assert.equal(asked.at(-1), "first sale");
  // Nor does it end batches for the others.
  isBatchRefused = true;
  assert.equal((await preferred?.batch([call("a"), call("b")]))?.length, 2);
  isBatchRefused = false;
  await rpc.batch([call("a"), call("b")]);
  assert.ok(Array.isArray(first.bodies.at(-1)));
  // Any other call is sent on, as before.
  await assertUnavailable(rpc.call("eth_getLogs", []));
  assert.deepEqual(asked.slice(-3), ["first eth_getLogs", "second eth_getLogs", "first eth_getLogs"]);
});
