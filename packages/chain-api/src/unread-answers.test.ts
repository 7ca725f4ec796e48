import assert from "node:assert/strict";
import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
  type IncomingHttpHeaders,
} from "node:http2";
import { connect, type Socket } from "node:net";
import { suite, type TestContext, test } from "node:test";
import { silentLog, systemClock, WriteBufferBudget } from "@turnpike/base";
import { createMessage, encodeMessage, reflectionV1 } from "@turnpike/proto";
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
const serveRpc = (options: RpcOptions = {}, node = NODE, budget = writeBuffer()) =>
  startRpcServer(
    { host: "127.0.0.1", port: 0, ...options },
    { node, queries: node.application, log: silentLog, clock: systemClock, writeBuffer: budget },
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
async function sendAndLeave(port: number, request: string, localAddress = "127.0.0.1"): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.pause();
  socket.on("error", () => {});
  socket.write(request);
  await once(socket, "readable");
  return socket;
}

/** Reads on, and returns the bytes that come before the end of the connection. */
async function readToEnd(socket: Socket): Promise<number> {
  let bytes = 0;
  const closed = once(socket, "close");
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.resume();
  await closed;
  return bytes;
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
      for (let at = 0; at < 3; at++) {
        const answer = await fetch(server.url, { method: "POST", body: GENESIS });
        assert.equal(answer.status, 200);
        await answer.arrayBuffer();
      }
      assert.ok((await readToEnd(first)) < ANSWER_BYTES, "it made room for the next client");
      const third = await sendAndLeave(port, request);
      second.destroy();
      third.destroy();
    });
  }

  test("of the RPC are bounded for each client", async () => {
    await using server = await serveRpc();
    const port = Number(new URL(server.url).port);
    const first = await sendAndLeave(port, post(GENESIS));
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
    await using server = await serveRpc({}, node);
    await using slow = await TestSocket.connect(server.url);
    await using subscriber = await TestSocket.connect(server.url);
    await subscriber.ask(1, "subscribe", { query: "tm.event='Tx'" });
    slow.socket.pause();
    slow.socket.send(GENESIS);
    await eventually("the answer waits", async () => {
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
    const answer = await fetch(`http://127.0.0.1:${server.port}/cosmos/base/tendermint/v1beta1/node_info`);
    assert.equal(answer.status, 200);
    await answer.arrayBuffer();
    assert.ok((await readToEnd(first)) < ANSWER_BYTES, "it made room for the next client");
    second.destroy();
  });

  test("of REST are bounded for each client", async () => {
    await using server = await serveRest();
    const request = "GET /cosmos/base/tendermint/v1beta1/node_info HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const first = await sendAndLeave(server.port, request);
    const refused = await fetch(`http://127.0.0.1:${server.port}/cosmos/base/tendermint/v1beta1/node_info`);
    assert.equal(refused.status, 503);
    assert.match(await refused.text(), /"message":"OVERLOADED: /);
    first.destroy();
  });

  test("of REST end the connection when they are not read in time", async (t: TestContext) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    await using server = await serveRest({ writeTimeoutMs: WRITE_TIMEOUT_MS });
    const request = "GET /cosmos/base/tendermint/v1beta1/node_info HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    const slow = await sendAndLeave(server.port, request);
    const closed = once(slow, "close");
    t.mock.timers.tick(WRITE_TIMEOUT_MS);
    t.mock.timers.reset();
    const bytes = await readToEnd(slow);
    await closed;
    assert.ok(bytes < ANSWER_BYTES, `${bytes} bytes`);
  });

  /** Calls a method; the client's flow control lets none of the answer come. */
  async function callAndLeave(
    session: ClientHttp2Session,
    path = NODE_INFO,
  ): Promise<{ readonly stream: ClientHttp2Stream; readonly answer: IncomingHttpHeaders }> {
    const headers = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };
    const stream = session.request(headers);
    stream.on("error", () => {});
    stream.end(Buffer.alloc(5));
    const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
    return { stream, answer };
  }

  function openHttp2(port: number, localAddress = "127.0.0.1"): ClientHttp2Session {
    const createConnection = (): Socket => connect({ port, host: "127.0.0.1", localAddress });
    const session = connectHttp2(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 }, createConnection });
    session.on("error", () => {});
    return session;
  }

  const serveGrpc = (budget: WriteBufferBudget, given = {}) => {
    const { application, source, options } = largeApi();
    return startGrpcServer(
      { host: "127.0.0.1", port: 0, closeGraceMs: 50, ...options, ...given },
      { application, source, log: silentLog, writeBuffer: budget },
    );
  };

  test("of gRPC are bounded together, and a proxy's oldest call makes room for others on its connection", async () => {
    await using server = await serveGrpc(writeBuffer(), proxied);
    const session = openHttp2(server.port);
    const first = await callAndLeave(session);
    const second = await callAndLeave(session);
    const reset = once(first.stream, "close");
    const third = await callAndLeave(session);
    assert.equal(third.answer["grpc-status"], undefined);
    await reset;
    assert.equal(first.stream.rstCode, constants.NGHTTP2_CANCEL);
    assert.ok(!second.stream.destroyed && !session.destroyed);
    session.destroy();
  });

  test("of gRPC are bounded for each client", async () => {
    const budget = writeBuffer();
    await using server = await serveGrpc(budget);
    const session = openHttp2(server.port);
    await callAndLeave(session);
    const { answer } = await callAndLeave(session);
    assert.equal(answer["grpc-status"], "14");
    assert.match(String(answer["grpc-message"]), /^OVERLOADED:/);
    session.destroy();
    await eventually("its room is given back", () => budget.bytes === 0);
  });

  test("of gRPC's reflection are bounded, and so are its requests", async () => {
    const budget = writeBuffer();
    await using server = await serveGrpc(budget);
    const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    const schema = reflectionV1.ServerReflectionRequestSchema;
    const symbol = { case: "fileContainingSymbol", value: "pocket.session.Query" } as const;
    const ask = (host: string): Buffer => {
      const bytes = encodeMessage(schema, createMessage(schema, { host, messageRequest: symbol }));
      const head = Buffer.alloc(5);
      head.writeUInt32BE(bytes.length, 1);
      return Buffer.concat([head, bytes]);
    };
    const session = openHttp2(server.port);
    const headers = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };
    const open = async (host: string): Promise<IncomingHttpHeaders> => {
      const stream = session.request(headers);
      stream.on("error", () => {});
      stream.write(ask(host));
      const [answer] = (await once(stream, "response")) as [IncomingHttpHeaders];
      return answer;
    };
    for (let at = 1; at <= 20; at++) await open("h");
    assert.ok(budget.bytes > 20 * 1_000, `${budget.bytes} bytes are reserved`);
    assert.equal((await open("h".repeat(70_000)))["grpc-status"], "8");
    assert.equal((await open("h".repeat(60_000)))["grpc-status"], undefined);
    assert.ok(budget.bytes > 140_000);
    session.destroy();
    await eventually("all room is given back", () => budget.bytes === 0);
  });

  test("of four addresses, which use all room, are closed for those who read", async () => {
    const budget = new WriteBufferBudget(() => 4.2 * ANSWER_BYTES);
    const node = new TestNode({
      genesis: { app_state: { big: "x".repeat(ANSWER_BYTES) } },
      deliveries: () => txResult({ log: "x".repeat(ANSWER_BYTES) }),
    });
    await using rpc = await serveRpc({}, node, budget);
    await using grpc = await serveGrpc(budget);
    const port = Number(new URL(rpc.url).port);
    await using subscriber = await TestSocket.connect(rpc.url);
    await subscriber.ask(1, "subscribe", { query: "tm.event='Tx'" });
    const slow: Socket[] = [];
    for (const last of [2, 3, 4]) slow.push(await sendAndLeave(port, post(GENESIS), `127.0.0.${last}`));
    const slowGrpc = openHttp2(grpc.port, "127.0.0.5");
    const call = await callAndLeave(slowGrpc);
    assert.ok(budget.bytes > 4 * ANSWER_BYTES);

    const answer = await fetch(`${rpc.url}/genesis`);
    assert.equal(answer.status, 200);
    await answer.arrayBuffer();
    node.submit(Buffer.from("00", "hex"));
    node.produce();
    assert.ok(await subscriber.next(), "the subscriber has its event");
    const honest = openHttp2(grpc.port);
    assert.equal((await callAndLeave(honest)).answer["grpc-status"], undefined);
    for (let from = 6; from < 12; from++) {
      slow.push(await sendAndLeave(port, post(GENESIS), `127.0.0.${from}`));
      assert.ok(budget.bytes <= 4.2 * ANSWER_BYTES);
    }
    assert.ok((await readToEnd(slow[0] as Socket)) < ANSWER_BYTES);
    if (!call.stream.closed) await once(call.stream, "close");
    for (const socket of slow) socket.destroy();
    slowGrpc.destroy();
    honest.destroy();
    await eventually("all room is given back", () => budget.bytes === 0);
  });
});
