import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import { silentLog, systemClock } from "@turnpike/base";
import { EventLoopQueue } from "@turnpike/chain-node";
import { eventually, reboundStatus, refusedUpgrade } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { TestNode } from "../../test/rpc/node.ts";
import { at } from "../../test/rpc/recorded-node.ts";
import { assertSlowClientIsCutOff } from "../../test/rpc/slow-client.ts";
import { type RpcServer, type RpcServerOptions, startRpcServer } from "./rpc-server.ts";

const NODE = new TestNode();
for (let i = 0; i < 3; i++) NODE.produce();

const serve = (options: Partial<RpcServerOptions> = {}, node = NODE): Promise<RpcServer> =>
  startRpcServer(
    { host: "127.0.0.1", port: 0, ...options },
    { node, queries: node.application, log: silentLog, clock: systemClock },
  );

async function post(
  url: string,
  body: string | Uint8Array,
  type = "application/json",
): Promise<{ status: number; text: string }> {
  const response = await fetch(url, { method: "POST", body: Buffer.from(body), headers: { "content-type": type } });
  return { status: response.status, text: await response.text() };
}

async function isAlive(url: string): Promise<void> {
  assert.deepEqual(await post(url, '{"jsonrpc":"2.0","id":1,"method":"health"}'), {
    status: 200,
    text: '{"jsonrpc":"2.0","id":1,"result":{}}',
  });
}

