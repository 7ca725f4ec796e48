import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { constants, type ServerHttp2Session } from "node:http2";
import { type AddressInfo, createServer, isIP } from "node:net";
import { suite, test } from "node:test";
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from "node:tls";
import { noMetrics, type ResolveHost } from "@turnpike/base";
import { eventually, makeCertificate, virtualClock } from "@turnpike/testkit";
import { answer, framed, type GrpcCall, refuse, startGrpcServer } from "../../test/grpc-server.ts";
import { ByteBudget } from "./byte-budget.ts";
import { readGrpcStatus } from "./grpc-message.ts";
import { GrpcTransport, type GrpcTransportOptions } from "./grpc-transport.ts";
import type { TransportFailure, UpstreamRequest, UpstreamResponse } from "./transport.ts";

const METHOD = "/pocket.service.RelayService/SendRelay";
const OPTIONS = { method: METHOD, connectTimeoutMs: 60_000, maxCallsPerOrigin: 64 };
const REQUEST: UpstreamRequest = {
  purpose: "client",
  method: "POST",
  path: "",
  headers: { "rpc-type": "3" },
  body: Buffer.from("request"),
  timeoutMs: 50_000,
  maxResponseBytes: 1_000,
  signal: undefined,
};
const OK = { "grpc-status": "0" };
const BODY = framed(Buffer.from("answer"));
const UNREACHED = { ok: false, blame: "wire", reason: "connection", isNotSent: true };
const BROKEN = { ok: false, blame: "wire", reason: "connection", isNotSent: false };

test("of a long text of a status the beginning is read", () => {
  const status = readGrpcStatus({ "grpc-status": "8", "grpc-message": "x".repeat(60_000) });
  assert.deepEqual([status?.code, status?.text.length], [8, 2_048]);
});

const well = ({ stream }: GrpcCall): void => answer(stream, BODY, OK);
/** Headers of an answer, and no end. */
const begin = ({ stream }: GrpcCall, contentType = "application/grpc"): void =>
  stream.respond({ ":status": 200, "content-type": contentType });

/** A transport with a clock that the test sets. */
function transportOf(options: Partial<GrpcTransportOptions> = {}, resolve?: ResolveHost) {
  const clock = virtualClock();
  const budget = new ByteBudget({ maxBytes: 100_000 }, { metrics: noMetrics });
  const modules = { clock, budget, ...(resolve === undefined ? {} : { resolve }) };
  const transport = new GrpcTransport({ ...OPTIONS, ...options }, modules);
  return {
    clock,
    budget,
    transport,
    send(url: string, more: Partial<UpstreamRequest> = {}): Promise<UpstreamResponse | TransportFailure> {
      const handle = transport.backend(url) ?? assert.fail(url);
      return transport.send({ handle }, { ...REQUEST, ...more });
    },
    [Symbol.asyncDispose]: () => transport[Symbol.asyncDispose](),
  };
}

/** A status and text, or why there is none. */
const shown = (result: UpstreamResponse | TransportFailure): string =>
  result.ok ? `${result.status} ${Buffer.from(result.body).toString()}` : result.reason;

