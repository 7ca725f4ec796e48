import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { isAppError, noMetrics, silentLog } from "@turnpike/base";
import { createEvmRpc, type EvmRpc } from "./rpc.ts";

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
  createEvmRpc({ urls, timeoutMs: 2_000, ...more }, { log: silentLog, metrics: noMetrics });
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
      await using rpc = open([server.url], { maxResponseBytes: 1_000, timeoutMs: name === "silent" ? 50 : 2_000 });
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
  await using rpc = open([bad.url, good.url]);
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
