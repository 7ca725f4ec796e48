import assert from "node:assert/strict";
import { once } from "node:events";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { describe, test } from "node:test";
import { noMetrics } from "@turnpike/base";
import type { PairedSocket } from "@turnpike/relay";
import {
  eventually,
  openRaw,
  openSocket,
  PATIENCE_MS,
  refusedUpgrade,
  type SocketClient,
  virtualClock,
} from "@turnpike/testkit";
import type { WebSocket } from "ws";
import { gatewayOptions, webSocketOptions } from "../../test/options.ts";
import { type SocketGateway, type SocketGatewayInput, startSocketGateway } from "../../test/socket-gateway.ts";
import { type SocketStub, type StubCall, startSocketStub } from "../../test/socket-stub.ts";
import { service } from "../../test/stand-ins.ts";
import { noSubscriptions } from "../generation.ts";
import { createRequestIds } from "../http/request-id.ts";
import { CallersInFlight } from "../limits/callers-in-flight.ts";
import { noRateLimits, type RateLimits } from "../limits/types.ts";
import { WebSocketCounts } from "./counts.ts";
import type { WebSocketLimits } from "./options.ts";
import { WebSocketHandler } from "./websocket-handler.ts";

/** More than the system takes off a socket at once. */
const LARGE_BYTES = 8 * 1_048_576;
const LARGE = Buffer.alloc(LARGE_BYTES, "x").toString("latin1");
const UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
const KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
const HEAD = { number: "0x1", hash: "0xb1", parentHash: "0xb0" };

/** A supplier that has nothing but WebSockets. */
function evmAnswer({ id, method, params }: StubCall, socket: WebSocket): string {
  if (JSON.stringify(params) === '["early"]') {
    const event = '{"subscription":"0xs-[\\"early\\"]","result":1}';
    socket.send(`{"jsonrpc":"2.0","method":"eth_subscription","params":${event}}`);
  }
  // Written by hand: to quote so long a text costs more than all the rest.
  if (method === "eth_large") return `{"jsonrpc":"2.0","id":${id},"result":"${LARGE}"}`;
  const result: Readonly<Record<string, unknown>> = {
    eth_chainId: "0x1",
    eth_subscribe: `0xs-${JSON.stringify(params)}`,
    eth_getBlockByNumber: HEAD,
    eth_echo: params,
  };
  if (method in result) return JSON.stringify({ jsonrpc: "2.0", id, result: result[method] ?? null });
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: `no ${method}`, data: 7 } });
}

interface Stage extends AsyncDisposable {
  readonly here: SocketGateway;
  readonly stub: SocketStub;
  /** The id, at the supplier, of a call of `eth_held`, which it does not answer. */
  readonly held: number | undefined;
}

async function stage(limits: Partial<WebSocketLimits> = {}, change: Partial<SocketGatewayInput> = {}): Promise<Stage> {
  let held: number | undefined;
  const stub = await startSocketStub((call, socket) => {
    if (call.method !== "eth_held") return evmAnswer(call, socket);
    held = call.id;
    return undefined;
  });
  const here = await startSocketGateway({
    chainId: 1,
    socketUrls: [stub.url],
    ...change,
    options: { webSockets: { ...webSocketOptions, closeTimeoutMs: PATIENCE_MS, ...limits }, ...change.options },
  });
  return {
    here,
    stub,
    get held() {
      return held;
    },
    async [Symbol.asyncDispose]() {
      await here[Symbol.asyncDispose]();
      await stub[Symbol.asyncDispose]();
    },
  };
}

const pending = (value: string): string =>
  `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xs-[\\"newPendingTransactions\\"]","result":${value}}}`;

async function subscribed(client: SocketClient, id = 1): Promise<string> {
  return String((await client.call(id, "eth_subscribe", ["newPendingTransactions"])).result);
}

async function counted(here: SocketGateway, name: string): Promise<number> {
  const lines = (await here.metrics()).split("\n").filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** Resolves when all that the client sent before is read, and it has answered what it was sent before. */
async function settled({ socket, closed }: SocketClient): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const pong = once(socket, "pong");
    socket.ping();
    const end = await Promise.race([pong.then(() => undefined), closed]);
    assert.equal(end, undefined, "the WebSocket is open");
  }
}

/** The sessions are looked at by a timer that repeats, so that a test with mocked ones says when. */
const MOCKED = { apis: ["setInterval" as const] };
/** A thirtieth of the pings' interval. */
const TICK_MS = webSocketOptions.pingIntervalMs / 30;