describe("hostile clients of the RPC", () => {
  it("are refused bodies that are too long, and others are served", async () => {
    await using server = await serve();
    const long = await post(server.url, `"${"x".repeat(1_000_000)}"`);
    assert.equal(long.status, 400);
    assert.equal(
      long.text,
      '{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request","data":"error reading request body: http: request body too large"}}',
    );
    await isAlive(server.url);
  });

  it("cannot make the server hold more than its bound of bodies", async () => {
    await using server = await serve({ maxBufferedBodyBytes: 4000 });
    const port = Number(new URL(server.url).port);
    const refused = Promise.withResolvers<void>();
    const begin = (): Socket => {
      const socket = connect(port, "127.0.0.1");
      socket.on("data", (chunk: Buffer) => {
        if (chunk.toString("latin1").startsWith("HTTP/1.1 503 ")) refused.resolve();
      });
      socket.on("error", () => {});
      socket.write(`POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1401\r\n\r\n${"x".repeat(1400)}`);
      return socket;
    };
    // Half of the bound is for plain requests, and half for all others: one body each.
    const held = Array.from({ length: 3 }, begin);
    await refused.promise;
    // What comes whole is not held.
    await isAlive(server.url);
    for (const socket of held) socket.destroy();
    const later = begin();
    later.write(" ");
    const [answer] = (await once(later, "data")) as [Buffer];
    assert.match(answer.toString("latin1"), /^HTTP\/1\.1 500 /, "room comes back");
    later.destroy();
  });

  it("wait their turn, one call at a time, and are refused when too many wait", async () => {
    const queue = new EventLoopQueue({ maxWaiting: 0 });
    const modules = { node: NODE, queries: NODE.application, log: silentLog, clock: systemClock, queue };
    await using busy = await startRpcServer({ host: "127.0.0.1", port: 0 }, modules);
    const { text } = await post(busy.url, '{"jsonrpc":"2.0","id":1,"method":"health"}');
    assert.match(text, /"data":"too many requests wait"/);

    await using server = await serve();
    const socket = new WebSocket(`${server.url.replace("http", "ws")}/websocket`);
    await once(socket, "open");
    let answers = 0;
    const all = Promise.withResolvers<void>();
    socket.addEventListener("message", () => {
      if (++answers === 250) all.resolve();
    });
    // Others are answered while the many messages of one client are.
    for (let id = 1; id <= 250; id++) socket.send(`{"jsonrpc":"2.0","id":${id},"method":"status"}`);
    await isAlive(server.url);
    await all.promise;
    socket.close();
  });

  it("nest JSON deeply and are answered", async () => {
    await using server = await serve();
    const deep = await post(server.url, "[".repeat(900_000));
    assert.equal(at(JSON.parse(deep.text), "error", "data"), "error unmarshaling request: exceeded max depth");
    const shut = await post(server.url, `${"[".repeat(9_999)}${"]".repeat(9_999)}`);
    assert.equal(at(JSON.parse(shut.text), "error", "code"), -32700);
    const args = `{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":${"[".repeat(9000)}${"]".repeat(9000)}}}`;
    assert.equal(at(JSON.parse((await post(server.url, args)).text), "error", "code"), -32602);
    await isAlive(server.url);
  });

  it("send batches up to the bound, and no larger ones", async () => {
    await using server = await serve();
    const one = { jsonrpc: "2.0", id: 1, method: "health" };
    const ten = await post(server.url, JSON.stringify(Array.from({ length: 10 }, () => one)));
    assert.equal((JSON.parse(ten.text) as unknown[]).length, 10);
    const eleven = await post(server.url, JSON.stringify(Array.from({ length: 11 }, () => one)));
    const data = "batch request exceeds maximum (10) allowed number of requests";
    assert.deepEqual(JSON.parse(eleven.text), {
      jsonrpc: "2.0",
      error: { code: -32600, message: "Invalid Request", data },
    });
    assert.equal((await post(server.url, JSON.stringify([one]))).text, '{"jsonrpc":"2.0","id":1,"result":{}}');
    const many = `[1${",1".repeat(400_000)}]`;
    assert.equal((await post(server.url, many)).status, 500);
    const broken = await post(server.url, JSON.stringify([one, { ...one, method: "block" }]));
    assert.deepEqual([broken.status, at(JSON.parse(broken.text), "id")], [500, -1]);
  });

  it("ask for absurd heights, pages and ids", async () => {
    await using server = await serve();
    const ask = async (method: string, params: unknown, id: unknown = 1): Promise<unknown> =>
      JSON.parse((await post(server.url, JSON.stringify({ jsonrpc: "2.0", id, method, params }))).text);
    const most = (2n ** 63n - 1n).toString();
    const newest = "must be less than or equal to the current blockchain height 3";
    for (const method of ["block", "header", "commit", "block_results"]) {
      assert.equal(at(await ask(method, { height: most }), "error", "data"), `height ${most} ${newest}`);
      const over = at(await ask(method, { height: `${most}0` }), "error", "data");
      const text = `json: cannot unmarshal number ${most}0 into Go value of type int64`;
      assert.equal(over, `error converting json params to arguments: ${text}`);
    }
    for (const page of ["0", "-1", "2", most, `-${most}`]) {
      const data = at(await ask("tx_search", { query: "a.b EXISTS", page, per_page: most }), "error", "data");
      assert.equal(data, `page should be within [1, 1] range, given ${page}`);
    }
    const inverted = await ask("blockchain", { minHeight: most, maxHeight: most });
    assert.equal(at(inverted, "error", "data"), `min height ${most} can't be greater than max height 3`);
    assert.equal(at(await ask("blockchain", { minHeight: "-1" }), "error", "data"), "heights must be non-negative");
    assert.equal(at(await ask("genesis_chunked", { chunk: "18446744073709551615" }), "error", "code"), -32603);
    assert.equal(at(await ask("health", {}, 1e300), "id"), Number(-(2n ** 63n)));
    assert.equal(at(await ask("health", {}, "<a>"), "id"), "<a>");
    assert.equal(at(await ask("health", {}, true), "error", "code"), -32700);
    for (const method of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
      assert.equal(at(await ask(method, {}), "error", "code"), -32601);
      assert.equal((await fetch(`${server.url}/${method}`)).status, 404);
    }
  });

  it("send 10,000 junk requests, each of which is answered", async () => {
    await using server = await serve({ commitTimeoutMs: 1 });
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const { port } = new URL(server.url);
    const send = (body: string, path: string, method: string): Promise<number> => {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const headers = { "content-length": Buffer.byteLength(body) };
      const sent = request({ agent, port, host: "127.0.0.1", path, method, headers }, (response) => {
        response.resume();
        response.on("end", () => resolve(response.statusCode ?? 0));
      });
      sent.on("error", reject);
      sent.end(body);
      return promise;
    };
    const word = fc.constantFrom(
      ..."block tx_search abci_query broadcast_tx_commit check_tx tx validators subscribe status genesis_chunked".split(
        " ",
      ),
    );
    const json = fc.record({
      jsonrpc: fc.constant("2.0"),
      id: fc.oneof(fc.integer(), fc.string(), fc.jsonValue()),
      method: word,
      params: fc.oneof(
        fc.jsonValue(),
        fc.dictionary(fc.constantFrom("height", "query", "hash", "data", "page", "chunk"), fc.jsonValue()),
      ),
    });
    const body = fc.oneof(
      fc.string(),
      json.map((value) => JSON.stringify(value)),
      json.map((value) => JSON.stringify([value, value])),
    );
    const path = fc.oneof(
      fc.constant("/"),
      fc
        .tuple(word, fc.constantFrom("height", "tx", "hash", "query"), fc.string())
        .map(([name, arg, value]) => `/${name}?${arg}=${encodeURIComponent(value.toWellFormed())}`),
    );
    const junk = fc.sample(fc.tuple(body, path, fc.constantFrom("POST", "GET", "PUT")), { numRuns: 10_000, seed: 7 });
    const queue = junk.values();
    const work = async (): Promise<void> => {
      for (const [text, to, method] of queue) {
        assert.ok([200, 404, 500].includes(await send(text, to, method)), `${method} ${to} ${text}`);
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
    agent.destroy();
    await isAlive(server.url);
  });

  it("send half a request, or none, and are cut off", async () => {
    await using server = await serve({ readTimeoutMs: 100 });
    const port = Number(new URL(server.url).port);
    for (const half of [
      "POST / HTTP/1.1\r\nContent-Le",
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
      "",
    ]) {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {});
      socket.write(half);
      socket.resume();
      await once(socket, "close");
    }
    const gone = connect(port, "127.0.0.1");
    await once(gone, "connect");
    gone.end("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{");
    gone.resume();
    await once(gone, "close");
    // A busy machine may be cut off here too.
    await eventually("an answer", () =>
      isAlive(server.url).then(
        () => true,
        () => false,
      ),
    );
  });

  it("do not read their answer, and are cut off", (context) =>
    assertSlowClientIsCutOff("GET /genesis HTTP/1.1\r\nHost: localhost\r\n\r\n", context));

  it("send half a message over a WebSocket, and are cut off", async () => {
    await using server = await serve({ silentMs: 100 });
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const head = "GET /websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    socket.write(`${head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
    await once(socket, "data");
    socket.on("error", () => {});
    socket.resume();
    socket.write(Uint8Array.of(0x81, 0xff, 0, 0));
    await once(socket, "close");
    await isAlive(server.url);
  });
});

describe("the HTTP side of the RPC", () => {
  it("waits a bounded time for a block", async () => {
    await using server = await serve({ commitTimeoutMs: 20 }, new TestNode());
    const { status, text } = await post(`${server.url}/broadcast_tx_commit`, '{"tx":"0x0102"}');
    assert.equal(status, 500);
    assert.equal(at(JSON.parse(text), "error", "data"), "timed out waiting for tx to be included in a block");
  });

  it("reads a JSON body at a method's address: base64 and 0x hex", async () => {
    const node = new TestNode();
    await using server = await serve({}, node);
    for (const tx of ["AQI=", "0x0304"]) await post(`${server.url}/broadcast_tx_sync`, JSON.stringify({ tx }));
    await post(`${server.url}/broadcast_tx_sync`, "tx=0x0506", "application/x-www-form-urlencoded");
    await fetch(`${server.url}/broadcast_tx_sync?tx="ab"`);
    assert.deepEqual(
      node.mempool.txs(9).map((tx) => Buffer.from(tx).toString("hex")),
      ["0102", "0304", "0506", "6162"],
    );
    const { status, text } = await post(`${server.url}/broadcast_tx_sync`, '{"tx":"***"}');
    assert.equal(status, 500);
    assert.match(text, /illegal base64 data at input byte 0/);
  });

  it("says what caches may keep, and gives no CORS headers", async () => {
    await using server = await serve();
    const cached = async (path: string): Promise<string | null> => {
      const response = await fetch(server.url + path, { headers: { origin: "http://localhost:5173" } });
      await response.text();
      assert.equal(response.headers.get("access-control-allow-origin"), null);
      assert.match(response.headers.get("x-server-time") ?? "", /^\d+$/);
      return response.headers.get("cache-control");
    };
    assert.equal(await cached("/block?height=1"), "public, max-age=86400");
    assert.equal(await cached("/block"), null);
    assert.equal(await cached("/block?height=9"), null);
    assert.equal(await cached("/status"), null);
  });

  it("attack: web pages: neither one whose name was pointed here nor one of another origin is answered, nor gets a WebSocket", async () => {
    await using server = await serve();
    const port = Number(new URL(server.url).port);
    assert.equal(await reboundStatus(port, "/status"), 403);
    const origin = { origin: "https://evil.example" };
    assert.equal((await fetch(`${server.url}/status`, { headers: origin })).status, 403);
    assert.equal((await refusedUpgrade(`ws://127.0.0.1:${port}/websocket`, origin)).status, 403);
    assert.equal((await refusedUpgrade(`ws://127.0.0.1:${port}/websocket`, { host: "evil.example" })).status, 403);
  });

  it("cuts a long genesis into chunks", async () => {
    await using server = await serve({ genesisChunkBytes: 4096 });
    const get = async (path: string): Promise<unknown> => (await fetch(server.url + path)).json();
    assert.match(String(at(await get("/genesis"), "error", "data")), /use the genesis_chunked API/);
    const total = Number(at(await get("/genesis_chunked"), "result", "total"));
    const parts: Buffer[] = [];
    for (let chunk = 0; chunk < total; chunk++) {
      const data = at(await get(`/genesis_chunked?chunk=${chunk}`), "result", "data");
      parts.push(Buffer.from(String(data), "base64"));
    }
    assert.deepEqual(JSON.parse(Buffer.concat(parts).toString()).app_state, NODE.genesis.app_state);
  });

  it("escapes what Go escapes", async () => {
    await using server = await serve();
    const { text } = await post(server.url, '{"id":"<&>","method":"x","params":{}}');
    assert.equal(
      text,
      '{"jsonrpc":"2.0","id":"\\u003c\\u0026\\u003e","error":{"code":-32601,"message":"Method not found"}}',
    );
  });
});
