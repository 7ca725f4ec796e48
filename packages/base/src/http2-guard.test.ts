import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, constants, createServer, type Http2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { suite, test } from "node:test";
import { ConnectionGuard, type ConnectionRefusal } from "./connection-guard.ts";
import { Http2Guard, type Http2GuardOptions } from "./http2-guard.ts";
import { silentLog } from "./log.ts";

/** A server that responds to each stream, and its guard; time is the test's. */
async function rig(
  options: Http2GuardOptions = {},
  onStream: (stream: ServerHttp2Stream) => void = (stream) => stream.respond({}, { endStream: true }),
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
  server.on("stream", onStream);
  http2.watch(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    guard,
    http2,
    refused,
    faults,
    port,
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
    const again = at.open();
    await once(again.request({ ":path": "/" }), "response");
    again.destroy();
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
