import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { suite, test } from "node:test";
import { eventually, openRaw, virtualClock } from "@turnpike/testkit";
import { createReference, handleFast, startListener, type TestListener } from "../test/reference.ts";
import type { FastRequest, FastResponse } from "./fast-request.ts";

const post = (target = "/", body = "hi"): string =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const GET = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

/** A listener whose handler keeps every request and answers none. */
async function startKeeping(): Promise<{ readonly to: TestListener; readonly kept: FastResponse[] }> {
  const kept: FastResponse[] = [];
  const handle = ({ response }: FastRequest): boolean => {
    kept.push(response);
    return true;
  };
  return { to: await startListener({ checkMs: 1_000 }, { handle }), kept };
}

const keptOf = (kept: readonly FastResponse[]): Promise<FastResponse> => eventually("a request", () => kept[0]);

suite("slow clients", () => {
  test("a request that is not whole by the second check is the server's, which gets all of it", async () => {
    await using to = await startListener();
    for (const at of [10, post().length - 1]) {
      const before = to.listener.counts.handedOver;
      await using raw = await openRaw(to.port);
      raw.write(post().slice(0, at));
      await eventually("it is held", () => to.listener.heldBytes > 0);
      to.listener.check();
      assert.equal(to.listener.counts.handedOver, before);
      to.listener.check();
      assert.equal(to.listener.counts.handedOver, before + 1);
      assert.equal(to.listener.heldBytes, 0);
      raw.write(post().slice(at));
      assert.equal((await raw.next())[0]?.body, "POST / hi");
    }
    assert.equal(to.listener.counts.handled, 0);
  });

  test("a head in many pieces is the server's: each piece would be read from the beginning", async () => {
    await using to = await startListener();
    await using raw = await openRaw(to.port);
    const text = post();
    for (let at = 0; at < 20; at++) {
      raw.write(text.slice(at, at + 1));
      await eventually("it came", () => to.listener.counts.handedOver === 1 || to.listener.heldBytes > 0);
      await new Promise((resolve) => setImmediate(resolve));
    }
    raw.write(text.slice(20));
    assert.equal((await raw.next())[0]?.body, "POST / hi");
    assert.deepEqual(to.listener.counts, { accepted: 1, handled: 0, handedOver: 1 });
  });

  test("a connection on which nothing comes meets the server's time-out of heads", async () => {
    const server = createReference({ connectionsCheckingInterval: 10 });
    server.headersTimeout = 40;
    await using to = await startListener({ checkMs: 10 }, { server });
    await using raw = await openRaw(to.port);
    await using slow = await openRaw(to.port);
    slow.write("POST / HT");
    assert.equal((await raw.all())[0]?.status, 400);
    assert.equal((await slow.all())[0]?.status, 400);
    assert.equal(to.listener.counts.handedOver, 2);
  });

  test("the bytes that are held of all together are bounded, and free again when their clients leave", async () => {
    await using to = await startListener({ maxHeldBytes: 3_000 });
    await using stack = new AsyncDisposableStack();
    const half = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n`;
    for (let i = 1; i <= 4; i++) {
      stack.use(await openRaw(to.port)).write(half);
      await eventually("it is held or handed over", () => to.listener.size + to.listener.counts.handedOver === i);
      await eventually("its bytes came", () => to.listener.heldBytes >= 1_024 * Math.min(i, 2));
    }
    await eventually("two are handed over", () => to.listener.counts.handedOver === 2);
    assert.equal(to.listener.heldBytes, 2_048);
    await stack.disposeAsync();
    await eventually("nothing is held", () => to.listener.heldBytes === 0);
  });

  test("a body that outgrows the bound is the server's", async () => {
    await using to = await startListener({ maxHeldBytes: 3_000 });
    await using raw = await openRaw(to.port);
    const body = "b".repeat(9_000);
    raw.write(post("/", body).slice(0, 500));
    await eventually("it is held", () => to.listener.heldBytes > 0);
    raw.write(post("/", body).slice(500));
    assert.equal((await raw.next())[0]?.body, `POST / ${body}`);
    assert.deepEqual([to.listener.heldBytes, to.listener.counts.handedOver], [0, 1]);
  });

  test("an idle connection ends after the server's keep-alive time, not before", async () => {
    await using to = await startListener({ checkMs: 1_000 });
    to.server.keepAliveTimeout = 1_000;
    await using raw = await openRaw(to.port);
    raw.write(post());
    assert.equal((await raw.next())[0]?.headers.get("keep-alive"), "timeout=1");
    for (let i = 0; i < 2; i++) to.listener.check();
    raw.write(post());
    await raw.next();
    assert.equal(to.listener.size, 1);
    for (let i = 0; i < 3; i++) to.listener.check();
    await raw.closed;
    assert.deepEqual([to.listener.counts.handled, to.listener.counts.handedOver], [2, 0]);
  });

  test("a client that never reads is not served on, and ends by the stall time-out", async () => {
    await using to = await startListener();
    to.server.timeout = 150;
    const socket = connect({ port: to.port, host: "127.0.0.1" });
    socket.pause();
    socket.on("error", () => {});
    const closed = once(socket, "close");
    socket.write(post("/large/1000000").repeat(100));
    await eventually("it was served", () => to.listener.counts.handled > 0);
    await eventually("it is ended", () => to.listener.size === 0);
    assert.ok(to.listener.counts.handled < 50, `${to.listener.counts.handled} were answered`);
    socket.destroy();
    await closed;
  });

  test("a client that reads late gets all, in order", async () => {
    await using to = await startListener();
    const socket = connect({ port: to.port, host: "127.0.0.1" });
    socket.pause();
    socket.write(post("/large/1000000").repeat(20));
    await eventually("writes wait", () => to.listener.counts.handled > 1);
    let bytes = 0;
    socket.on("data", (part: Buffer) => {
      bytes += part.length;
    });
    socket.resume();
    await eventually("all came", () => bytes > 20_000_000);
    to.listener.check();
    assert.deepEqual([to.listener.counts.handled, to.listener.size], [20, 1]);
    socket.destroy();
  });

  test("responses in buffers that are used again keep their bytes until a late client reads them", async () => {
    await using to = await startListener();
    const clients = Array.from({ length: 3 }, () => connect({ port: to.port, host: "127.0.0.1" }));
    for (const [at, socket] of clients.entries()) {
      socket.pause();
      const requests = Array.from({ length: 300 }, (_, i) => post("/large/30000", `${at}-${i}`));
      socket.write(requests.join(""));
    }
    await eventually("writes wait", () => to.listener.counts.handled > 30);
    for (const [at, socket] of clients.entries()) {
      let text = "";
      socket.on("data", (part: Buffer) => {
        text += part.toString("latin1");
      });
      socket.resume();
      await eventually(
        "all came",
        () => text.length > 300 * 30_000 && text.endsWith("x") && text.includes(`${at}-299x`),
      );
      const bodies = [...text.matchAll(/POST \/large\/30000 (\d-\d+)(x+)/g)].map(([, id, rest]) => [id, rest?.length]);
      assert.deepEqual(
        bodies,
        Array.from({ length: 300 }, (_, i) => [`${at}-${i}`, 30_000]),
      );
      socket.destroy();
    }
  });

  test("what comes behind a request that is under way stays in a bounded buffer", async () => {
    const { to, kept } = await startKeeping();
    await using _ = to;
    await using raw = await openRaw(to.port);
    raw.write(post());
    const response = await keptOf(kept);
    raw.write(post("/", "b".repeat(60_000)).repeat(100));
    const { socket } = response;
    assert.ok(socket);
    await eventually("the buffer is full", () => socket.readableLength >= socket.readableHighWaterMark);
    await using other = await openRaw(to.port);
    other.write(post());
    await eventually("another is served meanwhile", () => kept.length === 2);
    assert.ok(socket.bytesRead < 300_000, `${socket.bytesRead} bytes were read`);
    response.send(200, "", "one");
    await eventually("the next is served", () => kept.length === 3);
    assert.ok(socket.readableHighWaterMark <= 131_072);
  });

  test("where first bytes have a time-out of their own, a silent connection is closed after it and not handed over", async () => {
    await using to = await startListener({ checkMs: 1_000, firstByteTimeoutMs: 2_000 });
    to.server.headersTimeout = 1_000;
    await using silent = await openRaw(to.port);
    await using late = await openRaw(to.port);
    await eventually("both are there", () => to.listener.size === 2);
    for (let i = 0; i < 2; i++) to.listener.check();
    late.write(post());
    await late.next();
    assert.equal(to.listener.size, 2);
    to.listener.check();
    assert.deepEqual(await silent.all(), []);
    assert.deepEqual([to.listener.size, to.listener.counts.handedOver], [1, 0]);
  });

  test("bytes that are held are counted with others' as well: without room there the request is the server's", async () => {
    let room = 1_500;
    const heldBytes = {
      acquire: (bytes: number) => {
        if (bytes > room) return false;
        room -= bytes;
        return true;
      },
      release: (bytes: number) => {
        room += bytes;
      },
    };
    await using to = await startListener({}, { heldBytes });
    await using first = await openRaw(to.port);
    first.write(post().slice(0, 10));
    await eventually("it is held", () => to.listener.heldBytes === 1_024);
    await using second = await openRaw(to.port);
    second.write(post().slice(0, 10));
    await eventually("it is the server's", () => to.listener.counts.handedOver === 1);
    assert.equal(room, 476);
    first.write(post().slice(10));
    assert.equal((await first.next())[0]?.body, "POST / hi");
    assert.deepEqual([room, to.listener.heldBytes], [1_500, 0]);
  });

  test("a stall time-out of its own ends a client that does not read, and none that has read all", async () => {
    const sockets: Socket[] = [];
    const handle = ({ response }: FastRequest): boolean => {
      if (response.socket !== undefined) sockets.push(response.socket);
      response.send(200, "", Buffer.alloc(8_000_000, 0x61));
      return true;
    };
    for (const stallTimeoutMs of [100, 600_000]) {
      await using to = await startListener({ stallTimeoutMs }, { handle });
      to.server.timeout = 0;
      const client = connect({ port: to.port, host: "127.0.0.1" });
      client.on("error", () => {});
      client.pause();
      client.write(post());
      const socket = await eventually("it is served", () => sockets.pop());
      if (stallTimeoutMs === 600_000) {
        let bytes = 0;
        client.on("data", (part: Buffer) => {
          bytes += part.length;
        });
        client.resume();
        await eventually("all is read", () => bytes > 8_000_000 && socket.writableLength === 0);
        assert.equal(socket.timeout, stallTimeoutMs);
        socket.emit("timeout");
        assert.deepEqual([socket.destroyed, socket.timeout], [false, 0]);
      } else await eventually("it is ended", () => to.listener.size === 0);
      client.destroy();
    }
  });

  test("a request that is not answered within the server's time-out of sockets loses its connection", async () => {
    const { to, kept } = await startKeeping();
    await using _ = to;
    to.server.timeout = 2_000;
    await using raw = await openRaw(to.port);
    raw.write(post());
    const response = await keptOf(kept);
    const aborted = new Promise<void>((resolve) => {
      response.onAbort = resolve;
    });
    for (let i = 0; i < 2; i++) to.listener.check();
    assert.equal(response.isOpen, true);
    to.listener.check();
    await aborted;
    await raw.closed;
    response.send(200, "", "too late");
    assert.equal(response.isOpen, false);
  });
});

suite("ends of connections", () => {
  test("a client that half-closes still gets its response, and the connection ends then", async () => {
    const { to, kept } = await startKeeping();
    await using _ = to;
    await using raw = await openRaw(to.port);
    raw.write(post());
    raw.socket.end();
    const response = await keptOf(kept);
    await eventually("its end is seen", () => response.socket?.readableEnded);
    response.send(200, "", "here");
    assert.equal((await raw.all())[0]?.body, "here");
  });

  test("a client that half-closes has left where that is so: what is due is aborted, what was given is sent", async () => {
    const kept: FastResponse[] = [];
    const handle = ({ response }: FastRequest): boolean => {
      kept.push(response);
      return true;
    };
    // Without checks no time-out ends what the end of its client does not.
    await using to = await startListener({ checkMs: 600_000, allowHalfOpen: false }, { handle });
    const begin = async (more = ""): Promise<readonly [Awaited<ReturnType<typeof openRaw>>, FastResponse]> => {
      const count = kept.length;
      const raw = await openRaw(to.port);
      raw.write(post() + more);
      return [raw, await eventually("a request", () => kept[count])];
    };
    const [due, unanswered] = await begin();
    await using _due = due;
    const aborted = new Promise<void>((resolve) => {
      unanswered.onAbort = resolve;
    });
    due.socket.end();
    await aborted;
    unanswered.send(200, "", "too late");
    assert.deepEqual(await due.all(), []);

    // The same with bytes behind its request, which are not looked at any more.
    const [followed, unread] = await begin("\r\nGET / HTTP/1.1\r\n");
    await using _followed = followed;
    let hasLeft = false;
    unread.onAbort = () => {
      hasLeft = true;
    };
    followed.socket.end();
    await eventually("it is aborted", () => hasLeft);
    assert.deepEqual(await followed.all(), []);

    const [streaming, streamed] = await begin();
    await using _streaming = streaming;
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    const body = streamed.sendInChunks(200, "", { onDrain: () => {}, onClose: close });
    body?.write(Buffer.from("part"));
    streaming.socket.end();
    await closed;

    const [large, answered] = await begin();
    await using _large = large;
    large.socket.pause();
    answered.send(200, "", Buffer.alloc(8_000_000, 0x61));
    await eventually("it is being written", () => (answered.socket?.writableLength ?? 0) > 0);
    large.socket.end();
    await eventually("its end is seen", () => answered.socket?.readableEnded);
    large.socket.resume();
    assert.equal((await large.all())[0]?.body.length, 8_000_000);
    assert.equal(to.listener.size, 0);
  });

  test("a reset midway is reported once, and its response is dropped", async () => {
    const { to, kept } = await startKeeping();
    await using _ = to;
    const socket = connect({ port: to.port, host: "127.0.0.1" });
    socket.write(post());
    const response = await keptOf(kept);
    let aborts = 0;
    response.onAbort = () => aborts++;
    socket.resetAndDestroy();
    await eventually("it is reported", () => aborts > 0);
    response.send(200, "", "x");
    assert.deepEqual([aborts, to.listener.size], [1, 0]);
  });

  test("a reset while a request is not whole frees what is held of it", async () => {
    await using to = await startListener();
    const socket = connect({ port: to.port, host: "127.0.0.1" });
    socket.write(post().slice(0, 20));
    await eventually("it is held", () => to.listener.heldBytes > 0);
    socket.resetAndDestroy();
    await eventually("it is gone", () => to.listener.size === 0);
    assert.equal(to.listener.heldBytes, 0);
  });

  test("a response that closes is read whole by a client that goes on sending", async () => {
    const body = "b".repeat(200_000);
    const handle = ({ response }: FastRequest): boolean => {
      response.send(200, "", body, { close: true });
      return true;
    };
    await using to = await startListener({ checkMs: 1_000 }, { handle });
    await using raw = await openRaw(to.port);
    raw.write(post().repeat(5_000));
    const [first, second] = await raw.all();
    assert.deepEqual([first?.headers.get("connection"), first?.body, second], ["close", body, undefined]);
    assert.deepEqual([raw.errors, to.listener.counts.handled], [[], 1]);
    // The client never ends its side: a few checks later the server does.
    await eventually("all is written", () => {
      for (let i = 0; i < 3; i++) to.listener.check();
      return to.listener.size === 0;
    });
  });

  test("draining: idle ones end, those under way say so, and half a request is the server's", async () => {
    const { to, kept } = await startKeeping();
    await using fresh = await openRaw(to.port);
    await using half = await openRaw(to.port);
    half.write("GET /x HT");
    await eventually("it is held", () => to.listener.heldBytes > 0);
    await using busy = await openRaw(to.port);
    busy.write(post() + post());
    const response = await keptOf(kept);
    const closed = to.listener.close();
    await fresh.closed;
    response.send(200, "", "the last");
    const [last, none] = await busy.all();
    assert.deepEqual([last?.body, last?.headers.get("connection"), none], ["the last", "close", undefined]);
    half.write("TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert.equal((await half.all())[0]?.status, 200);
    for (const raw of [fresh, half, busy]) raw.socket.destroy();
    await closed;
    await eventually("none is left", () => to.listener.size === 0);
  });

  test("draining: a connection whose client reads its last response late ends then, though it says that it stays", async () => {
    const { to, kept } = await startKeeping();
    await using _ = to;
    // Else that would end it as well.
    to.server.keepAliveTimeout = 600_000;
    await using raw = await openRaw(to.port);
    raw.write(post());
    const first = await keptOf(kept);
    // Comes while the first is under way, so that the connection has seen bytes that it had not read.
    raw.write(post());
    await eventually("it is there", () => (first.socket?.readableLength ?? 0) > 0);
    first.send(200, "", "first");
    const second = await eventually("the second", () => kept[1]);
    await raw.next();
    raw.socket.pause();
    second.send(200, "", Buffer.alloc(30_000_000, 0x61));
    await eventually("it is written", () => (second.socket?.writableLength ?? 0) > 0);
    const closed = to.listener.close();
    raw.socket.resume();
    await raw.closed;
    raw.socket.destroy();
    await closed;
  });
});

suite("limits", () => {
  const isServed = async (socket: Socket): Promise<boolean> => {
    socket.on("error", () => {});
    socket.write(post());
    const [first] = await Promise.race([once(socket, "data"), once(socket, "close")]);
    return first instanceof Buffer;
  };

  test("the server's bound of connections counts those on both ways, each once", async () => {
    await using to = await startListener();
    to.server.maxConnections = 2;
    const open = (): Socket => connect({ port: to.port, host: "127.0.0.1" });
    const [first, second] = [open(), open()];
    assert.deepEqual([await isServed(first), await isServed(second)], [true, true]);
    first.write(GET);
    await once(first, "data");
    assert.equal(to.listener.counts.handedOver, 1);
    assert.equal(await isServed(open()), false);
    first.destroy();
    const again = await eventually("there is room again", async () => {
      const socket = open();
      return (await isServed(socket)) ? socket : undefined;
    });
    assert.equal(await isServed(open()), false);
    for (const socket of [second, again]) socket.destroy();
  });

  test("a connection is admitted once, and the server's event comes when it is handed over", async () => {
    const admitted: Socket[] = [];
    const server = createReference();
    const seen: Socket[] = [];
    server.on("connection", (socket) => seen.push(socket));
    let isOpen = true;
    await using to = await startListener(
      {},
      {
        server,
        admit: (socket) => {
          if (isOpen) admitted.push(socket);
          return isOpen;
        },
      },
    );
    await using raw = await openRaw(to.port);
    raw.write(post());
    await raw.next();
    assert.deepEqual([admitted.length, seen.length], [1, 0]);
    raw.write(GET + GET);
    await raw.next(2);
    assert.deepEqual(seen, admitted);
    isOpen = false;
    assert.equal(await isServed(connect({ port: to.port, host: "127.0.0.1" })), false);
  });

  test("a connection hook of the server may read what is handed over before anyone else, and later", async () => {
    const server = createReference();
    server.removeAllListeners("connection");
    server.on("connection", (socket: Socket) => {
      socket.once("readable", () => {
        const bytes = socket.read() as Buffer;
        socket.unshift(bytes);
        process.nextTick(() => socket.end(socket.read() as Buffer));
      });
    });
    await using to = await startListener({}, { server });
    const text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const socket = connect({ port: to.port, host: "127.0.0.1" });
    socket.write(text);
    const parts: Buffer[] = [];
    for await (const part of socket) parts.push(part as Buffer);
    assert.equal(Buffer.concat(parts).toString(), text);
  });

  test("a connection hook of the server may close what is handed over", async () => {
    const server = createReference();
    server.on("connection", (socket) => socket.destroy());
    await using to = await startListener({}, { server });
    await using raw = await openRaw(to.port);
    raw.write(post() + GET);
    assert.deepEqual(
      (await raw.all()).map(({ body }) => body),
      ["POST / hi"],
    );
  });
});

test("the date is the clock's, in the form of node:http, and made anew each second", async () => {
  const clock = virtualClock(1_000_000);
  await using to = await startListener({}, { clock, handle: handleFast });
  await using raw = await openRaw(to.port);
  const dates: (string | undefined)[] = [];
  for (const ms of [0, 999, 1]) {
    clock.advance(ms);
    raw.write(post());
    dates.push((await raw.next())[0]?.headers.get("date"));
  }
  const [before, later] = [1_000_000, 1_001_000].map((ms) => new Date(ms).toUTCString());
  assert.deepEqual(dates, [before, before, later]);
});

test("a response that is given twice goes nowhere, least of all to the next request", async () => {
  const { to, kept } = await startKeeping();
  await using _ = to;
  await using raw = await openRaw(to.port);
  raw.write(post() + post());
  const first = await keptOf(kept);
  first.send(200, "", "first");
  const second = await eventually("the next request", () => kept[1]);
  assert.deepEqual([first.isOpen, second.isOpen], [false, true]);
  first.send(200, "", "first again");
  second.send(200, "", "second");
  assert.deepEqual(
    (await raw.next(2)).map(({ body }) => body),
    ["first", "second"],
  );
});

test("a response is written once, and without a body where its status has none", async () => {
  const handle = ({ response }: FastRequest): boolean => {
    response.send(204, "X: y\r\n", "no body");
    response.send(200, "", "a second one");
    return true;
  };
  await using to = await startListener({}, { handle });
  await using raw = await openRaw(to.port);
  raw.write(post() + post());
  raw.socket.end();
  const responses = await raw.all();
  assert.deepEqual(
    responses.map(({ status, body, headers }) => [status, body, headers.get("x"), headers.has("content-length")]),
    [
      [204, "", "y", false],
      [204, "", "y", false],
    ],
  );
});
