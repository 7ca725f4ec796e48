import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, isIP } from "node:net";
import { test } from "node:test";
import { noMetrics } from "@turnpike/base";
import { startUpstream, virtualClock } from "@turnpike/testkit";
import { HttpTransport } from "./http-transport.ts";
import type { Resolve } from "./public-lookup.ts";
import type { UpstreamRequest } from "./transport.ts";

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
  assert.deepEqual(refused, { ok: false, blame: "client", reason: "overloaded", isUnsent: false });
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
  assert.deepEqual(late, { ok: false, blame: "wire", reason: "connection", isUnsent: true });
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
      const resolve: Resolve = async (hostname) => {
        asked.push(hostname);
        return found;
      };
      await using transport = new HttpTransport(
        { ...OPTIONS, isPublicOnly: true },
        { clock: virtualClock(), metrics: noMetrics, resolve },
      );
      const [http, ws] = ["http", "ws"].map((scheme) => transport.backend(`${scheme}://supplier.example:${port}/`));
      assert.ok(http !== undefined && ws !== undefined);
      const unreached = { ok: false, blame: "wire", reason: "connection", isUnsent: true };
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
