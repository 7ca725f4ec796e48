import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { type AddressInfo, createServer, isIP, type Socket } from "node:net";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Metrics, noMetrics, type ResolveHost } from "@turnpike/base";
import { eventually, startUpstream, virtualClock } from "@turnpike/testkit";
import { HttpTransport } from "./http-transport.ts";
import type { SendHandle, UpstreamRequest } from "./transport.ts";

const OPTIONS = { connectTimeoutMs: 60_000, maxConnectionsPerOrigin: 2, maxInFlightBytes: 1_000 };
const newTransport = (): HttpTransport => new HttpTransport(OPTIONS, { clock: virtualClock(), metrics: noMetrics });

const GET: UpstreamRequest = {
  purpose: "client",
  method: "GET",
  path: "",
  headers: undefined,
  body: undefined,
  timeoutMs: 60_000,
  maxResponseBytes: 100,
  signal: undefined,
};

test("a back-end's key tells it apart by all of its URL and headers, and neither key nor label shows a secret", async () => {
  await using transport = newTransport();
  const keyOf = (url: string, headers: Readonly<Record<string, string>> = {}): string => {
    const backend = transport.backend(url, headers);
    assert.ok(backend !== undefined);
    assert.match(backend.label, /^[xy]\.example(?::443)?$/);
    assert.ok(!backend.backendKey.includes("KEY"));
    return backend.backendKey;
  };
  const base = keyOf("https://x.example/v1/KEY");
  assert.equal(keyOf("https://x.example:443/v1/KEY/"), base);
  const others = [
    keyOf("https://y.example/v1/KEY"),
    keyOf("https://x.example/v1/OTHER"),
    keyOf("https://u:p@x.example/v1/KEY"),
    keyOf("https://x.example/v1/KEY?a=1"),
    keyOf("https://x.example/v1/KEY", { "X-Key": "1" }),
    keyOf("wss://x.example/v1/KEY"),
  ];
  assert.equal(new Set([base, ...others]).size, others.length + 1);
  assert.equal(keyOf("https://x.example", { "X-Key": "1" }), keyOf("https://x.example", { "x-key": "1" }));
});

test("what is no URL of HTTP or WebSocket is no back-end", async () => {
  await using transport = newTransport();
  for (const url of ["", "x", "ftp://x.example", "file:///etc/passwd"]) {
    assert.equal(transport.backend(url), undefined, url);
  }
  assert.equal(transport.backend("ws://x.example")?.isSocket, true);
  assert.equal(transport.backend("http://x.example")?.isSocket, false);
});

test("a request goes below the given URL, whose query it keeps", async () => {
  await using transport = newTransport();
  for (const [url, path, wanted] of [
    ["http://x.example", "", "/"],
    ["http://x.example/v1/", "", "/v1/"],
    ["http://x.example/v1/?key=1", "/a?b=c?d", "/v1/a?key=1&b=c?d"],
    ["http://x.example/v1?key=1", "?b=c", "/v1?key=1&b=c"],
  ] as const) {
    assert.equal(transport.backend(url)?.pathOf(path), wanted);
  }
});

test("a user in a URL whose escapes are no UTF-8 is sent as it stands", async () => {
  await using transport = newTransport();
  const backend = transport.backend("http://%ff:%3A@x.example/");
  assert.equal(backend?.getHeaders["authorization"], `Basic ${Buffer.from("%ff::").toString("base64")}`);
});

test("a body above the bound comes back as truncated, one above the budget not at all", async () => {
  await using upstream = await startUpstream((_call, response) => response.end("x".repeat(2_000)));
  await using transport = newTransport();
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const cut = await transport.send({ handle }, GET);
  assert.deepEqual([cut.ok && cut.isTruncated, cut.ok && cut.body.length], [true, 0]);
  const refused = await transport.send({ handle }, { ...GET, maxResponseBytes: 10_000 });
  assert.deepEqual(refused, { ok: false, blame: "client", reason: "overloaded", isNotSent: false });
});