suite("unary calls over gRPC", () => {
  test("a request is one message to the method with its metadata, and the message of the answer is its body", async () => {
    await using server = await startGrpcServer(well);
    await using client = transportOf();
    for (let n = 0; n < 20; n++) assert.equal(shown(await client.send(`${server.url}/path?x=1`)), "200 answer");
    const { headers, body } = server.calls[0] ?? assert.fail();
    assert.deepEqual(body, framed(Buffer.from("request")));
    assert.deepEqual(
      [":path", "rpc-type", "te", "content-type", "grpc-timeout"].map((name) => headers[name]),
      [METHOD, "3", "trailers", "application/grpc", "50000m"],
    );
    assert.equal(server.sessions, 1, "calls share a connection");
    await client.send(server.url.replace("//", "//user:p%40ss@"));
    assert.equal(server.calls.at(-1)?.headers.authorization, `Basic ${Buffer.from("user:p@ss").toString("base64")}`);
  });

  test("a call that has ended leaves no listener on its signal", async () => {
    await using server = await startGrpcServer(well);
    await using client = transportOf();
    const signal = AbortSignal.any([new AbortController().signal]);
    assert.equal(shown(await client.send(server.url, { signal })), "200 answer");
    assert.equal(getEventListeners(signal, "abort").length, 0);
  });

  test("a status of gRPC is the HTTP status that says the same, with its text", async () => {
    const kinds: ((call: GrpcCall) => void)[] = [
      ({ stream }) => refuse(stream, 7, "session expired: ä %"),
      ({ stream }) => answer(stream, Buffer.alloc(0), { "grpc-status": "8", "grpc-message": "used up" }),
      // A message before it is not one that its server stands by.
      ({ stream }) => answer(stream, BODY, { "grpc-status": "14", "grpc-message": "%ff%" }),
      ({ stream }) => answer(stream, BODY, { "grpc-status": "5" }),
      ({ stream }) => stream.respond({ ":status": 502, "content-type": "text/html" }, { endStream: true }),
    ];
    await using server = await startGrpcServer((call) => kinds.shift()?.(call));
    await using client = transportOf();
    const found: string[] = [];
    while (kinds.length > 0) found.push(shown(await client.send(server.url)));
    assert.deepEqual(found, ["403 session expired: ä %", "429 used up", "503 %ff%", "404 ", "502 "]);
  });

  const malformed: Readonly<Record<string, (call: GrpcCall) => void>> = {
    "has no trailers": (call) => {
      begin(call);
      call.stream.end(BODY);
    },
    "says its status in the headers, and has no trailers": ({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc", ...OK });
      stream.end(BODY);
    },
    "has two messages": ({ stream }) => answer(stream, Buffer.concat([BODY, BODY]), OK),
    "has bytes behind its message": ({ stream }) => answer(stream, Buffer.concat([BODY, Buffer.alloc(1)]), OK),
    "has two messages and never ends": (call) => {
      begin(call);
      call.stream.write(Buffer.concat([BODY, BODY]));
    },
    "is compressed": ({ stream }) => answer(stream, framed(Buffer.from("answer"), { flag: 1 }), OK),
    "has half a message": ({ stream }) => answer(stream, BODY.subarray(0, 8), OK),
    "has half a prefix": ({ stream }) => answer(stream, BODY.subarray(0, 3), OK),
    "has no message": ({ stream }) => answer(stream, Buffer.alloc(0), OK),
    "has no message, in headers alone": ({ stream }) => refuse(stream, 0, ""),
    "has a status that is none": ({ stream }) => answer(stream, BODY, { "grpc-status": "ok" }),
    "has a status that is not known": ({ stream }) => answer(stream, BODY, { "grpc-status": "17" }),
    "has trailers without a status": ({ stream }) => answer(stream, BODY, { "grpc-message": "x" }),
    "is a page": (call) => {
      begin(call, "text/html");
      call.stream.end("<html>");
    },
    "has another content type": ({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers(OK));
      stream.end(BODY);
    },
    "is reset in its midst": (call) => {
      begin(call);
      call.stream.write(BODY.subarray(0, 8));
      call.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    },
    "is ended by RST_STREAM without an error": (call) => {
      begin(call);
      call.stream.write(BODY);
      call.stream.close(constants.NGHTTP2_NO_ERROR);
    },
    "loses its connection in its midst": (call) => {
      begin(call);
      call.stream.write(BODY.subarray(0, 8), () => call.session.destroy());
    },
    "is followed by a connection error": ({ session }) => session.goaway(constants.NGHTTP2_INTERNAL_ERROR),
  };
  for (const [what, reply] of Object.entries(malformed))
    test(`an answer that ${what} is a failed connection, and the next call is served`, async () => {
      let first = true;
      await using server = await startGrpcServer((call) => {
        if (first) reply(call);
        else well(call);
        first = false;
      });
      await using client = transportOf();
      assert.deepEqual(await client.send(server.url), BROKEN);
      assert.equal(shown(await client.send(server.url)), "200 answer");
    });

  const stalls: Readonly<Record<string, (call: GrpcCall) => void>> = {
    nothing: () => undefined,
    "headers alone": begin,
    "half a message": (call) => {
      begin(call);
      call.stream.write(BODY.subarray(0, 8));
    },
    "a message and no end": (call) => {
      begin(call);
      call.stream.write(BODY);
    },
  };
  for (const [what, reply] of Object.entries(stalls))
    test(`a server that answers ${what} has failed by the time-out, and its connection takes no further call`, async () => {
      let first = true;
      await using server = await startGrpcServer((call) => {
        if (first) reply(call);
        else well(call);
        first = false;
      });
      await using client = transportOf();
      const stalled = client.send(server.url);
      await eventually("the call", () => server.calls.length === 1);
      client.clock.advance(60_000);
      assert.deepEqual(await stalled, { ok: false, blame: "wire", reason: "timeout", isNotSent: false });
      assert.equal(shown(await client.send(server.url)), "200 answer");
      assert.equal(server.sessions, 2);
      await eventually("the end of the first connection", () => server.open === 1);
    });

  test("a message above the bound comes back as truncated by its length alone; one above the budget not at all", async () => {
    await using server = await startGrpcServer((call) => {
      begin(call);
      const isLong = call.headers["rpc-type"] === "4";
      call.stream.write(isLong ? framed(Buffer.alloc(0), { length: 0xffff_ffff }) : framed(Buffer.alloc(200_000)));
    });
    await using client = transportOf();
    const cut = await client.send(server.url, { headers: { "rpc-type": "4" } });
    assert.deepEqual([cut.ok && cut.status, cut.ok && cut.isTruncated, cut.ok && cut.body.length], [200, true, 0]);
    const refused = await client.send(server.url, { maxResponseBytes: 500_000 });
    assert.deepEqual(refused, { ok: false, blame: "client", reason: "overloaded", isNotSent: false });
    await eventually("the end of both streams", () => server.calls.every(({ stream }) => stream.closed));
    assert.equal(client.budget.acquire(100_000), true, "what was held is free again");
  });

  test("a large message in small parts arrives whole", async () => {
    const large = Buffer.from(Array.from({ length: 70_000 }, (_, at) => at % 251));
    await using server = await startGrpcServer(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers(OK));
      const bytes = framed(large);
      for (let at = 0; at < 40; at++) stream.write(bytes.subarray(at, at + 1));
      stream.end(bytes.subarray(40));
    });
    await using client = transportOf();
    const result = await client.send(server.url, { maxResponseBytes: 70_000 });
    assert.deepEqual(result.ok && Buffer.from(result.body), large);
  });

  test("a call that is given up is cancelled at its server, and leaves its connection in use", async () => {
    await using server = await startGrpcServer((call) => {
      if (call.headers["rpc-type"] === "3") well(call);
    });
    await using client = transportOf();
    const abort = new AbortController();
    const handle: { cancel?: () => void } = {};
    const waits = { headers: {} };
    const pending = [
      client.send(server.url, { ...waits, signal: abort.signal }),
      client.send(server.url, { ...waits, handle }),
    ];
    await eventually("both calls", () => server.calls.length === 2);
    abort.abort();
    handle.cancel?.();
    for (const result of await Promise.all(pending)) {
      assert.deepEqual(result, { ok: false, blame: "client", reason: "aborted", isNotSent: false });
    }
    await eventually("their ends", () => server.calls.every(({ stream }) => stream.closed));
    assert.deepEqual(
      server.calls.map(({ stream }) => stream.rstCode),
      [constants.NGHTTP2_CANCEL, constants.NGHTTP2_CANCEL],
    );
    assert.equal(shown(await client.send(server.url)), "200 answer");
    assert.equal(server.sessions, 1);
    const late = await client.send(server.url, { signal: abort.signal });
    assert.deepEqual(late, { ok: false, blame: "client", reason: "aborted", isNotSent: true });
  });
});

