import assert from "node:assert/strict";
import { type LookupFunction, Socket } from "node:net";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { eventually, virtualClock } from "@turnpike/testkit";
import { ask, headOf, newPool } from "../test/asking.ts";
import { startRawServer, writeBytewise } from "../test/raw-server.ts";
import { RequestHead } from "./request-head.ts";

const OK = "HTTP/1.1 200 OK\r\n";
const EMPTY = `${OK}Content-Length: 0\r\n\r\n`;
const HELLO = `${OK}Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello`;

/** A server that says the same to all. */
const startServer = (text: string) =>
  startRawServer({
    answer(socket, _request, answered) {
      answered();
      socket.write(text, "latin1");
    },
  });

suite("requests", () => {
  test("are written as they are: text, bytes, large ones, and none", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    const large = "x".repeat(200_000);
    const bodies = ["{}", "é😀", Buffer.from([0, 0xff]), "", new Uint8Array(0), large, Buffer.from(large), `é${large}`];
    for (const body of bodies) {
      assert.deepEqual(await ask(pool, { body }).result, {
        status: 200,
        fields: { "content-type": "text/plain" },
        body: "hello",
      });
      const bytes = Buffer.from(body as string);
      const text = `POST / HTTP/1.1\r\nhost: test\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes.toString("latin1")}`;
      assert.equal(server.requests.at(-1)?.text, text);
    }
    await ask(pool, { head: headOf("GET", { "X-Key": "a b" }) }).result;
    assert.equal(server.requests.at(-1)?.text, "GET / HTTP/1.1\r\nhost: test\r\nX-Key: a b\r\n\r\n");
    await ask(pool, { head: headOf("POST") }).result;
    assert.equal(server.requests.at(-1)?.text, "POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n");
    assert.equal(server.sockets.length, 1);
  });

  test("are one write each", async (t) => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    await ask(pool).result;
    // One call is one write to the system.
    const prototype = Socket.prototype as unknown as { _writeGeneric(this: Socket, ...rest: unknown[]): void };
    const writes = t.mock.method(prototype, "_writeGeneric");
    const ours = (): number => writes.mock.calls.filter((call) => !server.sockets.includes(call.this as Socket)).length;
    for (const [at, body] of [undefined, "{}", Buffer.from("{}"), "x".repeat(10_000), Buffer.alloc(10_000)].entries()) {
      await ask(pool, { body }).result;
      assert.equal(ours(), at + 1);
    }
  });

  test("cannot be made of what would be another request", () => {
    const of = (path: string, headers: Readonly<Record<string, string>> = {}, host = "a"): RequestHead | undefined =>
      RequestHead.of({ method: "GET", path, host, headers });
    assert.ok(of("/a?b=\xe9", { "x-a": "b\t\xe9" }) !== undefined);
    for (const path of ["", "a", "*", "/a b", "/a\r\n", "/\u0100", "/\x7f"]) assert.equal(of(path), undefined, path);
    for (const [name, value] of [
      ["a b", "c"],
      ["", "c"],
      ["a:", "c"],
      ["é", "c"],
      ["a", "b\r\nc: d"],
      ["a", "b\nc"],
      ["a", "\0"],
      ["a", "\u0100"],
      ["Content-Length", "1"],
      ["Transfer-Encoding", "chunked"],
      ["Expect", "100-continue"],
      ["Upgrade", "h2c"],
      ["Keep-Alive", "1"],
      ["Connection", "upgrade"],
      ["Host", "a\r\n"],
    ] as const) {
      assert.equal(of("/", { [name]: value }), undefined, `${name}: ${value}`);
    }
    assert.equal(of("/", { HOST: "b" })?.text, "GET / HTTP/1.1\r\nhost: b\r\n");
    assert.deepEqual(
      [of("/", { connection: "Close" })?.isLast, of("/", { connection: "keep-alive" })?.isLast],
      [true, false],
    );
  });

  test("go one at a time over a connection, first in, first out, over no more connections than allowed", async () => {
    const open: (() => void)[] = [];
    await using server = await startRawServer({
      answer(socket, _request, answered) {
        open.push(() => {
          answered();
          socket.write(HELLO);
        });
      },
    });
    using pool = newPool(server.port, { connections: 2 });
    const all = Array.from({ length: 7 }, (_, at) => ask(pool, { body: `${at}` }));
    for (const [at, { result }] of all.entries()) {
      const answer = await eventually("a request", () => open[at]);
      assert.ok(server.requests.length <= at + 2);
      answer();
      assert.equal((await result).body, "hello");
    }
    const places = server.requests.map(({ text }) => Number(text.at(-1)));
    // The first two race over two connections.
    assert.deepEqual(
      [places.slice(0, 2).sort((a, b) => a - b), places.slice(2)],
      [
        [0, 1],
        [2, 3, 4, 5, 6],
      ],
    );
    assert.deepEqual([server.sockets.length, server.early, pool.idle, pool.queued], [2, [], 2, 0]);
  });

  test("wait up to a bound", async () => {
    await using server = await startRawServer({ answer: () => undefined });
    using pool = newPool(server.port, { connections: 2, maxQueued: 3 });
    const all = Array.from({ length: 6 }, () => ask(pool));
    assert.deepEqual(await all[5]?.result, { status: 0, fields: {}, body: "", error: "queue-full", isSent: false });
    await eventually("two requests", () => server.requests.length === 2);
    assert.equal(pool.queued, 3);
    assert.equal((await ask(pool).result).error, "queue-full");
    all[4]?.request.abort();
    const last = ask(pool);
    assert.deepEqual([pool.queued, last.calls], [3, []]);
  });
});