test("connections stay while one back-end uses their origin; then nothing is sent over them", async () => {
  await using upstream = await startUpstream((_call, response) => response.end("{}"));
  await using transport = newTransport();
  const [first, second] = [transport.backend(`${upstream.url}/a`), transport.backend(`${upstream.url}/b`)];
  assert.ok(first !== undefined && second !== undefined);
  transport.release(first);
  assert.equal((await transport.send({ handle: second }, GET)).ok, true);
  transport.release(second);
  const late = await transport.send({ handle: second }, GET);
  assert.deepEqual(late, { ok: false, blame: "wire", reason: "connection", isNotSent: true });
  assert.equal(upstream.calls.length, 1);
});

test("a name that has a private address is not reached where only public ones are, over HTTP and WebSocket alike", async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const at = (address: string) => ({ address, family: isIP(address) });
  try {
    for (const found of [[at("127.0.0.1")], [at("127.0.0.1"), at("93.184.215.14")], [at("::1")], []]) {
      const asked: string[] = [];
      const resolve: ResolveHost = async (hostname) => {
        asked.push(hostname);
        return found;
      };
      await using transport = new HttpTransport(
        { ...OPTIONS, isPublicOnly: true },
        { clock: virtualClock(), metrics: noMetrics, resolve },
      );
      const [http, ws] = ["http", "ws"].map((scheme) => transport.backend(`${scheme}://supplier.example:${port}/`));
      assert.ok(http !== undefined && ws !== undefined);
      const unreached = { ok: false, blame: "wire", reason: "connection", isNotSent: true };
      assert.deepEqual(await transport.send({ handle: http }, GET), unreached);
      const request = { purpose: "client", timeoutMs: 60_000, maxMessageBytes: 100, signal: undefined } as const;
      assert.deepEqual(await transport.openSocket({ handle: ws }, request), unreached);
      assert.deepEqual(asked, ["supplier.example", "supplier.example"]);
    }
    assert.equal(connections, 0);
  } finally {
    server.close();
  }
});

test("a request over a kept connection that the supplier closes is sent once, and may have been seen", async () => {
  await using upstream = await startUpstream((call, response) => {
    if (call.text === "again") response.socket?.destroy();
    else response.end("{}");
  });
  await using transport = newTransport();
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const post = { ...GET, method: "POST" } as const;
  assert.equal((await transport.send({ handle }, { ...post, body: Buffer.from("first") })).ok, true);
  const lost = await transport.send({ handle }, { ...post, body: Buffer.from("again") });
  assert.deepEqual(lost, { ok: false, blame: "wire", reason: "connection", isNotSent: false });
  assert.deepEqual(
    upstream.calls.map(({ text }) => text),
    ["first", "again"],
  );
});

test("a request whose kept connection the supplier closes before it is written goes over a new one", async () => {
  const sockets: (Socket | null)[] = [];
  await using upstream = await startUpstream((_call, response) => {
    sockets.push(response.socket);
    response.end("{}");
  });
  await using transport = newTransport();
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  for (let i = 0; i < 3; i++) {
    await nextTurn();
    sockets.at(-1)?.destroy();
    assert.equal((await transport.send({ handle }, GET)).ok, true);
  }
  assert.deepEqual([upstream.calls.length, new Set(sockets).size], [3, 3]);
});

