import assert from "node:assert/strict";
import { test } from "node:test";
import type { TLSSocket, TlsOptions } from "node:tls";
import { eventually, makeCertificate } from "@turnpike/testkit";
import { ask, newPool } from "../test/asking.ts";
import { type RawServer, startRawServer } from "../test/raw-server.ts";
import type { HttpPoolOptions } from "./http-pool.ts";

const { cert, key } = makeCertificate("supplier.example");
const TEXT = "0123456789abcdef".repeat(20_000);
const UNREACHED = { status: 0, fields: {}, body: "", error: "connection", isSent: false };

const startTls = (options: TlsOptions = {}): Promise<RawServer> =>
  startRawServer({
    tls: { cert, key, ...options },
    answer(socket, _request, answered) {
      answered();
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TEXT.length}\r\n\r\n${TEXT}`);
    },
  });

const optionsFor = ({ port }: RawServer, host = "supplier.example"): Partial<HttpPoolOptions> => ({
  origin: `https://${host}:${port}`,
  lookup: (_hostname, options, answer) => {
    if (options.all === true) answer(null, [{ address: "127.0.0.1", family: 4 }]);
    else answer(null, "127.0.0.1", 4);
  },
});

test("a server whose certificate is good is asked, many times over one connection", async () => {
  for (const tls of [
    {},
    { ALPNProtocols: ["http/1.1"] },
    { ALPNProtocols: ["h2", "http/1.1"] },
    { maxVersion: "TLSv1.2" },
  ] as const) {
    await using server = await startTls(tls as TlsOptions);
    using pool = newPool(server.port, { ...optionsFor(server), ca: cert });
    for (const body of ["{}", Buffer.alloc(100_000), "x".repeat(20_000)]) {
      const asked = await ask(pool, { body }).result;
      assert.equal(asked.status, 200);
      assert.ok(asked.body === TEXT);
    }
    assert.equal(server.sockets.length, 1);
  }
});

test("a session is used again by the next connection", async () => {
  const reused: boolean[] = [];
  await using server = await startRawServer({
    tls: { cert, key },
    connected: (socket) => reused.push((socket as TLSSocket).isSessionReused()),
    answer: (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  });
  using pool = newPool(server.port, { ...optionsFor(server), ca: cert });
  for (let i = 0; i < 2; i++) {
    assert.equal((await ask(pool).result).status, 200);
    await eventually("no connection", () => pool.connections === 0);
  }
  assert.deepEqual(reused, [false, true]);
});

test("a server is not asked whose certificate nobody known signed, or is for another name", async () => {
  await using server = await startTls();
  for (const options of [
    optionsFor(server),
    { ...optionsFor(server), ca: makeCertificate("supplier.example").cert },
    { ...optionsFor(server, "other.example"), ca: cert },
    { ...optionsFor(server, "127.0.0.1"), ca: cert },
    { ...optionsFor(server), ca: cert, servername: "other.example" },
  ]) {
    using pool = newPool(server.port, options);
    assert.deepEqual(await ask(pool, { body: "{}" }).result, UNREACHED);
  }
  assert.deepEqual(server.requests, []);
  using named = newPool(server.port, { ...optionsFor(server, "127.0.0.1"), ca: cert, servername: "supplier.example" });
  assert.equal((await ask(named).result).status, 200);
});

test("a server that speaks no HTTP/1.1, or no TLS, is not asked", async () => {
  await using other = await startTls({ ALPNProtocols: ["h2"] });
  await using plain = await startRawServer({
    answer: () => assert.fail("no request"),
    connected: (socket) => socket.end("HTTP/1.1 400 \r\n\r\n"),
  });
  for (const server of [other, plain]) {
    using pool = newPool(server.port, { ...optionsFor(server), ca: cert });
    assert.deepEqual(await ask(pool).result, UNREACHED);
  }
});

test("a pause holds a response up, and a resume brings all of it", async () => {
  await using server = await startTls();
  using pool = newPool(server.port, { ...optionsFor(server), ca: cert });
  const paused = Promise.withResolvers<void>();
  const asking = ask(pool, {
    seen(_name, request) {
      request.pause();
      paused.resolve();
    },
  });
  await paused.promise;
  let isOver = false;
  void asking.result.then(() => {
    isOver = true;
  });
  while (!isOver) {
    asking.request.resume();
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok((await asking.result).body === TEXT);
  assert.ok((await ask(pool).result).body === TEXT);
  assert.equal(server.sockets.length, 1);
});