suite("responses", () => {
  for (const [what, text, body] of [
    ["a length", HELLO, "hello"],
    ["chunks", `${OK}Transfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nA: b\r\n\r\n`, "hello"],
    ["no body", "HTTP/1.1 204 No Content\r\n\r\n", ""],
  ] as const) {
    test(`with ${what} are read in one piece and byte by byte, and leave the connection`, async () => {
      for (const write of [
        async (socket: Socket) => void socket.write(text),
        (socket: Socket) => writeBytewise(socket, text),
      ]) {
        await using server = await startRawServer({
          answer(socket, _request, answered) {
            answered();
            void write(socket);
          },
        });
        using pool = newPool(server.port);
        for (let i = 0; i < 3; i++) assert.equal((await ask(pool).result).body, body);
        assert.equal(server.sockets.length, 1);
      }
    });
  }

  test("of many megabytes come whole, however they are framed", async () => {
    const large = "0123456789abcdef".repeat(200_000);
    for (const text of [
      `${OK}Content-Length: ${large.length}\r\n\r\n${large}`,
      `${OK}Transfer-Encoding: chunked\r\n\r\n${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`,
    ]) {
      await using server = await startServer(text);
      using pool = newPool(server.port);
      for (let i = 0; i < 2; i++) assert.ok((await ask(pool).result).body === large);
      assert.equal(server.sockets.length, 1);
    }
  });

  test("without a length end with their connection, which is not used again", async () => {
    await using server = await startRawServer({ answer: (socket) => socket.end(`${OK}\r\nhello`) });
    using pool = newPool(server.port);
    for (let i = 0; i < 2; i++) assert.deepEqual(await ask(pool).result, { status: 200, fields: {}, body: "hello" });
    assert.equal(server.sockets.length, 2);
  });

  test("interim ones are passed over, and the connection is used again", async () => {
    for (const isBytewise of [false, true]) {
      const text = `HTTP/1.1 100 Continue\r\n\r\n${"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(7)}${HELLO}`;
      await using server = await startRawServer({
        answer: (socket) => void (isBytewise ? writeBytewise(socket, text) : socket.write(text)),
      });
      using pool = newPool(server.port);
      for (let i = 0; i < 2; i++) assert.equal((await ask(pool).result).body, "hello");
      assert.equal(server.sockets.length, 1);
    }
  });

  for (const [what, text] of [
    ["a switch of protocols", `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n${HELLO}`],
    ["interim ones with a length", `HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello${HELLO}`],
    ["many interim ones", `${"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(9)}${HELLO}`],
    ["bytes after a body", `${HELLO}!`],
    ["a second response", HELLO + HELLO],
    ["length and coding", `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ["two lengths", `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`],
    ["an odd length", `${OK}Content-Length: 5,5\r\n\r\nhello`],
    ["another coding", `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ["a coding with a tab behind it", `${OK}Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n`],
    ["a coding with a space and a tab behind it", `${OK}Transfer-Encoding: chunked \t\r\n\r\n0\r\n\r\n`],
    ["a long head", `${OK}A: ${"b".repeat(16_384)}\r\n\r\n`],
    ["a head without end", `${OK}A: ${"b".repeat(16_384)}`],
    ["many fields", `${OK}${"A: b\r\n".repeat(101)}`],
    ["a long extension", `${OK}Transfer-Encoding: chunked\r\n\r\n1;${"a".repeat(300)}`],
    ["another protocol", "SSH-2.0-OpenSSH_9.9\r\n"],
  ] as const) {
    test(`${what}: the request fails, its connection is closed, and the next one is served`, async () => {
      for (const isBytewise of [false, true]) {
        let isOdd = true;
        await using server = await startRawServer({
          answer(socket) {
            if (!isOdd) socket.write(HELLO);
            else if (isBytewise) void writeBytewise(socket, text);
            else socket.write(text);
          },
        });
        using pool = newPool(server.port);
        const body = "once";
        const { error, isSent } = await ask(pool, { body }).result;
        // Byte by byte the response may be whole before its surplus comes, which costs the connection alone.
        const isWhole = isBytewise && text.startsWith(HELLO) && error === undefined;
        assert.deepEqual([error, isSent], isWhole ? [undefined, undefined] : ["connection", true]);
        await eventually("the connection's end", () => server.sockets[0]?.destroyed === true);
        isOdd = false;
        assert.equal((await ask(pool).result).body, "hello");
        assert.equal(server.requests.filter(({ text: sent }) => sent.endsWith(body)).length, 1);
        assert.equal(server.sockets.length, 2);
      }
    });
  }

  for (const [what, answer] of [
    ["closed without a byte", (socket) => socket.destroy()],
    ["half closed without a byte", (socket) => socket.end()],
    ["closed in the head", (socket) => socket.end(`${OK}Content-`)],
    ["closed in the body", (socket) => socket.end(`${OK}Content-Length: 5\r\n\r\nhell`)],
    ["closed before the last chunk", (socket) => socket.end(`${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`)],
    ["reset without a byte", (socket) => socket.resetAndDestroy()],
    ["reset in the body", (socket) => socket.write(`${OK}Content-Length: 5\r\n\r\nh`, () => socket.resetAndDestroy())],
    ["reset in a body without a length", (socket) => socket.write(`${OK}\r\nh`, () => socket.resetAndDestroy())],
  ] as readonly (readonly [string, (socket: Socket) => void])[]) {
    test(`a connection ${what} fails the request, which is sent once, also over a kept connection`, async () => {
      for (const kept of [0, 1]) {
        await using server = await startRawServer({
          answer(socket, _request, answered) {
            answered();
            if (server.requests.length <= kept) socket.write(HELLO);
            else answer(socket);
          },
        });
        using pool = newPool(server.port);
        for (let i = 0; i < kept; i++) await ask(pool, { body: "before" }).result;
        const { error, isSent } = await ask(pool, { body: "once" }).result;
        assert.deepEqual([error, isSent], ["connection", true]);
        await eventually("no connection", () => pool.connections === 0);
        assert.deepEqual([server.requests.length, server.sockets.length], [kept + 1, 1]);
      }
    });
  }

  test("that come before the request is written are taken, and cost the connection", async () => {
    const sockets: Socket[] = [];
    await using server = await startRawServer({
      answer: () => assert.fail("nothing else is read"),
      connected(socket) {
        sockets.push(socket);
        socket.once("data", () => {
          socket.pause();
          socket.write(HELLO);
        });
      },
    });
    using pool = newPool(server.port);
    assert.equal((await ask(pool, { body: Buffer.alloc(50_000_000) }).result).body, "hello");
    assert.deepEqual([pool.connections, pool.idle], [0, 0]);
    sockets[0]?.resume();
  });

  test("a handler that throws fails its own request", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    for (const at of ["head", "data"]) {
      const seen = (name: string): void => {
        if (name === at) throw new TypeError("a bug");
      };
      assert.equal((await ask(pool, { seen }).result).error, "connection");
    }
    assert.equal((await ask(pool).result).body, "hello");
  });
});