test("what waits for a connection ends as unsent by its time-out, its signal and its handle", async (t) => {
  await using upstream = await startUpstream(() => undefined);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const clock = virtualClock();
  await using transport = new HttpTransport(OPTIONS, { clock, metrics: noMetrics });
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const all = [1, 2, 3].map(() => transport.send({ handle }, { ...GET, timeoutMs: 1_000 }));
  const abort = new AbortController();
  const cancel: SendHandle = {};
  const aborted = transport.send({ handle }, { ...GET, signal: abort.signal });
  const cancelled = transport.send({ handle }, { ...GET, handle: cancel });
  abort.abort();
  cancel.cancel?.();
  const unsent = { ok: false, blame: "client", reason: "aborted", isNotSent: true };
  assert.deepEqual([await aborted, await cancelled], [unsent, unsent]);
  await eventually("two requests", () => upstream.calls.length === 2);
  clock.advance(2_000);
  t.mock.timers.tick(10);
  const late = { ok: false, blame: "wire", reason: "timeout" };
  assert.deepEqual(await Promise.all(all), [
    { ...late, isNotSent: false },
    { ...late, isNotSent: false },
    { ...late, isNotSent: true },
  ]);
  assert.equal(upstream.calls.length, 2);
});

test("a path or a header that cannot be sent sends nothing", async () => {
  await using upstream = await startUpstream((_call, response) => response.end("{}"));
  await using transport = newTransport();
  const handle = transport.backend(upstream.url, { "X-Key": "a" });
  const odd = transport.backend(upstream.url, { "X-Key": "a\r\nb: c" });
  assert.ok(handle !== undefined && odd !== undefined);
  const unsent = { ok: false, blame: "wire", reason: "connection", isNotSent: true };
  assert.deepEqual(await transport.send({ handle: odd }, GET), unsent);
  assert.deepEqual(await transport.send({ handle }, { ...GET, path: "/a b" }), unsent);
  assert.deepEqual(await transport.send({ handle }, { ...GET, headers: { a: "\n" } }), unsent);
  assert.equal((await transport.send({ handle }, GET)).ok, true);
  assert.equal(upstream.calls.length, 1);
});

test("each request has its own path, method and headers, also after one that was like it", async () => {
  await using upstream = await startUpstream((_call, response) => response.end("{}"));
  await using transport = newTransport();
  const handle = transport.backend(`${upstream.url}/v1?key=1`, { HOST: "supplier.example", "x-key": "a" });
  assert.ok(handle !== undefined);
  const body = Buffer.from("{}");
  const headers = { "x-a": "b" };
  const sent = [
    GET,
    GET,
    { ...GET, path: "/a" },
    { ...GET, method: "POST", body },
    { ...GET, method: "POST" },
    { ...GET, headers },
    { ...GET, headers: { "x-a": "c" } },
  ] as const;
  for (const request of sent) assert.equal((await transport.send({ handle }, request)).ok, true);
  assert.deepEqual(
    upstream.calls.map(({ verb, path, headers: got }) => [
      verb,
      path,
      got.host,
      got["x-key"],
      got["content-type"],
      got["x-a"],
    ]),
    [
      ["GET", "/v1?key=1", "supplier.example", "a", undefined, undefined],
      ["GET", "/v1?key=1", "supplier.example", "a", undefined, undefined],
      ["GET", "/v1/a?key=1", "supplier.example", "a", undefined, undefined],
      ["POST", "/v1?key=1", "supplier.example", "a", "application/json", undefined],
      ["POST", "/v1?key=1", "supplier.example", "a", undefined, undefined],
      ["GET", "/v1?key=1", "supplier.example", "a", undefined, "b"],
      ["GET", "/v1?key=1", "supplier.example", "a", undefined, "c"],
    ],
  );
});

