import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, constants, createServer, type Http2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect as connectTcp, Socket } from "node:net";
import { suite, test } from "node:test";
import { ConnectionGuard, type ConnectionRefusal } from "./connection-guard.ts";
import { Http2Guard, type Http2GuardOptions } from "./http2-guard.ts";
import { silentLog } from "./log.ts";

/** A server that responds to each stream, and its guard; time is the test's. */
async function rig(
  options: Http2GuardOptions = {},
  onStream: (stream: ServerHttp2Stream) => void = (stream) => stream.respond({}, { endStream: true }),
  isGrpc = false,
) {
  let nowMs = 0;
  const refused: ConnectionRefusal[] = [];
  const faults: unknown[] = [];
  const clock = { monotonicMs: () => nowMs };
  const guard = new ConnectionGuard(
    { maxConnections: 10, maxConnectionsPerClient: 5 },
    { clock, onRefused: (reason) => refused.push(reason) },
  );
  const http2 = new Http2Guard(options, { guard, log: silentLog, clock, onFault: (error) => faults.push(error) });
  const server: Http2Server = createServer();
  let sessions = 0;
  server.on("session", () => sessions++);
  server.on("stream", onStream);
  if (isGrpc) http2.watchGrpc({ http2Servers: new Map([[server, {}]]) });
  else http2.watch(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    guard,
    http2,
    refused,
    faults,
    port,
    get sessions() {
      return sessions;
    },
    pass(ms: number) {
      nowMs += ms;
    },
    open(localAddress = "127.0.0.1") {
      const session = connect(`http://127.0.0.1:${port}`, {
        maxOutstandingPings: 1_000,
        createConnection: () => connectTcp({ port, host: "127.0.0.1", localAddress }),
      });
      session.on("error", () => {});
      return session;
    },
    async [Symbol.asyncDispose]() {
      http2[Symbol.dispose]();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

type Client = Awaited<ReturnType<Awaited<ReturnType<typeof rig>>["open"]>>;

/** Opens streams one after another, and cancels each. */
async function cancel(session: Client, count: number): Promise<void> {
  for (let at = 0; at < count && !session.closed && !session.destroyed; at++) {
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.on("error", () => {});
    stream.close(constants.NGHTTP2_CANCEL);
    await once(stream, "close");
  }
}

/** One HTTP/2 frame (RFC 9113 §4.1). */
function frame(type: number, flags: number, stream: number, payload: readonly number[] = []): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, Buffer.from(payload)]);
}

/** Preface, settings, and streams that are opened and reset at once (CVE-2023-44487), as few bytes as they can be. */
function rapidResets(count: number): Buffer {
  const streams = Array.from({ length: count }, (_, at) => [
    // RFC 7541 Appendix A: `:method: POST`, `:scheme: http`, `:path: /`, `:authority: x`.
    frame(1, 5, 2 * at + 1, [0x83, 0x86, 0x84, 1, 1, 0x78]),
    frame(3, 0, 2 * at + 1, [0, 0, 0, 8]),
  ]);
  return Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0), ...streams.flat()]);
}

/** Connects, writes and waits for the end. */
async function attack(port: number, bytes: Uint8Array, localAddress: string): Promise<void> {
  const socket = connectTcp({ port, host: "127.0.0.1", localAddress }).resume();
  const closed = new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
  });
  socket.on("error", () => {});
  socket.write(bytes);
  await closed;
}