suite("kept connections", () => {
  test("one that the server closes is not used any more", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    await ask(pool).result;
    server.sockets[0]?.end();
    await eventually("no connection", () => pool.connections === 0);
    assert.equal((await ask(pool).result).body, "hello");
    assert.equal(server.sockets.length, 2);
  });

  test("one over which something comes that nobody asked for is closed", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    await ask(pool).result;
    server.sockets[0]?.write(HELLO);
    await eventually("no connection", () => pool.connections === 0);
    assert.equal((await ask(pool).result).body, "hello");
  });

  for (const [what, close] of [
    ["closed", (socket) => socket.destroy()],
    ["reset", (socket) => socket.resetAndDestroy()],
    ["sent something over", (socket) => socket.write(HELLO)],
  ] as readonly (readonly [string, (socket: Socket) => void])[]) {
    test(`one that the server has ${what} before a request was written: it goes over a new one, ahead of the queue`, async () => {
      await using server = await startServer(HELLO);
      using pool = newPool(server.port);
      await ask(pool).result;
      // What comes while the loop polls is read before requests are written.
      await nextTurn();
      close(await eventually("a socket", () => server.sockets[0]));
      const all = ["1", "2"].map((body) => ask(pool, { body }));
      for (const { result } of all) assert.equal((await result).body, "hello");
      assert.deepEqual(
        server.requests.slice(1).map(({ text, connection }) => [text.at(-1), connection]),
        [
          ["1", 1],
          ["2", 1],
        ],
      );
    });
  }

  test("a server that closes every connection at once fails a request after the second, and has not seen it", async (t) => {
    await using server = await startRawServer({
      answer: () => assert.fail("nothing is written"),
      connected: (socket) => socket.destroy(),
    });
    using pool = newPool(server.port);
    // Requests are written in an immediate: these never are.
    t.mock.timers.enable({ apis: ["setImmediate"] });
    const { error, isSent } = await ask(pool).result;
    assert.deepEqual([error, isSent, pool.connections, pool.queued], ["connection", false, 0, 0]);
    t.mock.timers.reset();
    await eventually("two connections", () => server.sockets.length === 2);
  });

  for (const [what, lines] of [
    ["a server that says so", "Connection: close\r\n"],
    ["a server that soon closes it", "Keep-Alive: timeout=1\r\n"],
  ] as const) {
    test(`${what} gets no second request over it`, async () => {
      await using server = await startServer(`${OK}${lines}Content-Length: 0\r\n\r\n`);
      using pool = newPool(server.port);
      for (let i = 0; i < 2; i++) await ask(pool).result;
      assert.equal(server.sockets.length, 2);
    });
  }

  test("HTTP/1.0, and a request that says so, close theirs", async () => {
    for (const [text, headers] of [
      ["HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", {}],
      [EMPTY, { connection: "close" }],
    ] as const) {
      await using server = await startServer(text);
      using pool = newPool(server.port);
      for (let i = 0; i < 2; i++) await ask(pool, { head: headOf("GET", headers) }).result;
      assert.equal(server.sockets.length, 2);
    }
  });

  test("are used for as long as the server keeps them, less a margin, or for four seconds", async () => {
    for (const [lines, ms] of [
      ["", 4_000],
      ["Keep-Alive: timeout=10\r\n", 8_000],
      ["Keep-Alive: timeout=9999999\r\n", 600_000],
    ] as const) {
      await using server = await startServer(`${OK}${lines}Content-Length: 0\r\n\r\n`);
      const clock = virtualClock();
      using pool = newPool(server.port, {}, clock);
      await ask(pool).result;
      clock.advance(ms - 1);
      await ask(pool).result;
      assert.equal(server.sockets.length, 1);
      clock.advance(ms);
      await ask(pool).result;
      assert.equal(server.sockets.length, 2);
    }
  });

  test("are closed when their time is over, also when nothing is sent", async (t) => {
    await using server = await startServer(HELLO);
    const clock = virtualClock();
    t.mock.timers.enable({ apis: ["setTimeout"] });
    using pool = newPool(server.port, { connections: 2 }, clock);
    await Promise.all([ask(pool).result, ask(pool).result]);
    clock.advance(3_999);
    t.mock.timers.tick(1_000);
    assert.equal(pool.idle, 2);
    clock.advance(1);
    t.mock.timers.tick(1_000);
    assert.equal(pool.connections, 0);
  });
});