test("a large body is passed on no faster than it is read, and gives back all that it held", async () => {
  const size = 30_000_000;
  const text = `{"result":"${"x".repeat(size)}"}`;
  let socket: Socket | null = null;
  await using upstream = await startUpstream((_call, response) => {
    ({ socket } = response);
    response.end(text);
  });
  const held: number[] = [];
  const metrics: Metrics = { ...noMetrics, set: (_metric, value) => void held.push(value) };
  await using transport = new HttpTransport(
    { ...OPTIONS, maxInFlightBytes: 100_000 },
    { clock: virtualClock(), metrics },
  );
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const stream = {
    afterBytes: 1,
    maxBytes: 2 * size,
    timeoutMs: 60_000,
    head: (beginning: Buffer) => Buffer.from(beginning),
  };
  for (const isWhole of [true, false]) {
    const answer = await transport.send({ handle }, { ...GET, maxResponseBytes: 100_000, stream });
    assert.ok(answer.ok && answer.stream !== undefined);
    // As long as nobody reads, other requests go on, and this one does not.
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(((socket as Socket | null)?.writableLength ?? 0) > 0);
    let read = "";
    for await (const chunk of answer.stream) {
      read += Buffer.from(chunk).toString();
      if (!isWhole) break;
    }
    assert.ok(text.startsWith(read));
    assert.equal(read.length === text.length, isWhole);
  }
  await eventually("nothing held", () => held.at(-1) === 0);
});

test("attack: what a supplier says of a body and does not send takes nobody's room in the budget", async () => {
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let calls = 0;
  await using upstream = await startUpstream((_call, response) => {
    response.writeHead(200, { "content-length": 200_000 });
    response.write("x");
    begun[calls++]?.resolve();
  });
  let held = 0;
  const metrics: Metrics = {
    ...noMetrics,
    set: (_metric, value) => {
      held = value;
    },
  };
  await using transport = new HttpTransport(
    { ...OPTIONS, maxInFlightBytes: 250_000 },
    { clock: virtualClock(), metrics },
  );
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const cancels: SendHandle[] = [{}, {}];
  const calling = cancels.map((cancel) =>
    transport.send({ handle }, { ...GET, maxResponseBytes: 300_000, handle: cancel }),
  );
  await Promise.all(begun.map(({ promise }) => promise));
  await eventually("both have begun to come", () => held === 2);
  for (const { cancel } of cancels) cancel?.();
  const aborted = { ok: false, blame: "client", reason: "aborted", isNotSent: false };
  assert.deepEqual(await Promise.all(calling), [aborted, aborted]);
  assert.equal(held, 0);
});

test("a small body takes its room in the budget with its first byte, and gives it back when the rest does not come", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  await using upstream = await startUpstream((_call, response) => {
    response.writeHead(200, { "content-length": 900 });
    response.write("x");
    begin();
  });
  let held = 0;
  const metrics: Metrics = {
    ...noMetrics,
    set: (_metric, value) => {
      held = value;
    },
  };
  await using transport = new HttpTransport(OPTIONS, { clock: virtualClock(), metrics });
  const handle = transport.backend(upstream.url);
  assert.ok(handle !== undefined);
  const cancel: SendHandle = {};
  const first = transport.send({ handle }, { ...GET, maxResponseBytes: 1_000, handle: cancel });
  await begun;
  await eventually("the head", () => held === 900);
  const second = await transport.send({ handle }, { ...GET, maxResponseBytes: 1_000 });
  assert.deepEqual(second, { ok: false, blame: "client", reason: "overloaded", isNotSent: false });
  cancel.cancel?.();
  assert.deepEqual(await first, { ok: false, blame: "client", reason: "aborted", isNotSent: false });
  assert.equal(held, 0);
});

test("a call that has ended leaves no listener on its signal, which would retain a composite one", async () => {
  await using upstream = await startUpstream((_call, response) => response.end("{}"));
  await using transport = newTransport();
  const handle = transport.backend(upstream.url) ?? assert.fail();
  const { signal: stopping } = new AbortController();
  const signal = AbortSignal.any([new AbortController().signal, stopping]);
  const sent = [0, 1].map(() => transport.send({ handle }, { ...GET, signal }));
  assert.equal(getEventListeners(signal, "abort").length, 1, "one for both");
  for (const { ok } of await Promise.all(sent)) assert.ok(ok);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  const again = transport.send({ handle }, { ...GET, signal });
  assert.equal(getEventListeners(signal, "abort").length, 1);
  assert.ok((await again).ok);
  assert.equal(getEventListeners(signal, "abort").length, 0);
});