suite("a guard of HTTP/2 connections", () => {
  test("a listener that throws ends its connection, is counted, and the server goes on", async () => {
    let isBroken = true;
    await using at = await rig({}, (stream) => {
      if (isBroken) throw new TypeError("a stream that is gone");
      stream.respond({}, { endStream: true });
    });
    const first = at.open();
    first.request({ ":path": "/" }).on("error", () => {});
    await once(first, "close");
    assert.equal(at.faults.length, 1);
    isBroken = false;
    const second = at.open();
    const [headers] = (await once(second.request({ ":path": "/" }), "response")) as [{ ":status": number }];
    assert.equal(headers[":status"], 200);
    second.destroy();
  });

  test("more resets than a connection may have close it; those of a client are counted over its connections", async () => {
    const rate = { burst: 20, perSecond: 1 };
    await using at = await rig({ perConnection: rate, perClient: { burst: 30, perSecond: 1 } });
    for (const closes of [1, 2]) {
      const session = at.open();
      const closed = once(session, "close");
      await cancel(session, 1_000);
      await closed;
      assert.equal(at.refused.filter((reason) => reason === "flood").length, closes);
    }
    // The client has no token; another one has its own.
    const refused = at.open();
    await once(refused, "close");
    const other = at.open("127.0.0.2");
    await once(other.request({ ":path": "/" }), "response");
    other.destroy();
    at.pass(10_000);
    await once(at.open(), "close");
    at.pass(10_000);
    const again = at.open();
    await once(again.request({ ":path": "/" }), "response");
    again.destroy();
  });

  for (const resets of [900, 2_000]) {
    test(`attack: ${resets} rapid resets on each of many connections of one address reach few streams, and then none`, async () => {
      let streams = 0;
      await using at = await rig({}, (stream) => {
        streams++;
        setImmediate(() => !stream.destroyed && stream.respond({}, { endStream: true }));
      });
      at.guard.setLimits({ maxConnections: 1_000, maxConnectionsPerClient: 250 });
      const bytes = rapidResets(resets);
      const wave = (): Promise<unknown> =>
        Promise.all(Array.from({ length: 100 }, () => attack(at.port, bytes, "127.0.0.2")));
      await wave();
      // A connection has 100 resets before its first complete stream, and each flood costs its client a quarter of its burst.
      assert.ok(streams <= 500, `${streams} streams of the first wave`);
      assert.equal(at.http2.size, 0);
      const { sessions } = at;
      await wave();
      assert.equal(at.sessions, sessions, "refused before they are read");
      const socket = Object.defineProperty(new Socket(), "remoteAddress", { value: "127.0.0.2" });
      assert.equal(at.guard.admit(socket), false, "by every server that shares the guard");
      const honest = at.open();
      await once(honest.request({ ":path": "/" }), "response");
      honest.destroy();
      // Half of the burst comes back in five seconds.
      at.pass(5_000);
      const oldSessions = at.sessions;
      await wave();
      assert.ok(
        at.sessions - oldSessions >= 1 && at.sessions - oldSessions <= 4,
        `${at.sessions - oldSessions} sessions of a suspect`,
      );
    });
  }

  test("a connection with a complete stream may cancel 900, and stays when its client's other ones flood", async () => {
    await using at = await rig({}, (stream) => {
      setImmediate(() => !stream.destroyed && stream.respond({}, { endStream: true }));
    });
    const session = at.open();
    await once(session.request({ ":path": "/" }), "response");
    await cancel(session, 900);
    assert.ok(!session.destroyed);
    const unproven = at.open();
    const ended = once(unproven, "close");
    await once(unproven, "connect");
    for (let flood = 0; flood < 4; flood++) await attack(at.port, rapidResets(1_000), "127.0.0.1");
    await ended;
    assert.ok(!session.destroyed, "the one that was answered");
    await once(session.request({ ":path": "/" }), "response");
    session.destroy();
  });

  test("pings in a burst close their connection", async () => {
    await using at = await rig({ perConnection: { burst: 50, perSecond: 1 } });
    const session = at.open();
    await once(session, "connect");
    const closed = once(session, "close");
    while (!session.destroyed) {
      session.ping(() => {});
      await new Promise(setImmediate);
    }
    await closed;
    assert.deepEqual(at.refused, ["flood"]);
  });

  test("attack: a stream whose client reads nothing of a response is reset, and its connection's other streams go on", async () => {
    const stalled = Promise.withResolvers<ServerHttp2Stream>();
    await using at = await rig({ idleTimeoutMs: 1_000, stallTimeoutMs: 30_000 }, (stream) => {
      stream.respond({});
      stream.write(Buffer.alloc(200_000));
      stalled.resolve(stream);
    });
    const session = at.open();
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.on("error", () => {});
    const response = await stalled.promise;
    at.http2.check();
    at.pass(29_000);
    const later = session.request({ ":method": "POST", ":path": "/" });
    later.on("error", () => {});
    await once(later, "response");
    at.http2.check();
    await new Promise((done) => session.ping(() => done(undefined)));
    assert.ok(response.writableLength > 0 && !response.destroyed, "within the time");
    const closed = new Promise((resolve) => stream.once("close", resolve));
    const responseClosed = once(response, "close");
    stream.resume();
    stream.pause();
    at.pass(1_000);
    at.http2.check();
    await responseClosed;
    stream.resume();
    await closed;
    assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL);
    at.http2.check();
    assert.ok(!session.destroyed && !later.destroyed);
    session.destroy();
  });

  test("a client that reads a long response slowly is not reset, and gets it whole", async () => {
    const bytes = Buffer.alloc(1_000_000, "0123456789abcdef!");
    const started = Promise.withResolvers<ServerHttp2Stream>();
    await using at = await rig(
      { stallTimeoutMs: 30_000 },
      (stream) => {
        stream.respond({}, { waitForTrailers: true });
        stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": 0 }));
        stream.write(bytes, () => stream.end());
        started.resolve(stream);
      },
      true,
    );
    const session = at.open();
    const stream = session.request({ ":method": "POST", ":path": "/" });
    const chunks: Buffer[] = [];
    let readBytes = 0;
    let pauseAt = 0;
    stream.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      readBytes += chunk.length;
      if (readBytes >= pauseAt) stream.pause();
    });
    const ended = once(stream, "end");
    const response = await started.promise;
    for (pauseAt = 150_000; pauseAt < 900_000; pauseAt += 150_000) {
      stream.resume();
      while (readBytes < pauseAt) await new Promise(setImmediate);
      await new Promise((done) => session.ping(() => done(undefined)));
      at.http2.check();
      assert.ok(!response.destroyed && response.writableLength > 0);
      at.pass(29_000);
    }
    pauseAt = Number.POSITIVE_INFINITY;
    stream.resume();
    await ended;
    assert.ok(Buffer.concat(chunks).equals(bytes));
    session.destroy();
  });

  test("attack: a connection that takes no byte at all is closed", async () => {
    const stalled = Promise.withResolvers<ServerHttp2Stream>();
    await using at = await rig({ stallTimeoutMs: 30_000 }, (stream) => {
      stream.respond({});
      stream.write(Buffer.alloc(50_000_000));
      stalled.resolve(stream);
    });
    const socket = connectTcp(at.port, "127.0.0.1").pause();
    socket.on("error", () => {});
    // Its flow control lets all pass (RFC 9113 section 6.5.2, 6.9), and it reads nothing.
    const settings = frame(4, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]);
    const window = frame(8, 0, 0, [0x7f, 0xff, 0, 0]);
    const head = frame(1, 5, 1, [0x83, 0x86, 0x84, 1, 1, 0x78]);
    socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings, window, head]));
    const response = await stalled.promise;
    at.http2.check();
    at.pass(30_000);
    at.http2.check();
    at.pass(1_000);
    at.http2.check();
    const { session } = response;
    if (session !== undefined && !session.destroyed) await once(session, "close");
    if (!response.destroyed) await once(response, "close");
    for (let turn = 0; turn < 100 && at.http2.size > 0; turn++) await new Promise(setImmediate);
    assert.equal(at.http2.size, 0);
    socket.destroy();
  });

  test("a connection without SETTINGS is closed, and one without a stream", async () => {
    await using at = await rig({ headTimeoutMs: 10_000, idleTimeoutMs: 60_000 });
    const silent = connectTcp(at.port, "127.0.0.1").resume();
    const silentClosed = once(silent, "close");
    const session = at.open();
    await once(session.request({ ":path": "/" }), "response");
    assert.equal(at.http2.size, 2);
    at.pass(10_000);
    at.http2.check();
    await silentClosed;
    at.pass(60_000);
    at.http2.check();
    await once(session, "close");
    assert.deepEqual([at.faults, at.refused], [[], []]);
  });
});