suite("connections of gRPC", () => {
  test("are few, take as many calls as their server allows, and no more than the origin may have", async () => {
    for (const [streams, most] of [
      [1, 4],
      [100, 16],
    ] as const) {
      await using server = await startGrpcServer(well, { settings: { maxConcurrentStreams: streams } });
      await using client = transportOf({ maxCallsPerOrigin: 16 });
      const results = await Promise.all(Array.from({ length: 60 }, () => client.send(server.url)));
      assert.deepEqual(new Set(results.map(shown)), new Set(["200 answer"]));
      assert.ok(server.sessions <= 4, `${server.sessions} connections`);
      assert.ok(server.mostStreams <= most, `${server.mostStreams} calls at once`);
    }
  });

  test("of a server that allows no call hold none beyond its time-out", async () => {
    await using server = await startGrpcServer(well, { settings: { maxConcurrentStreams: 0 } });
    await using client = transportOf();
    const calls = Array.from({ length: 3 }, () => client.send(server.url));
    await eventually("a connection", () => server.sessions > 0);
    client.clock.advance(60_000);
    for (const result of await Promise.all(calls)) assert.equal(shown(result), "timeout");
    assert.equal(server.calls.length, 0);
  });

  test("that their server is about to close take no further call, and end with the last one on them", async () => {
    await using server = await startGrpcServer((call) => {
      if (server.calls.length > 1) return well(call);
      // What is under way may end.
      call.session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
      return undefined;
    });
    await using client = transportOf();
    const slow = client.send(server.url);
    await eventually("the first call", () => server.calls.length === 1);
    await eventually("calls on another connection", async () => {
      assert.equal(shown(await client.send(server.url)), "200 answer");
      return server.sessions === 2;
    });
    well(server.calls[0] ?? assert.fail());
    assert.equal(shown(await slow), "200 answer");
    await eventually("the end of the first connection", () => server.open === 1);
  });

  test("a request that a server refused unread goes to it once more, and no further", async () => {
    let refusals = 0;
    await using server = await startGrpcServer((call) => {
      if (refusals-- > 0) call.stream.close(constants.NGHTTP2_REFUSED_STREAM);
      else well(call);
    });
    await using client = transportOf();
    refusals = 1;
    assert.equal(shown(await client.send(server.url)), "200 answer");
    assert.deepEqual(server.calls[0]?.body, server.calls[1]?.body);
    refusals = 2;
    assert.deepEqual(await client.send(server.url), BROKEN);
    assert.equal(server.calls.length, 4);
  });

  test("a request that crossed with the end of its connection goes to the server once more, over another", async () => {
    await using server = await startGrpcServer((call) => {
      if (server.calls.length === 2) call.session.goaway(constants.NGHTTP2_NO_ERROR, 1);
      else well(call);
    });
    await using client = transportOf();
    assert.equal(shown(await client.send(server.url)), "200 answer");
    assert.equal(shown(await client.send(server.url)), "200 answer");
    assert.deepEqual([server.calls.length, server.sessions], [3, 2]);
  });

  test("that are closed before they are of use are not opened over and over", async () => {
    const closings: ((session: ServerHttp2Session) => void)[] = [
      (session) => session.destroy(),
      (session) => session.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1),
      (session) => session.once("localSettings", () => session.destroy()),
    ];
    for (const onSession of closings) {
      await using server = await startGrpcServer(() => undefined, { settings: { maxConcurrentStreams: 0 }, onSession });
      await using client = transportOf();
      const calls = Array.from({ length: 5 }, () => client.send(server.url));
      for (const result of await Promise.all(calls)) assert.deepEqual(result, UNREACHED);
      assert.equal(server.sessions, 1);
    }
    // Beside one that is of use.
    await using server = await startGrpcServer(
      (call) => {
        if (server.calls.length > 1) well(call);
      },
      { settings: { maxConcurrentStreams: 1 }, onSession: (session, count) => count > 1 && session.destroy() },
    );
    await using client = transportOf();
    const calls = Array.from({ length: 10 }, () => client.send(server.url));
    await eventually("a second connection", () => server.sessions > 1);
    well(server.calls[0] ?? assert.fail());
    const found = (await Promise.all(calls)).map(shown);
    assert.ok(found.includes("200 answer"));
    // A call has cost one of them, and another one was tried for as it ended.
    assert.ok(server.sessions <= 21, `${server.sessions} connections`);
  });

  test("that cannot be opened fail all that waits, unsent", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    await using client = transportOf();
    const calls = Array.from({ length: 5 }, () => client.send(`http://127.0.0.1:${port}`));
    for (const result of await Promise.all(calls)) assert.deepEqual(result, UNREACHED);
  });

  test("to what speaks HTTP/1.1, or nothing, hold no call", async () => {
    let connections = 0;
    const server = createServer((socket) => {
      socket.on("error", () => undefined).resume();
      if (connections++ === 0) socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await using client = transportOf();
    assert.deepEqual(await client.send(`http://127.0.0.1:${port}`), UNREACHED);
    const silent = client.send(`http://127.0.0.1:${port}`, { timeoutMs: 90_000 });
    await eventually("the second connection", () => connections === 2);
    client.clock.advance(70_000);
    assert.deepEqual(await silent, UNREACHED);
    await client.transport[Symbol.asyncDispose]();
    server.close();
    await once(server, "close");
  });

  test("are closed when they are idle, and when no back-end uses their origin", async () => {
    await using server = await startGrpcServer(well);
    await using idle = transportOf({ idleTimeoutMs: 50 });
    assert.equal(shown(await idle.send(server.url)), "200 answer");
    await eventually("the end of an idle connection", () => server.open === 0);
    await using client = transportOf();
    const [first, second] = [client.transport.backend(`${server.url}/a`), client.transport.backend(`${server.url}/b`)];
    assert.ok(first !== undefined && second !== undefined);
    client.transport.release(first);
    assert.equal(shown(await client.transport.send({ handle: second }, REQUEST)), "200 answer");
    client.transport.release(second);
    await eventually("the end of an unused connection", () => server.open === 0);
    assert.deepEqual(await client.transport.send({ handle: second }, REQUEST), UNREACHED);
  });

  test("are made with TLS for https, and to nothing that is not trusted or does not speak HTTP/2", async () => {
    const [trusted, stranger] = [makeCertificate("localhost"), makeCertificate("localhost")];
    const before = getCACertificates("default");
    setDefaultCACertificates([...before, trusted.cert]);
    try {
      await using server = await startGrpcServer(well, { tls: trusted });
      await using client = transportOf();
      assert.equal(shown(await client.send(server.url)), "200 answer");
      assert.equal(server.calls[0]?.headers[":scheme"], "https");
      await using other = await startGrpcServer(well, { tls: stranger });
      assert.deepEqual(await client.send(other.url), UNREACHED);
      let bytes = 0;
      const old = createTlsServer({ ...trusted }, (socket) => {
        socket.on("error", () => undefined);
        socket.on("data", (chunk) => (bytes += chunk.length));
      }).listen(0, "127.0.0.1");
      await once(old, "listening");
      assert.deepEqual(await client.send(`https://localhost:${(old.address() as AddressInfo).port}`), UNREACHED);
      old.close();
      await once(old, "close");
      assert.equal(bytes, 0, "nothing was sent to it");
    } finally {
      setDefaultCACertificates(before);
    }
  });

  test("reach no private address where only public ones are, by address or name", async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.destroy();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const at = (address: string) => ({ address, family: isIP(address) });
    for (const found of [[at("127.0.0.1")], [at("127.0.0.1"), at("93.184.215.14")], [at("::1")], []]) {
      const asked: string[] = [];
      await using client = transportOf({ isPublicOnly: true }, async (hostname) => {
        asked.push(hostname);
        return found;
      });
      for (const host of ["127.0.0.1", "[::1]", "0x7f.1", "[::ffff:10.0.0.1]"]) {
        assert.equal(client.transport.backend(`http://${host}:${port}`), undefined, host);
      }
      for (const scheme of ["http", "https"]) {
        // A name that the system has.
        assert.deepEqual(await client.send(`${scheme}://localhost:${port}`), UNREACHED);
      }
      assert.deepEqual(asked, ["localhost", "localhost"]);
    }
    assert.equal(connections, 0);
    server.close();
    await once(server, "close");
  });

  test("what is no URL of HTTP is no back-end, and a user whose escapes are no UTF-8 is one", async () => {
    await using client = transportOf();
    for (const url of ["", "x", "ftp://x.example", "ws://x.example", "grpc://x.example"]) {
      assert.equal(client.transport.backend(url), undefined, url);
    }
    assert.equal(client.transport.backend("http://%ff:%zz@x.example/a?b=1")?.pathOf("/c?d"), "/a/c?b=1&d");
  });
});