suite("connections that cannot be made", () => {
  test("fail one request each, which was not sent", async () => {
    const server = await startServer(HELLO);
    const { port } = server;
    await server[Symbol.asyncDispose]();
    using pool = newPool(port, { connections: 2 });
    const all = Array.from({ length: 5 }, () => ask(pool).result);
    for (const result of all) {
      assert.deepEqual(await result, { status: 0, fields: {}, body: "", error: "connection", isSent: false });
    }
    assert.equal(pool.connections, 0);
  });

  test("are given up after a time", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    using pool = newPool(1, { origin: "http://supplier.example", lookup: () => undefined, connectTimeoutMs: 5_000 });
    const { result, calls } = ask(pool);
    t.mock.timers.tick(4_999);
    assert.deepEqual(calls, []);
    t.mock.timers.tick(1);
    assert.deepEqual(await result, { status: 0, fields: {}, body: "", error: "connection", isSent: false });
    assert.equal(pool.connections, 0);
  });

  test("names are resolved by the given look-up, whose refusal is final", async () => {
    await using server = await startServer(HELLO);
    const asked: string[] = [];
    const to =
      (address: string | undefined): LookupFunction =>
      (hostname, options, answer) => {
        asked.push(hostname);
        if (address === undefined) answer(Object.assign(new TypeError("private"), { code: "X" }), "");
        else if (options.all === true) answer(null, [{ address, family: 4 }]);
        else answer(null, address, 4);
      };
    const origin = `http://supplier.example:${server.port}`;
    using good = newPool(1, { origin, lookup: to("127.0.0.1") });
    using bad = newPool(1, { origin, lookup: to(undefined) });
    assert.equal((await ask(good).result).body, "hello");
    assert.deepEqual((await ask(bad).result).isSent, false);
    assert.deepEqual(asked, ["supplier.example", "supplier.example"]);
    assert.equal(server.sockets.length, 1);
  });
});

