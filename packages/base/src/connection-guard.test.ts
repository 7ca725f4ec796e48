import assert from "node:assert/strict";
import { once } from "node:events";
import { get } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { suite, test } from "node:test";
import {
  ConnectionGuard,
  type ConnectionLimits,
  type ConnectionRefusal,
  createGuardedServer,
} from "./connection-guard.ts";

/** Connections as far as a guard looks at them, and a clock for their idle times. */
function rig(limits: ConnectionLimits) {
  let nowMs = 0;
  const refused: ConnectionRefusal[] = [];
  const guard = new ConnectionGuard(limits, {
    clock: { monotonicMs: () => nowMs },
    onRefused: (reason) => refused.push(reason),
  });
  const socketOf = (remoteAddress: string): Socket => Object.assign(new Duplex() as Socket, { remoteAddress });
  return {
    guard,
    refused,
    socketOf,
    /** Connections of an address; undefined for those that were refused. */
    open: (address: string, count: number, idleMs?: () => number | undefined) =>
      Array.from({ length: count }, () => socketOf(address)).filter((socket) => guard.admit(socket, idleMs)),
    pass: (ms: number): void => {
      nowMs += ms;
    },
  };
}

suite("a guard of connections", () => {
  test("counts a connection once, until it closes, and bounds those of one client", () => {
    const { guard, refused, socketOf } = rig({ maxConnections: 10, maxConnectionsPerClient: 2 });
    const [first, second, third] = [socketOf("192.0.2.1"), socketOf("192.0.2.1"), socketOf("::ffff:192.0.2.1")];
    assert.deepEqual(
      [first, first, second, second, third].map((socket) => guard.admit(socket)),
      [true, true, true, true, false],
    );
    assert.deepEqual([guard.size, guard.clients, refused], [2, 1, ["client"]]);
    first.emit("close");
    assert.equal(guard.admit(socketOf("192.0.2.1")), true);
    assert.equal(guard.admit(socketOf("192.0.2.1")), false);
  });

  test("a /64 of IPv6 is one client; a trusted proxy is none, and the total bounds it", () => {
    const limits = { maxConnections: 6, maxConnectionsPerClient: 2, trustedProxies: ["10.0.0.0/8"] };
    const { open } = rig(limits);
    assert.equal(open("2001:db8::1", 1).length, 1);
    assert.equal(open("2001:db8::2", 5).length, 1);
    assert.equal(open("10.1.2.3", 9).length, 4);
  });

  test("closes the idlest of a client for one more of it, when that was idle for 5 seconds and owes no response", () => {
    const { open, pass, refused } = rig({ maxConnections: 10, maxConnectionsPerClient: 2 });
    const [oldest, second] = open("192.0.2.1", 2);
    pass(4_999);
    assert.equal(open("192.0.2.1", 1).length, 0);
    pass(1);
    assert.equal(open("192.0.2.1", 1).length, 1);
    assert.deepEqual([oldest?.destroyed, second?.destroyed], [true, false]);
    pass(60_000);
    open("192.0.2.2", 2, () => undefined);
    assert.equal(open("192.0.2.2", 1).length, 0);
    assert.deepEqual(refused, ["client", "evicted", "client"]);
  });

  test("at the total, one of the client with the most is closed for a client with fewer, and not the other way round", () => {
    const { guard, open, pass } = rig({ maxConnections: 10, maxConnectionsPerClient: 8 });
    const many = open("192.0.2.1", 8);
    const few = open("192.0.2.2", 2);
    pass(1_000);
    const [late] = open("192.0.2.3", 1);
    assert.ok(late);
    assert.equal(many.filter(({ destroyed }) => destroyed).length, 1);
    assert.equal(few.filter(({ destroyed }) => destroyed).length, 0);
    // The client with the most gets none of another's.
    assert.equal(open("192.0.2.1", 3).length, 0);
    assert.equal(guard.size, 10);
    // Fair shares in the end: three or four each.
    pass(1_000);
    open("192.0.2.3", 8);
    open("192.0.2.2", 8);
    assert.equal(guard.size, 10);
    assert.ok(many.filter(({ destroyed }) => !destroyed).length <= 4);
  });

  test("a refused connection counts nowhere, however many there are", () => {
    const { guard, open } = rig({ maxConnections: 5, maxConnectionsPerClient: 3 });
    for (let at = 0; at < 1_000; at++) open(`192.0.2.${at % 200}`, 4);
    assert.equal(guard.size, 5);
    assert.ok(guard.clients <= 5);
  });
});

suite("a guarded server of node:http", () => {
  async function serve(limits: ConnectionLimits, respond: (end: () => void) => void, headersTimeout = 60_000) {
    const guard = new ConnectionGuard(limits);
    const server = createGuardedServer(guard, { headersTimeout, connectionsCheckingInterval: 20 }, (_, response) =>
      respond(() => response.end("ok")),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return { guard, server, port: (server.address() as AddressInfo).port };
  }

  test("closes half a head, and a connection without any byte", async () => {
    const { server, port } = await serve({ maxConnections: 10, maxConnectionsPerClient: 10 }, (end) => end(), 100);
    const sockets = ["", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\n"].map((half) => {
      const socket = connect(port, "127.0.0.1").resume();
      socket.on("error", () => {}).write(half);
      return once(socket, "close");
    });
    await Promise.all(sockets);
    server.close();
  });

  test("a connection whose response is due is not closed for another one", async () => {
    const ends: (() => void)[] = [];
    const due = Promise.withResolvers<void>();
    const { server, port } = await serve({ maxConnections: 1, maxConnectionsPerClient: 1 }, (end) => {
      ends.push(end);
      due.resolve();
    });
    const answered = new Promise<number | undefined>((resolve) => {
      get({ port, host: "127.0.0.1", agent: false }, (response) => resolve(response.resume().statusCode));
    });
    await due.promise;
    const other = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" }).resume();
    other.on("error", () => {});
    await once(other, "close");
    for (const end of ends) end();
    assert.equal(await answered, 200);
    server.close();
  });
});
