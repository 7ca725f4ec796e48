import assert from "node:assert/strict";
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect, type Socket } from "node:net";
import { suite, type TestContext, test } from "node:test";
import { silentLog, systemClock, WriteBufferBudget } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { testApi } from "../test/chain-api.ts";
import { TestNode, txResult } from "../test/rpc/node.ts";
import { TestSocket } from "../test/rpc/socket.ts";
import { startGrpcServer } from "./grpc/grpc-server.ts";
import { startRestServer } from "./rest/rest-server.ts";
import { startRpcServer } from "./rpc/rpc-server.ts";

/** More than the system's buffers hold of an answer that is not read. */
const ANSWER_BYTES = 14_000_000;
/** Room for two answers. */
const writeBuffer = (): WriteBufferBudget => new WriteBufferBudget(() => 2.5 * ANSWER_BYTES);
/** All connections are a proxy's: the total alone bounds them. */
const proxied = { trustedProxies: ["127.0.0.1"] };
const WRITE_TIMEOUT_MS = 60_000;

const NODE = new TestNode({ genesis: { app_state: { big: "x".repeat(ANSWER_BYTES) } } });
const GENESIS = '{"jsonrpc":"2.0","id":1,"method":"genesis"}';
const NODE_INFO = "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo";

type RpcOptions = Partial<Parameters<typeof startRpcServer>[0]>;
const serveRpc = (options: RpcOptions = {}, node = NODE) =>
  startRpcServer(
    { host: "127.0.0.1", port: 0, ...options },
    { node, queries: node.application, log: silentLog, clock: systemClock, writeBuffer: writeBuffer() },
  );

/** The chain's API whose node has a very long name. */
function largeApi(): ReturnType<typeof testApi> {
  const api = testApi();
  const nodeInfo = api.source.nodeInfo.bind(api.source);
  api.source.nodeInfo = async () => ({ ...(await nodeInfo()), moniker: "x".repeat(ANSWER_BYTES) });
  return api;
}

function serveRest(options: { readonly trustedProxies?: readonly string[]; readonly writeTimeoutMs?: number } = {}) {
  const { application, source, options: api } = largeApi();
  const modules = { application, source, log: silentLog, clock: systemClock, writeBuffer: writeBuffer() };
  return startRestServer({ host: "127.0.0.1", port: 0, ...api, ...options }, modules);
}

/** Sends a request, and reads nothing but the beginning of its answer. */
async function sendAndLeave(port: number, request: string): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.pause();
  socket.on("error", () => {});
  socket.write(request);
  await once(socket, "readable");
  return socket;
}