describe("upgrades", () => {
  test("unknown 404, no supplier 503, no WebSocket 400, bad handshake 400; each a JSON-RPC error", async () => {
    await using at = await stage();
    const base = at.here.gateway.url.replace("http", "ws");
    const cases: readonly (readonly [string, number, number])[] = [
      [`${base}/relay/no-such-network`, 404, -32601],
      [`${base}/relay/eth/elsewhere`, 404, -32601],
      [`${base}/relay/poly`, 503, -32503],
      [`${base}/relay/near`, 400, -32600],
    ];
    for (const [url, status, code] of cases) {
      const refused = await refusedUpgrade(url);
      const body = JSON.parse(refused.body) as { id: unknown; error: { code: number } };
      assert.deepEqual([refused.status, body.id, body.error.code], [status, null, code], url);
      if (status === 503) assert.equal(refused.headers["retry-after"], "1");
    }
    await using raw = await openRaw(at.here.gateway.port);
    raw.write("GET /relay/eth HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    const [answer] = await raw.next();
    assert.equal(answer?.status, 400);
    assert.equal(answer?.headers.get("sec-websocket-version"), "13, 8");
  });

  test("by host, and by path; an upgrade elsewhere or to another protocol is an ordinary request", async () => {
    await using at = await stage();
    const base = at.here.gateway.url.replace("http", "ws");
    await using byHost = await openSocket(base, { host: "ETH.localhost:1" });
    assert.equal((await byHost.call(1, "eth_chainId")).result, "0x1");
    await using raw = await openRaw(at.here.gateway.port);
    raw.write("GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert.equal((await raw.next())[0]?.status, 200);
    raw.write("GET /relay/eth HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert.equal((await raw.next())[0]?.status, 405);
  });

  test("over the cap 503, over the client's cap 429, over the rate 429; a place is free again after a close", async () => {
    await using at = await stage({ max: 2 });
    const first = await openSocket(at.here.url);
    await using second = await openSocket(at.here.url);
    const refused = await refusedUpgrade(at.here.url);
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [503, "1"]);
    first.socket.close(1000);
    await first.closed;
    await using third = await openSocket(at.here.url);
    assert.ok(second.socket.readyState === 1 && third.socket.readyState === 1);

    await using narrow = await stage({ maxPerClient: 1 });
    await using only = await openSocket(narrow.here.url);
    assert.equal((await refusedUpgrade(narrow.here.url)).status, 429);
    assert.equal(only.socket.readyState, 1);

    await using behind = await stage({ maxPerClient: 1 }, { options: { trustedProxies: ["127.0.0.1"] } });
    const from = (address: string) => ({ "x-forwarded-for": address });
    await using one = await openSocket(behind.here.url, from("2001:db8:1:2::1"));
    assert.equal((await refusedUpgrade(behind.here.url, from("2001:db8:1:2:ffff::9"))).status, 429, "the same /64");
    await using next = await openSocket(behind.here.url, from("2001:db8:1:3::1"));
    assert.ok(one.socket.readyState === 1 && next.socket.readyState === 1);

    const limits: RateLimits = { ...noRateLimits, consume: () => ({ ok: false, retryAfterSeconds: 7, headers: [] }) };
    await using slow = await stage({}, { modules: { limits } });
    const limited = await refusedUpgrade(slow.here.url);
    assert.deepEqual([limited.status, limited.headers["retry-after"]], [429, "7"]);
  });
});

describe("heads of upgrades", () => {
  test("two hosts, none, or too many headers: refused as other requests are", async () => {
    await using at = await stage();
    const cases: readonly (readonly [string, string, string, number])[] = [
      ["one host", "HTTP/1.1", "Host: x\r\n", 101],
      ["two hosts", "HTTP/1.1", "Host: x\r\nhost: eth.localhost\r\n", 400],
      ["no host", "HTTP/1.1", "", 400],
      ["too many headers", "HTTP/1.1", `Host: x\r\n${"a: b\r\n".repeat(100)}`, 431],
    ];
    for (const [name, version, more, status] of cases) {
      await using raw = await openRaw(at.here.gateway.port);
      const head = once(raw.socket, "data");
      raw.write(`GET /relay/eth ${version}\r\n${UPGRADE}${KEY}${more}\r\n`);
      assert.match(String(await head), new RegExp(`^HTTP/1.1 ${status} `), name);
      if (status === 101) continue;
      const [answer] = await raw.all();
      assert.match(answer?.body ?? "", /"id":null,"error":\{"code":/, name);
    }
  });

  test("protocols that cannot be read: 400, and no supplier is connected to", async () => {
    await using solana = await startSocketStub(() => "");
    await using at = await stage({}, { others: { solana: solana.url } });
    for (const protocols of ["a,a", "", "a,,b", "a b", "(", "a,"]) {
      await using raw = await openRaw(at.here.gateway.port);
      raw.write(
        `GET /relay/solana HTTP/1.1\r\nHost: x\r\n${UPGRADE}${KEY}Sec-WebSocket-Protocol: ${protocols}\r\n\r\n`,
      );
      const [answer] = await raw.all();
      assert.equal(answer?.status, 400, protocols);
      assert.match(answer.body, /"id":null,"error":\{"code":-32600/, protocols);
    }
    assert.equal(solana.connections, 0);
    await using raw = await openRaw(at.here.gateway.port);
    const head = once(raw.socket, "data");
    raw.write(`GET /relay/solana HTTP/1.1\r\nHost: x\r\n${UPGRADE}${KEY}Sec-WebSocket-Protocol: a ,\tb.c\r\n\r\n`);
    assert.match(String(await head), /^HTTP\/1.1 101 /, "protocols that can be read");
    assert.equal(solana.connections, 1);
  });

  test("an upgrade that comes to nothing closes the supplier's socket that was opened for it", async () => {
    const closed = Promise.withResolvers<void>();
    const paired: PairedSocket = {
      send: () => {},
      bufferedBytes: 0,
      pause: () => {},
      resume: () => {},
      close: () => closed.resolve(),
    };
    const handler = new WebSocketHandler(
      { relayDomain: "localhost", maxHeaders: 100, limits: webSocketOptions },
      {
        services: [service("solana", { families: ["solana"] })],
        subscriptions: { ...noSubscriptions, offers: () => true, pair: async () => paired },
        relayCalls: () => Promise.reject(new Error("no call is expected")),
        consumeQuota: () => ({ ok: true, headers: [] }),
        consumeEvents: async () => true,
        inFlight: new CallersInFlight({ maxConcurrentPerClient: () => 1, metrics: noMetrics }),
        callTimeoutMs: () => 1_000,
        takesKeys: false,
        clientIp: () => "127.0.0.1",
        requestId: createRequestIds({ bytes: (count) => new Uint8Array(count) }),
        random: { bytes: (count) => new Uint8Array(count) },
        metrics: noMetrics,
        counts: new WebSocketCounts(noMetrics),
        observer: { onUpgrade: () => {} },
      },
    );
    const socket = new PassThrough({ autoDestroy: false });
    // The client has ended its side, and that has been read: ws gives such an upgrade up without a word.
    const ended = once(socket.end().resume(), "end");
    await ended;
    const req = new IncomingMessage(new Socket());
    Object.assign(req, { method: "GET", url: "/relay/solana", httpVersion: "1.1", rawHeaders: ["Host", "x"] });
    Object.assign(req.headers, {
      host: "x",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    });
    handler.handleUpgrade(req, socket, Buffer.alloc(0));
    await closed.promise;
    await handler.close(0);
  });
});

describe("messages", () => {
  test("a client has so many calls under way at most, over all its WebSockets; what comes more is refused", async () => {
    await using at = await stage({}, { options: { maxConcurrentPerClient: 1 } });
    await using one = await openSocket(at.here.url);
    await using two = await openSocket(at.here.url);
    const held = one.call(1, "eth_held");
    await eventually("it is under way", () => at.held !== undefined);
    assert.match(JSON.stringify((await two.call(2, "eth_chainId")).error), /-32005.*under way/);
    two.send('[{"jsonrpc":"2.0","id":3,"method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_chainId"}]');
    await two.until(2);
    assert.match(two.texts[1] ?? "", /^\[\{"jsonrpc":"2\.0","id":3,"error":\{"code":-32005,[^\]]*\}\]$/);
    at.stub.broadcast(JSON.stringify({ jsonrpc: "2.0", id: at.held, result: "late" }));
    assert.equal((await held).result, "late");
    assert.equal((await two.call(4, "eth_chainId")).result, "0x1");
  });

  test("where all clients share a supplier's WebSocket there are no filters: one would be everybody's", async () => {
    await using at = await stage();
    await using client = await openSocket(at.here.url);
    for (const method of ["eth_newFilter", "eth_newBlockFilter", "eth_getFilterChanges", "eth_uninstallFilter"]) {
      assert.match(JSON.stringify((await client.call(1, method, ["0x1"])).error), /-32601.*eth_subscribe/, method);
    }
    assert.ok(!at.stub.calls.some((call) => call.includes("ilter")));
  });

  test("ids byte for byte, batches in order, notifications silent, denied and invalid refused, errors passed on", async () => {
    await using at = await stage();
    await using client = await openSocket(at.here.url);
    let count = 0;
    const answer = async (text: string): Promise<string> => {
      client.send(text);
      await client.until(++count);
      return client.texts[count - 1] ?? "";
    };
    for (const id of ["1.50", "12345678901234567890", '"\\u00e9"', "null", "-0"]) {
      const text = await answer(`{"jsonrpc":"2.0","id":${id},"method":"eth_echo","params":[1e2]}`);
      assert.equal(text, `{"jsonrpc":"2.0","id":${id},"result":[100]}`);
    }
    const batch = await answer(
      `[{"jsonrpc":"2.0","id":3,"method":"eth_echo"},{"jsonrpc":"2.0","method":"eth_echo"},7,
        {"jsonrpc":"2.0","id":3,"method":"anvil_setBalance"},{"jsonrpc":"2.0","id":"s","method":"eth_subscribe","params":["newHeads"]}]`,
    );
    const items = JSON.parse(batch) as { id: unknown; error?: { code: number }; result?: unknown }[];
    assert.deepEqual(
      items.map(({ id, error }) => [id, error?.code]),
      [
        [3, undefined],
        [null, -32600],
        [3, -32601],
        ["s", undefined],
      ],
    );
    assert.match(await answer("{"), /"id":null,"error":\{"code":-32700/);
    assert.match(await answer("[]"), /"id":null,"error":\{"code":-32600/);
    assert.equal(
      await answer('{"jsonrpc":"2.0","id":9,"method":"eth_nothing"}'),
      '{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no eth_nothing","data":7}}',
    );
    client.send('[{"jsonrpc":"2.0","method":"eth_echo"}]');
    assert.match(await answer('{"jsonrpc":"2.0","id":10,"method":"eth_subscribe","params":{}}'), /-32602/);
    assert.equal(at.stub.calls.includes("anvil_setBalance undefined"), false);
  });

  test("over the rate: each item gets its error, and the connection stays", async () => {
    let isOver = false;
    const limits: RateLimits = {
      ...noRateLimits,
      consume: ({ items }) =>
        isOver && items > 0 ? { ok: false, retryAfterSeconds: 3, headers: [] } : { ok: true, headers: [] },
    };
    await using at = await stage({}, { modules: { limits } });
    await using client = await openSocket(at.here.url);
    isOver = true;
    client.send('[{"jsonrpc":"2.0","id":1,"method":"eth_echo"},{"jsonrpc":"2.0","id":1.0,"method":"eth_echo"}]');
    await client.until(1);
    assert.match(client.texts[0] ?? "", /^\[\{"jsonrpc":"2.0","id":1,"error":\{"code":-32005,.*"id":1\.0,"error"/);
    isOver = false;
    assert.equal((await client.call(5, "eth_chainId")).result, "0x1");
  });

  test("too large a message closes with 1009; too many subscriptions are refused", async () => {
    await using at = await stage({ maxMessageBytes: 1_000, maxSubscriptionsPerSocket: 2 });
    await using client = await openSocket(at.here.url);
    await subscribed(client, 1);
    await subscribed(client, 2);
    assert.equal((await client.call(3, "eth_subscribe", ["newHeads"])).result, undefined);
    client.send(" ".repeat(1_001));
    assert.equal((await client.closed).code, 1009);
  });
});

describe("messages that are not whole", () => {
  const UNFINISHED = 'turnpike_gateway_websocket_closed_total{service="eth",reason="unfinished"}';

  test("together they hold no more than the total: the largest is ended", async (context) => {
    context.mock.timers.enable(MOCKED);
    await using at = await stage({ maxTotalQueuedBytes: 100_000 });
    await using small = await openSocket(at.here.url);
    await using large = await openSocket(at.here.url);
    const text = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"';
    small.socket.send(`${" ".repeat(60_000)}${text}`, { fin: false });
    large.socket.send(" ".repeat(30_000), { fin: false });
    await Promise.all([settled(small), settled(large)]);
    context.mock.timers.tick(TICK_MS);
    assert.equal(await counted(at.here, UNFINISHED), 0);
    large.socket.send(" ".repeat(50_000), { fin: false });
    await settled(large);
    context.mock.timers.tick(TICK_MS);
    assert.ok([1006, 1008].includes((await large.closed).code));
    small.socket.send("}", { fin: true });
    await small.until(1);
    assert.match(small.texts[0] ?? "", /"id":1,"result":"0x1"/);
    assert.equal(await counted(at.here, UNFINISHED), 1);
  });

  test("one that is under way for too long ends its WebSocket; one that only listens stays", async (context) => {
    context.mock.timers.enable(MOCKED);
    await using at = await stage({ messageTimeoutMs: 45 * TICK_MS });
    await using listens = await openSocket(at.here.url);
    await using stalls = await openSocket(at.here.url);
    stalls.socket.send("{", { fin: false });
    for (let tick = 1; tick <= 45; tick++) {
      await Promise.all([settled(listens), settled(stalls)]);
      context.mock.timers.tick(TICK_MS);
    }
    assert.equal(await counted(at.here, UNFINISHED), 0);
    context.mock.timers.tick(TICK_MS);
    assert.deepEqual(await stalls.closed, { code: 1008, reason: "a message was not whole in time" });
    assert.equal(await counted(at.here, UNFINISHED), 1);
    // Its pongs came over the same time, and are no message.
    assert.equal((await listens.call(1, "eth_chainId")).result, "0x1");
  });

  test("one in very many pieces is refused", async () => {
    await using at = await stage({ maxMessageBytes: 65_536 });
    await using client = await openSocket(at.here.url);
    for (let piece = 0; piece < 2_000; piece++) client.socket.send(" ", { fin: false });
    assert.equal((await client.closed).code, 1008);
  });
});

describe("answers larger than the queue", () => {
  test("a client that reads gets them, one after the other", async () => {
    await using at = await stage({ maxQueuedBytes: 65_536 });
    await using client = await openSocket(at.here.url);
    for (const id of [1, 2]) {
      const answer = await Promise.race([client.call(id, "eth_large"), client.closed]);
      assert.equal("result" in answer && String(answer.result).length, LARGE_BYTES);
    }
  });

  test("a batch's answers together are bounded; the others get an error, and subscriptions are told", async () => {
    await using at = await stage();
    await using client = await openSocket(at.here.url);
    const call = (id: number): string => `{"jsonrpc":"2.0","id":${id},"method":"eth_large"}`;
    const subscribe = '{"jsonrpc":"2.0","id":9,"method":"eth_subscribe","params":["newPendingTransactions"]}';
    const calls = [1, 2, 3, 4, 5].map(call).join();
    for (const batch of [`[${calls}]`, `[${calls},${subscribe}]`]) {
      const count = client.texts.length;
      client.send(batch);
      await client.until(count + 1);
      const answers = JSON.parse(client.texts[count] ?? "") as { id: number; result?: string; error?: unknown }[];
      const large = answers.filter(({ result = "" }) => result.length === LARGE_BYTES);
      assert.equal(large.length, 3, "32 MiB less what the answers have around them");
      const refused = answers.filter(({ error }) => error !== undefined);
      assert.deepEqual(
        refused.map(({ error }) => (error as { code: number }).code),
        [-32503, -32503],
      );
      assert.deepEqual(
        answers.map(({ id }) => id),
        batch.includes("subscribe") ? [1, 2, 3, 4, 5, 9] : [1, 2, 3, 4, 5],
      );
      if (batch.includes("subscribe")) assert.match(answers[5]?.result ?? "", /^0x/);
    }
  });

  test("the same both ways where a client has a supplier's WebSocket of its own", async () => {
    await using solana = await startSocketStub(({ id, params }) =>
      JSON.stringify({ jsonrpc: "2.0", id, result: params }),
    );
    const limits = { maxQueuedBytes: 65_536, maxMessageBytes: 2 * LARGE_BYTES };
    await using at = await stage(limits, { others: { solana: solana.url } });
    await using client = await openSocket(at.here.url.replace("/eth", "/solana"));
    for (const id of [1, 2]) {
      const answer = await Promise.race([client.call(id, "echo", ["x".repeat(LARGE_BYTES)]), client.closed]);
      assert.equal("result" in answer && String(answer.result).length, LARGE_BYTES);
    }
  });
});

describe("subscriptions of clients", () => {
  test("events carry the client's own id and the supplier's bytes; unsubscribed ones end", async () => {
    await using at = await stage();
    await using client = await openSocket(at.here.url);
    const [a, b] = [await subscribed(client, 1), await subscribed(client, 2)];
    assert.notEqual(a, b);
    at.stub.broadcast(pending('{ "x":1e3 }'));
    await client.until(4);
    const text = (id: string, raw: string): string =>
      `{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"${id}","result":${raw}}}`;
    assert.deepEqual(client.texts.slice(2), [text(a, '{ "x":1e3 }'), text(b, '{ "x":1e3 }')]);
    assert.equal((await client.call(3, "eth_unsubscribe", [a])).result, true);
    at.stub.broadcast(pending("2"));
    await client.until(6);
    assert.equal(client.texts[5], text(b, "2"));
    const again = await client.call(4, "eth_unsubscribe", [a]);
    assert.deepEqual(again.error, { code: -32000, message: "subscription not found" });
  });

  test("an event never comes before the answer that names its subscription", async () => {
    await using at = await stage();
    await using client = await openSocket(at.here.url);
    const { result } = await client.call(1, "eth_subscribe", ["early"]);
    await client.until(2);
    assert.match(client.texts[0] ?? "", /"id":1/);
    assert.ok(client.texts[1]?.includes(String(result)));
  });

  test("a client that does not read is closed, and the others lose nothing", async () => {
    await using at = await stage({ maxQueuedBytes: 65_536, closeTimeoutMs: 50 });
    await using slow = await openSocket(at.here.url);
    await using quick = await openSocket(at.here.url);
    await subscribed(slow);
    await subscribed(quick);
    slow.socket.pause();
    const large = `"${"x".repeat(200_000)}"`;
    let sent = 0;
    while ((await counted(at.here, 'turnpike_gateway_websocket_closed_total{service="eth",reason="slow"}')) === 0) {
      at.stub.broadcast(pending(large));
      sent++;
      await quick.until(1 + sent);
      assert.ok(sent < 500, "a client that reads nothing is served for ever");
    }
    assert.equal(quick.texts.length, 1 + sent);
    assert.equal(await counted(at.here, "turnpike_gateway_websocket_subscriptions"), 1);
    slow.socket.resume();
    assert.ok([1006, 1013].includes((await slow.closed).code));
  });

  test("a client that answers no ping is ended; one that does stays", async (context) => {
    context.mock.timers.enable(MOCKED);
    const silent = 'turnpike_gateway_websocket_closed_total{service="eth",reason="silent"}';
    await using at = await stage();
    await using deaf = await openSocket(at.here.url);
    await using alive = await openSocket(at.here.url);
    deaf.socket.pause();
    // The first round of pings goes to all, the second finds out.
    for (const ended of [0, 1, 1]) {
      context.mock.timers.tick(webSocketOptions.pingIntervalMs);
      assert.equal(await counted(at.here, silent), ended);
      await settled(alive);
    }
    assert.equal((await alive.call(1, "eth_chainId")).result, "0x1");
  });

  test("no supplier is left: 1011", async () => {
    const clock = virtualClock();
    await using at = await stage({}, { clock });
    await using client = await openSocket(at.here.url);
    await subscribed(client);
    let isClosed = false;
    void client.closed.then(() => {
      isClosed = true;
    });
    await at.stub[Symbol.asyncDispose]();
    await eventually("the time to find a supplier has passed", () => {
      clock.advance(PATIENCE_MS);
      return isClosed;
    });
    assert.deepEqual(await client.closed, { code: 1011, reason: "no supplier can be reached" });
  });

  test("shutdown: what is worked on is answered, then 1001; new upgrades are refused", async () => {
    const at = await stage({}, { options: { shutdownTimeoutMs: PATIENCE_MS } });
    await using client = await openSocket(at.here.url);
    await subscribed(client);
    await using raw = await openRaw(at.here.gateway.port);
    // Its second request has begun, so its connection is not idle.
    raw.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /relay/eth HTTP/1.1\r\nHost: x\r\n");
    await raw.next();
    const answer = client.call(2, "eth_held");
    const asked = await eventually("the supplier is asked", () => at.held);
    const done = at[Symbol.asyncDispose]();
    raw.write(`${UPGRADE}${KEY}\r\n`);
    const [refused] = await raw.next();
    assert.equal(refused?.status, 503);
    assert.match(refused.body, /-32503/);
    raw.socket.destroy();
    at.stub.broadcast(JSON.stringify({ jsonrpc: "2.0", id: asked, result: "late" }));
    assert.equal((await answer).result, "late");
    assert.deepEqual(await client.closed, { code: 1001, reason: "the gateway is stopping" });
    await done;
  });
});

describe("CometBFT", () => {
  const cometAnswer = ({ id, method, params }: StubCall): string => {
    const result: Readonly<Record<string, unknown>> = {
      status: { node_info: { network: "osmosis-1" } },
      abci_info: params,
    };
    return JSON.stringify({ jsonrpc: "2.0", id, result: result[method] ?? {} });
  };

  test("queries are shared, events carry the id of the client's call, and move to the next supplier", async () => {
    await using comet = await startSocketStub(cometAnswer);
    await using at = await stage({}, { others: { osmosis: comet.url } });
    const url = at.here.url.replace("/eth", "/osmosis/websocket");
    await using one = await openSocket(url);
    await using two = await openSocket(url);
    const query = "tm.event='NewBlock'";
    assert.deepEqual((await one.call(11, "subscribe", { query })).result, {});
    assert.deepEqual((await two.call(22, "subscribe", [query])).result, {});
    assert.deepEqual(comet.calls, ["status {}", `subscribe ${JSON.stringify({ query })}`]);
    const event = (height: number): string => `{"jsonrpc":"2.0","id":2,"result":{"query":"q", "height":${height}}}`;
    comet.broadcast(event(1));
    await Promise.all([one.until(2), two.until(2)]);
    assert.equal(one.texts[1], '{"jsonrpc":"2.0","id":11,"result":{"query":"q", "height":1}}');
    assert.equal(two.texts[1], '{"jsonrpc":"2.0","id":22,"result":{"query":"q", "height":1}}');
    const twice = await one.call(12, "subscribe", { query });
    assert.deepEqual(twice.error, { code: -32603, message: "Internal error", data: "already subscribed" });
    assert.deepEqual((await one.call(13, "abci_info", {})).result, {});

    comet.drop();
    const subscribes = () => comet.calls.filter((call) => call.startsWith("subscribe"));
    await eventually("it is subscribed again", () => subscribes().length === 2);
    comet.broadcast(event(1));
    comet.broadcast(event(2));
    await two.until(3);
    assert.match(two.texts[2] ?? "", /"height":2/);

    assert.deepEqual((await one.call(14, "unsubscribe", { query })).result, {});
    assert.equal(comet.calls.at(-1)?.startsWith("unsubscribe"), false);
    assert.deepEqual((await two.call(23, "unsubscribe_all", {})).result, {});
    const unsubscribe = `unsubscribe ${JSON.stringify({ query })}`;
    await eventually("the supplier's subscription is ended", () => comet.calls.at(-1) === unsubscribe);
  });
});

describe("CometBFT's subscriptions by id", () => {
  test("a call's id may be as long as its message, but not that of a subscription: each event repeats it", async () => {
    await using comet = await startSocketStub(
      ({ id, method }) =>
        `{"jsonrpc":"2.0","id":${id},"result":${method === "status" ? '{"node_info":{"network":"osmosis-1"}}' : "{}"}}`,
    );
    await using at = await stage({}, { others: { osmosis: comet.url } });
    await using client = await openSocket(at.here.url.replace("/eth", "/osmosis/websocket"));
    const long = `"${"x".repeat(4_000)}"`;
    client.send(`{"jsonrpc":"2.0","id":${long},"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}`);
    await client.until(1);
    assert.match(client.texts[0] ?? "", /"error":\{"code":-32602,/);
    client.send(`{"jsonrpc":"2.0","id":${long},"method":"abci_info","params":{}}`);
    await client.until(2);
    assert.equal(client.texts[1], `{"jsonrpc":"2.0","id":${long},"result":{}}`);
  });
});

describe("networks whose clients have a supplier's WebSocket of their own", () => {
  test("bytes pass both ways, denied methods do not; the supplier's end is the client's", async () => {
    await using solana = await startSocketStub(({ id }) => `{"jsonrpc": "2.0", "result":${id},"id":${id}}`);
    await using at = await stage({}, { others: { solana: solana.url } });
    const url = at.here.url.replace("/eth", "/solana");
    await using one = await openSocket(url);
    await using two = await openSocket(url);
    assert.equal(solana.connections, 2);
    one.send('{"jsonrpc":"2.0", "id":5,"method":"slotSubscribe"}');
    await one.until(1);
    assert.deepEqual([one.texts, two.texts], [['{"jsonrpc": "2.0", "result":5,"id":5}'], []]);
    assert.match(JSON.stringify(await two.call(6, "validatorExit")), /-32601/);
    assert.equal(solana.calls.length, 1);
    one.socket.close(1000);
    await one.closed;
    await eventually("the supplier's socket of the first is closed", () => solana.connections === 1);
    solana.drop();
    assert.deepEqual(await two.closed, { code: 1011, reason: "the supplier ended the connection" });
  });

  /** A supplier that answers all but `slow`, and two WebSockets of one client to it. */
  async function slowStage(change: Partial<SocketGatewayInput> = {}) {
    await using stack = new AsyncDisposableStack();
    const solana = stack.use(
      await startSocketStub(({ id, method }) =>
        method === "slow" ? undefined : `{"jsonrpc":"2.0","result":"fast","id":${id}}`,
      ),
    );
    const options = { maxConcurrentPerClient: 2 };
    const at = stack.use(await stage({}, { others: { solana: solana.url }, ...change, options }));
    const url = at.here.url.replace("/eth", "/solana");
    const one = stack.use(await openSocket(url));
    const two = stack.use(await openSocket(url));
    for (const id of [1, 2]) one.send(`{"jsonrpc":"2.0","id":${id},"method":"slow"}`);
    await eventually("both are at the supplier", () => solana.calls.length === 2);
    const owned = stack.move();
    let id = 100;
    const isRefused = async (): Promise<boolean> => {
      const { error, result } = await two.call(++id, "fast");
      if (error !== undefined) assert.match(JSON.stringify(error), /-32005.*under way/);
      return result !== "fast";
    };
    return { solana, at, one, two, isRefused, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  test("attack: calls that a supplier is slow to answer are among those of their client under way", async () => {
    await using to = await slowStage();
    await using evm = await openSocket(to.at.here.url);
    assert.ok(await to.isRefused());
    assert.match(JSON.stringify((await evm.call(4, "eth_chainId")).error), /-32005.*under way/);
    assert.equal(to.solana.calls.length, 2, "what is refused does not reach the supplier");
    to.solana.broadcast('{"jsonrpc":"2.0","id":1,"method":"slotNotification","params":{"id":1,"result":{"id":1}}}');
    await to.one.until(1);
    assert.ok(await to.isRefused(), "an event answers no call");
    to.solana.broadcast('{"jsonrpc":"2.0","result":"late","id":1}');
    await to.one.until(2);
    assert.ok(!(await to.isRefused()));
    assert.ok(!(await to.isRefused()), "an answered call is over");
    assert.equal((await evm.call(8, "eth_chainId")).result, "0x1");
    to.one.send('{"jsonrpc":"2.0","id":9,"method":"slow"}');
    await eventually("two are under way again", () => to.isRefused());
    to.one.socket.close(1000);
    await eventually("those of a WebSocket that has ended are over", async () => !(await to.isRefused()));
  });

  test("a call is under way for no longer than a free call may take", async (context) => {
    context.mock.timers.enable(MOCKED);
    await using to = await slowStage();
    assert.ok(await to.isRefused());
    context.mock.timers.tick(gatewayOptions.upstreamTimeoutMs - TICK_MS);
    assert.ok(await to.isRefused());
    context.mock.timers.tick(2 * TICK_MS);
    assert.ok(!(await to.isRefused()));
  });

  test("an answer is no event, so that a call counts once", async (context) => {
    context.mock.timers.enable(MOCKED);
    const counted: number[] = [];
    const limits: RateLimits = { ...noRateLimits, consumeEvents: (_, events) => counted.push(events) > 0 };
    await using to = await slowStage({ modules: { limits } });
    to.solana.broadcast('{"jsonrpc":"2.0","result":"late","id":1}');
    to.solana.broadcast('{"jsonrpc":"2.0","method":"slotNotification","params":{}}');
    await to.one.until(2);
    to.one.socket.close(1000);
    await eventually("its events are counted", () => counted.length > 0);
    assert.deepEqual(counted, [1]);
  });

  test("no supplier that can be reached: 502 before the upgrade", async () => {
    await using solana = await startSocketStub(() => "");
    await using at = await stage({}, { others: { solana: solana.url } });
    await solana[Symbol.asyncDispose]();
    const refused = await refusedUpgrade(at.here.url.replace("/eth", "/solana"));
    assert.equal(refused.status, 502);
  });
});