suite("aborts", () => {
  test("one in the queue leaves it, and costs nothing else", async () => {
    const open: Socket[] = [];
    await using server = await startRawServer({ answer: (socket) => open.push(socket) });
    using pool = newPool(server.port);
    const [first, second, third] = [ask(pool, { body: "1" }), ask(pool, { body: "2" }), ask(pool, { body: "3" })];
    second.request.abort();
    second.request.abort();
    assert.deepEqual([pool.queued, second.request.isSent], [2, false]);
    for (const { result } of [first, third]) {
      (await eventually("a request", () => open.shift())).write(HELLO);
      assert.equal((await result).body, "hello");
    }
    assert.deepEqual([second.calls, server.requests.length, server.sockets.length], [[], 2, 1]);
  });

  test("one under way closes its connection, at any time, and calls no handler any more", async () => {
    await using server = await startServer(`${OK}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n`);
    using pool = newPool(server.port);
    for (const [at, calls] of [
      ["head", ["head"]],
      ["data", ["head", "data"]],
    ] as const) {
      const asking = ask(pool, { seen: (name, request) => name === at && request.abort() });
      await eventually("no connection", () => pool.connections === 0 && asking.request.isSent);
      assert.deepEqual(asking.calls, calls);
    }
    assert.equal((await ask(pool).result).body, "ab");
    assert.equal(server.sockets.length, 3);
  });

  test("one that is aborted in the turn in which it was sent reaches no server", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    await ask(pool).result;
    const asking = ask(pool);
    assert.equal(asking.request.isSent, false, "requests are written at the end of the turn");
    asking.request.abort();
    assert.equal((await ask(pool).result).body, "hello");
    assert.deepEqual([asking.calls, server.requests.length, server.sockets.length], [[], 2, 2]);
  });

  test("one that nobody answered closes its connection, and the next in the queue gets another", async () => {
    await using server = await startRawServer({
      answer: (socket) => server.requests.length > 1 && socket.write(HELLO),
    });
    using pool = newPool(server.port);
    const [first, second] = [ask(pool), ask(pool)];
    await eventually("a request", () => server.requests.length === 1);
    first.request.abort();
    assert.equal((await second.result).body, "hello");
    assert.deepEqual([first.calls, server.sockets.length], [[], 2]);
  });
});