const post = (body: string): string =>
  `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

/** The ways to an answer of the RPC: the fast listener, the server of `node:http`, and a batch. */
const RPC_REQUESTS = {
  "by a plain request": post(GENESIS),
  "by a request in chunks": `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n${GENESIS.length.toString(16)}\r\n${GENESIS}\r\n0\r\n\r\n`,
  "by an address": "GET /genesis HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
  "by a batch": post(`[${GENESIS},{"jsonrpc":"2.0","id":2,"method":"health"}]`),
} as const;

suite("attack: answers that their clients do not read", () => {
  for (const [way, request] of Object.entries(RPC_REQUESTS)) {
    test(`of the RPC ${way} are bounded together`, async () => {
      await using server = await serveRpc(proxied);
      const port = Number(new URL(server.url).port);
      const first = await sendAndLeave(port, request);
      const second = await sendAndLeave(port, request);
      const refused = await fetch(server.url, { method: "POST", body: GENESIS });
      assert.equal(refused.status, 503);
      assert.equal(refused.headers.get("retry-after"), "1");
      const { error } = (await refused.json()) as { readonly error: { readonly code: number; readonly data: string } };
      assert.equal(error.code, -32000);
      assert.match(error.data, /^OVERLOADED: /);
      assert.equal((await fetch(`${server.url}/genesis`)).status, 503);
      assert.equal((await fetch(`${server.url}/health`)).status, 200, "small answers have room");
      first.destroy();
      await eventually("its room is given back", async () => {
        const answer = await fetch(`${server.url}/genesis`);
        await answer.arrayBuffer();
        return answer.status === 200;
      });
      second.destroy();
    });
  }

  test("of the RPC are bounded for each client", async () => {
    await using server = await serveRpc();
    const port = Number(new URL(server.url).port);
    const first = await sendAndLeave(port, post(GENESIS));
    const refused = await fetch(server.url, { method: "POST", body: GENESIS });
    assert.equal(refused.status, 503);
    await refused.arrayBuffer();
    first.destroy();
  });

  test("of one batch are bounded together, and end before all are made", async () => {
    await using server = await serveRpc(proxied);
    const batch = await fetch(server.url, { method: "POST", body: `[${[GENESIS, GENESIS, GENESIS].join()}]` });
    assert.equal(batch.status, 503);
    assert.ok((await batch.text()).length < 1_000);
    const answer = await fetch(server.url, { method: "POST", body: `[${[GENESIS, GENESIS].join()}]` });
    assert.equal(answer.status, 200, "the refused batch holds nothing");
    assert.ok((await answer.text()).length > 2 * ANSWER_BYTES);
  });

  test("over WebSockets are bounded: a request gets an error, and a subscriber is dropped", async () => {
    const node = new TestNode({
      genesis: { app_state: { big: "x".repeat(ANSWER_BYTES) } },
      deliveries: () => txResult({ log: "x".repeat(ANSWER_BYTES) }),
    });
    await using server = await serveRpc(proxied, node);
    await using slow = await TestSocket.connect(server.url);
    await using other = await TestSocket.connect(server.url);
    await using subscriber = await TestSocket.connect(server.url);
    await subscriber.ask(1, "subscribe", { query: "tm.event='Tx'" });
    for (const { socket } of [slow, other]) {
      socket.pause();
      socket.send(GENESIS);
    }
    await eventually("both answers wait", async () => {
      const answer = await fetch(`${server.url}/genesis`);
      await answer.arrayBuffer();
      return answer.status === 503;
    });
    const { error } = (await subscriber.ask(2, "genesis")) as { readonly error?: { readonly data: string } };
    assert.match(error?.data ?? "", /^OVERLOADED: /);
    node.submit(Buffer.from("00", "hex"));
    node.produce();
    assert.equal(await subscriber.next(), undefined, "the subscriber is dropped");
  });

  test("over a WebSocket end the connection when they are not read in time, however often it pings", async (t: TestContext) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using server = await serveRpc({
      ...proxied,
      writeTimeoutMs: WRITE_TIMEOUT_MS,
      silentMs: 10 * WRITE_TIMEOUT_MS,
    });
    await using slow = await TestSocket.connect(server.url);
    slow.socket.send(GENESIS);
    slow.socket.pause();
    const raw = (slow.socket as unknown as { readonly _socket: Socket })._socket;
    await eventually("the answer has begun", () => raw.readableLength > 0);
    const closed = once(slow.socket, "close");
    t.mock.timers.tick(WRITE_TIMEOUT_MS);
    t.mock.timers.reset();
    slow.socket.resume();
    await closed;
    assert.equal(
      slow.has(() => true),
      false,
    );
  });

  test("of REST are bounded together", async () => {
    await using server = await serveRest(proxied);
    const request = "GET /cosmos/base/tendermint/v1beta1/node_info HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const first = await sendAndLeave(server.port, request);
    const second = await sendAndLeave(server.port, request);
    const url = `http://127.0.0.1:${server.port}/cosmos/base/tendermint/v1beta1/node_info`;
    const refused = await fetch(url);
    assert.equal(refused.status, 503);
    assert.match(await refused.text(), /"message":"OVERLOADED: /);
    first.destroy();
    await eventually("its room is given back", async () => {
      const answer = await fetch(url);
      await answer.arrayBuffer();
      return answer.status === 200;
    });
    second.destroy();
  });

  test("of REST end the connection when they are not read in time", async (t: TestContext) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using server = await serveRest({ writeTimeoutMs: WRITE_TIMEOUT_MS });
    const request = "GET /cosmos/base/tendermint/v1beta1/node_info HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const slow = await sendAndLeave(server.port, request);
    const closed = once(slow, "close");
    t.mock.timers.tick(WRITE_TIMEOUT_MS);
    t.mock.timers.reset();
    let bytes = 0;
    slow.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    slow.resume();
    await closed;
    assert.ok(bytes < ANSWER_BYTES, `${bytes} bytes`);
  });

  /** Calls a method; the client's flow control lets none of the answer come. */
  async function callAndLeave(session: ClientHttp2Session): Promise<IncomingHttpHeaders> {
    const headers = { ":method": "POST", ":path": NODE_INFO, "content-type": "application/grpc", te: "trailers" };
    const stream = session.request(headers);
    stream.on("error", () => {});
    stream.end(Buffer.alloc(5));
    const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
    return answer;
  }

  test("of gRPC are bounded together", async () => {
    const { application, source, options } = largeApi();
    await using server = await startGrpcServer(
      { host: "127.0.0.1", port: 0, closeGraceMs: 50, ...options, ...proxied },
      { application, source, log: silentLog, writeBuffer: writeBuffer() },
    );
    const session = connectHttp2(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 0 } });
    session.on("error", () => {});
    assert.equal((await callAndLeave(session))["grpc-status"], undefined);
    assert.equal((await callAndLeave(session))["grpc-status"], undefined);
    const refused = await callAndLeave(session);
    assert.equal(refused["grpc-status"], "14");
    assert.match(String(refused["grpc-message"]), /^OVERLOADED:/);
    session.destroy();
    await eventually("its room is given back", async () => {
      const next = connectHttp2(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 0 } });
      next.on("error", () => {});
      const answer = await callAndLeave(next);
      next.destroy();
      return answer["grpc-status"] === undefined;
    });
  });
});
