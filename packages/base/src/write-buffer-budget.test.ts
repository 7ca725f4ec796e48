import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { suite, test } from "node:test";
import { openRaw } from "@turnpike/testkit";
import { WriteBufferBudget } from "./write-buffer-budget.ts";

const MB = 1_000_000;

const askAs = (client: string): string => `GET /${client} HTTP/1.1\r\nHost: a\r\n\r\n`;

test("what a connection holds is given back once, however it ends, also for answers that wait behind another", async () => {
  const budget = new WriteBufferBudget(() => 800);
  const taken: boolean[] = [];
  const waiting: ServerResponse[] = [];
  let arrived = Promise.withResolvers<void>();
  const numRequests = 3;
  const server = createServer(({ url = "" }, res) => {
    taken.push(budget.acquire(res, 100, url, false));
    waiting.push(res);
    if (waiting.length === numRequests) arrived.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await using owned = new AsyncDisposableStack();
  owned.defer(() => server.closeAllConnections());
  owned.defer(() => void server.close());
  const { port } = server.address() as AddressInfo;
  for (const end of ["answered", "reset", "destroyed", "half", "reset", "answered"] as const) {
    arrived = Promise.withResolvers();
    const connected = once(server, "connection");
    await using raw = await openRaw(port);
    const [socket] = (await connected) as [Socket];
    const closed = new Promise((resolve) => socket.once("close", resolve));
    raw.write(askAs("one").repeat(numRequests));
    await arrived.promise;
    // A quarter is for one client: what a round before did not give back, or gave back twice, would show here.
    assert.deepEqual(taken.splice(0), [true, true, false], end);
    const responses = waiting.splice(0);
    if (end === "answered") for (const res of responses) res.end("x");
    if (end === "half") responses[0]?.end("x");
    // It is whole, and waits behind the first.
    if (end === "reset" || end === "destroyed") responses[1]?.end("x");
    if (end === "answered" || end === "half") await raw.next(end === "half" ? 1 : 3);
    if (end === "destroyed") socket.destroy();
    else if (end === "answered") raw.socket.end();
    else raw.socket.resetAndDestroy();
    await closed;
  }
  assert.equal(budget.bytes, 0);
});

/** A budget whose clock is the test's, and its clients. */
function rig(maxBytes = 1_000) {
  let nowMs = 0;
  const budget = new WriteBufferBudget(() => maxBytes, { clock: { monotonicMs: () => nowMs } });
  const closed: string[] = [];
  return {
    budget,
    closed,
    pass: (ms: number) => {
      nowMs += ms;
    },
    reader: (name: string, client = name, isReading = false) => ({
      client,
      connection: {},
      close: () => void closed.push(name),
      isReading: () => isReading,
    }),
  };
}

suite("when there is no room", () => {
  test("the oldest answer of the client that has held most for longest is closed", () => {
    const { budget, closed, pass, reader } = rig();
    assert.ok(budget.reserve(100, reader("old and small")));
    pass(1_000);
    assert.ok(budget.reserve(150, reader("large, first", "large")));
    assert.ok(budget.reserve(100, reader("large, second", "large")));
    pass(5_000);
    assert.ok(budget.reserve(600, reader("new and large")));
    assert.ok(budget.reserve(100, reader("honest")));
    assert.deepEqual(closed, ["large, first"]);
    assert.ok(budget.reserve(900, reader("nothing held")));
    assert.deepEqual(closed.slice(1).sort(), ["honest", "large, second", "new and large", "old and small"].slice(1));
    assert.equal(budget.reserve(1_001, reader("too large")), undefined);
    assert.equal(budget.bytes, 1_000);
  });

  test("a client that holds bytes gets room from those that hold more, not from others", () => {
    const { budget, closed, reader } = rig();
    for (const name of ["a", "b", "c", "d"]) assert.ok(budget.reserve(200, reader(name)));
    assert.ok(budget.reserve(50, reader("e")));
    assert.ok(budget.reserve(140, reader("e")), "within its share, and there is room");
    assert.equal(budget.reserve(20, reader("e")), undefined, "no client holds more");
    assert.deepEqual(closed, []);
    assert.ok(budget.reserve(50, reader("f")));
    assert.ok(budget.reserve(50, reader("f")));
    assert.deepEqual(closed, ["a"]);
    for (let at = 0; at < 9; at++)
      assert.ok(budget.reserve(150, { ...reader("proxy"), client: undefined }), "each connection is new");
  });

  test("answers that are due stay, and are counted", () => {
    const { budget, closed, reader } = rig();
    assert.ok(budget.reserve(900, reader("payer"), true));
    assert.ok(budget.reserve(900, reader("payer"), true), "beyond all room");
    assert.equal(budget.reserve(1, reader("other")), undefined);
    assert.deepEqual(closed, []);
  });

  test("shared bytes are counted once, and those of one burst do not count against a client that held nothing", () => {
    const { budget, closed, reader } = rig();
    const burst = {};
    const [large, small] = [budget.share(300, burst), budget.share(200, burst)];
    // A reader of them costs 512 bytes, which would hide the sums here.
    const big = new WriteBufferBudget(() => 1_000_000);
    const [event, next, later] = [big.share(300_000, burst), big.share(200_000, burst), big.share(1_000, {})];
    const releases = ["a", "b", "a", "c"].map((client) => event.reserve(reader(client)));
    assert.equal(big.bytes, 300_000 + 4 * 512);
    for (const client of ["a", "b"]) releases.push(next.reserve(reader(client)));
    assert.ok(releases.every((release) => release !== undefined));
    assert.equal(later.reserve(reader("a")), undefined, "the client has not read the burst");
    assert.ok(later.reserve(reader("d")));
    for (const release of releases) release?.();
    assert.equal(big.bytes, 1_000 + 512);
    assert.ok(large.reserve(reader("a")));
    assert.ok(small.reserve(reader("b")), "at the cost of the other one");
    assert.deepEqual(closed, ["a"]);
    assert.equal(budget.bytes, 712);
  });

  test("attack: two addresses that read nothing do not end those who read one event", () => {
    const { budget, closed, pass, reader } = rig(256 * MB);
    const event = budget.share(90 * MB, {});
    for (let at = 0; at < 20; at++) assert.ok(event.reserve(reader(`subscriber ${at}`)));
    pass(500);
    for (const name of ["slow", "slower"]) assert.ok(budget.reserve(80 * MB, reader(name)));
    pass(100);
    assert.ok(budget.reserve(80 * MB, reader("new")));
    assert.deepEqual(closed, ["slow"]);
    pass(60_000);
    assert.ok(budget.reserve(80 * MB, reader("newer")), "so many connections are not closed for an event");
    assert.deepEqual(closed.slice(1), ["slower"]);
  });

  test("attack: two addresses that read nothing of an event both are closed", () => {
    const { budget, closed, pass, reader } = rig(100 * MB);
    const event = budget.share(90 * MB, {});
    for (const name of ["slow", "slower", "slowest"]) assert.ok(event.reserve(reader(name)));
    assert.ok(budget.reserve(5 * MB, reader("honest")));
    pass(1_000);
    assert.ok(budget.reserve(50 * MB, reader("new")));
    assert.deepEqual(closed.sort(), ["slow", "slower", "slowest"]);
    assert.equal(budget.bytes, 55 * MB);
  });

  test("nothing is closed for an answer that would have no room nevertheless", () => {
    const { budget, closed, pass, reader } = rig();
    assert.ok(budget.reserve(100, reader("old")));
    pass(200);
    for (let at = 0; at < 8; at++) assert.ok(budget.reserve(at < 2 ? 225 : 66, reader(`other ${at}`)));
    assert.ok(budget.reserve(50, reader("asker")));
    assert.equal(budget.reserve(190, reader("asker")), undefined);
    assert.deepEqual(closed, []);
  });

  test("connections of 16 clients are closed for one answer at most", () => {
    const { budget, closed, reader } = rig();
    for (let at = 0; at < 40; at++) assert.ok(budget.reserve(25, reader(`${at}`)));
    assert.equal(budget.reserve(401, reader("new")), undefined);
    assert.deepEqual(closed, []);
    assert.ok(budget.reserve(400, reader("new")));
    assert.equal(closed.length, 16);
  });

  test("attack: four addresses with any number of connections make room", () => {
    const { budget, closed, reader } = rig();
    for (let at = 0; at < 1_000; at++) assert.ok(budget.reserve(1, reader(`${at}`, `${at % 4}`)));
    assert.ok(budget.reserve(900, reader("new")));
    assert.equal(closed.length, 900);
  });

  test("a connection that is being read stays", () => {
    const { budget, closed, pass, reader } = rig();
    assert.ok(budget.reserve(500, reader("fast", "fast", true)));
    pass(5_000);
    assert.ok(budget.reserve(500, reader("slow")));
    assert.ok(budget.reserve(500, reader("new", "new", true)));
    assert.deepEqual(closed, ["slow"]);
    assert.equal(budget.reserve(100, reader("newer")), undefined, "both are being read");
  });

  test("a client that holds less than its part has room for an event of any size", () => {
    const { budget, closed, reader } = rig(256 * MB);
    assert.ok(budget.reserve(MB, reader("a")));
    assert.ok(budget.share(90 * MB, {}).reserve(reader("a")));
    assert.equal(budget.share(1, {}).reserve(reader("a")), undefined, "it holds more now");
    assert.deepEqual(closed, []);
  });
});