suite("back-pressure", () => {
  const size = 30_000_000;
  const large = `${OK}Content-Length: ${size}\r\n\r\n${"x".repeat(size)}`;

  test("what is paused is not read, and holds up nothing else", async () => {
    await using server = await startServer(large);
    await using other = await startServer(HELLO);
    using pool = newPool(server.port);
    using others = newPool(other.port);
    let isPaused = false;
    const paused = Promise.withResolvers<void>();
    const asking = ask(pool, {
      seen(name, request) {
        if (name === "head" || isPaused) return;
        isPaused = true;
        request.pause();
        paused.resolve();
      },
    });
    await paused.promise;
    for (let i = 0; i < 20; i++) assert.equal((await ask(others).result).body, "hello");
    assert.deepEqual(asking.calls, ["head", "data"]);
    assert.ok((server.sockets[0]?.writableLength ?? 0) > 0);
    asking.request.resume();
    assert.equal((await asking.result).body.length, size);
  });

  test("a response that ends while it is paused leaves a connection that is read", async () => {
    await using server = await startServer(HELLO);
    using pool = newPool(server.port);
    for (let i = 0; i < 3; i++) {
      const asking = ask(pool, { seen: (_name, request) => request.pause() });
      assert.equal((await asking.result).body, "hello");
      // Too late to mean the next request's connection.
      asking.request.pause();
      asking.request.resume();
    }
    assert.equal(server.sockets.length, 1);
  });

  test("one that is paused can be aborted", async () => {
    await using server = await startServer(large);
    using pool = newPool(server.port);
    const asking = ask(pool, { seen: (_name, request) => request.pause() });
    await eventually("the head", () => asking.calls.length > 0);
    asking.request.abort();
    await eventually("the connection's end", () => server.sockets[0]?.destroyed === true);
    assert.equal(pool.connections, 0);
  });
});

suite("the end of a pool", () => {
  const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;

  test("destroy fails all that is under way, and leaves no socket and no timer", async () => {
    {
      await using server = await startRawServer({ answer: () => undefined });
      const pool = newPool(server.port, { connections: 2 });
      const all = Array.from({ length: 5 }, () => ask(pool));
      await eventually("requests", () => server.requests.length === 2);
      pool.destroy();
      const results = await Promise.all(all.map(({ result }) => result));
      assert.deepEqual(
        results.map(({ error, isSent }) => [error, isSent]),
        [
          ["connection", true],
          ["connection", true],
          ["closed", false],
          ["closed", false],
          ["closed", false],
        ],
      );
      assert.deepEqual([(await ask(pool).result).error, pool.connections, pool.queued], ["closed", 0, 0]);
    }
    await eventually("no socket", () => sockets() === 0);
  });

  test("destroy in the turn in which a request was sent says that no server has seen it", async () => {
    await using server = await startServer(HELLO);
    const pool = newPool(server.port);
    await ask(pool).result;
    const asking = ask(pool);
    pool.destroy();
    const { error, isSent } = await asking.result;
    assert.deepEqual([error, isSent, server.requests.length], ["connection", false, 1]);
  });

  test("destroy while connections are made fails what waits for them", async () => {
    await using server = await startServer(HELLO);
    const pool = newPool(server.port);
    const asking = ask(pool);
    pool.destroy();
    assert.equal((await asking.result).isSent, false);
    assert.equal(pool.connections, 0);
  });

  test("close lets what is under way end, takes nothing more, and leaves no socket", async () => {
    {
      await using server = await startServer(HELLO);
      const pool = newPool(server.port, { connections: 2 });
      await ask(pool).result;
      const all = Array.from({ length: 5 }, () => ask(pool));
      pool.close();
      assert.equal((await ask(pool).result).error, "closed");
      for (const { result } of all) assert.equal((await result).body, "hello");
      assert.deepEqual([pool.connections, server.requests.length], [0, 6]);
    }
    await eventually("no socket", () => sockets() === 0);
  });

  test("close of an unused pool closes what is kept", async () => {
    await using server = await startServer(HELLO);
    const pool = newPool(server.port);
    await ask(pool).result;
    pool.close();
    assert.equal(pool.connections, 0);
  });
});
