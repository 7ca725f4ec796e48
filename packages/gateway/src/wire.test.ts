import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { eventually, openRaw, type RawResponse, virtualClock } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { paymentHeader, startTestGateway } from "../test/stand-ins.ts";

const CALL = '{"method":"eth_blockNumber"}';
const HOST = "Host: 127.0.0.1\r\n";
const paid = (body: string, more = ""): string =>
  `POST /v1/eth HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${paymentHeader()}\r\nContent-Length: ${body.length}\r\n${more}\r\n${body}`;
const unpaid = `POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\n{}`;

function code(response: RawResponse | undefined): string {
  const body = JSON.parse(response?.body ?? "null") as { readonly code: string } | null;
  assert.deepEqual(Object.keys(body ?? {}), ["code", "message", "requestId", "retryable"]);
  return `${response?.status} ${body?.code}`;
}

test("what the parser refuses: JSON, no stack, the connection ends", async () => {
  await using to = await startTestGateway();
  const cases: [string, string, string][] = [
    [
      "length and chunks",
      `POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}`,
      "400",
    ],
    ["two lengths", `POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x`, "400"],
    ["a length that is none", `POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length: -1\r\n\r\n`, "400"],
    ["no HTTP", "hello\r\n\r\n", "400"],
    ["a bare newline in a header", `POST /v1/eth HTTP/1.1\r\n${HOST}A: b\nContent-Length: 2\r\n\r\n{}`, "400"],
    ["a space before the colon", `POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length : 2\r\n\r\n{}`, "400"],
    ["no host", "POST /v1/eth HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "400"],
    ["two hosts", `GET /health HTTP/1.1\r\n${HOST}Host: eth.localhost\r\n\r\n`, "400"],
    ["a target that is no path", `GET nothing HTTP/1.1\r\n${HOST}\r\n`, "400"],
    ["a head of 1 MB", `POST /v1/eth HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${"A".repeat(1_048_576)}\r\n\r\n`, "431"],
    ["a thousand headers", `POST /v1/eth HTTP/1.1\r\n${HOST}${"a: b\r\n".repeat(1_000)}\r\n`, "431"],
  ];
  for (const [name, text, status] of cases) {
    await using raw = await openRaw(to.port);
    raw.write(text);
    const [response, second] = await raw.all();
    assert.equal(second, undefined, name);
    assert.match(code(response), new RegExp(`^${status} (MALFORMED_REQUEST|HEADERS_TOO_LARGE)$`), name);
    assert.equal(response?.headers.get("connection"), "close", name);
    assert.equal(response?.headers.has("server"), false);
  }
  assert.deepEqual(to.payment.calls, []);
  assert.equal((await fetch(`${to.url}/health`)).status, 200);
});

test("slow senders take no place of others: a paid call goes on while their bodies trickle in", async () => {
  await using to = await startTestGateway({ maxConcurrentRequests: 2 });
  const head = (target: string, more: string): string =>
    `POST ${target} HTTP/1.1\r\n${HOST}${more}Content-Length: 9\r\n\r\n{`;
  await using stack = new AsyncDisposableStack();
  for (let i = 0; i < 3; i++) {
    stack.use(await openRaw(to.port)).write(head("/relay/eth", "Content-Type: application/json\r\n"));
    stack.use(await openRaw(to.port)).write(head("/v1/eth", `PAYMENT-SIGNATURE: ${paymentHeader()}\r\n`));
  }
  await using raw = await openRaw(to.port);
  raw.write(paid(CALL));
  const [response] = await raw.next();
  assert.equal(response?.status, 200, response?.body ?? "no answer");
});

test("a payment header that is sent twice is refused", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  raw.write(paid(CALL, `payment-signature: ${paymentHeader()}\r\n`));
  const [response] = await raw.next();
  assert.equal(code(response), "400 PAYMENT_MALFORMED");
  assert.deepEqual(to.payment.calls, []);
});

test("version 1's header is no payment and does no harm", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  raw.write(`POST /v1/eth HTTP/1.1\r\n${HOST}X-PAYMENT: abc\r\nContent-Length: 2\r\n\r\n{}`);
  raw.write(paid(CALL, "X-PAYMENT: abc\r\n"));
  const [first, second] = await raw.next(2);
  assert.deepEqual([first?.status, second?.status], [402, 200]);
});

test("pipelined requests are answered in order, also when a broken one follows them", async () => {
  await using to = await startTestGateway();
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  to.relay.answer = async () => {
    reach(undefined);
    await promise;
    return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
  };
  await using raw = await openRaw(to.port);
  raw.write(`${unpaid}${paid(CALL)}${unpaid.repeat(5)}broken\r\n\r\n`);
  await reached;
  assert.equal((await raw.next())[0]?.status, 402);
  resolve(undefined);
  const rest = (await raw.all()).slice(1);
  assert.deepEqual(
    rest.map((response) => response.status),
    [503, 402, 402, 402, 402, 402, 400],
  );
  assert.equal(code(rest[6]), "400 MALFORMED_REQUEST");
});

test("an upgrade behind a request whose answer is due: the answer first, then 400", async () => {
  await using to = await startTestGateway();
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  to.payment.admission = async (request) => {
    reach(undefined);
    await promise;
    return { kind: "paid", paid: request };
  };
  const upgrade = `GET /relay/eth HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  await using raw = await openRaw(to.port);
  raw.write(`${paid(CALL)}${upgrade}${unpaid}`);
  await reached;
  resolve(undefined);
  const [answer, refused, third] = await raw.all();
  assert.equal(answer?.status, 200);
  assert.ok(answer.headers.has("payment-response"));
  assert.equal(refused?.status, 400);
  assert.match(refused.body, /"error":\{"code":-32600/);
  assert.equal(refused.headers.get("connection"), "close");
  assert.equal(third, undefined);
  assert.deepEqual(raw.errors, []);
});

test("unpaid on a kept connection: the body is thrown away and the next request stands by itself", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  const inner = `GET /health HTTP/1.1\r\n${HOST}\r\n`;
  raw.write(`POST /v1/eth HTTP/1.1\r\n${HOST}Content-Length: ${inner.length}\r\n\r\n`);
  assert.equal((await raw.next())[0]?.status, 402);
  raw.write(inner);
  raw.write(paid(CALL));
  assert.equal((await raw.next())[0]?.status, 200);
  assert.equal(to.payment.calls.length, 3);
});

test("unpaid with a huge or endless body: 402 at once, then the connection ends", async () => {
  await using to = await startTestGateway();
  for (const head of [
    "Content-Length: 10000000000\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\nContent-Length: 2\r\n",
  ]) {
    await using raw = await openRaw(to.port);
    raw.write(`POST /v1/eth HTTP/1.1\r\n${HOST}${head}\r\n`);
    const [response] = await raw.all();
    assert.equal(response?.status, 402, head);
    assert.equal(response.headers.get("connection"), "close");
    const header = Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString();
    assert.equal(header, response.body);
  }
});

test("a client that sends on after 413 reads its answer and is cut off", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  raw.write(
    `POST /v1/search HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${paymentHeader()}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  const part = `4000\r\n${"x".repeat(0x4000)}\r\n`;
  for (let sent = 0; sent < 4; sent++) raw.write(part);
  const [response, second] = await raw.all();
  assert.equal(code(response), "413 BODY_TOO_LARGE");
  assert.equal(second, undefined);
  const { promise: cut, resolve } = Promise.withResolvers<void>();
  raw.socket.once("close", () => resolve());
  const flood = setInterval(() => raw.socket.writable && raw.write(part.repeat(20)), 1);
  await cut;
  clearInterval(flood);
});

test("a slow body is 408, a slow head too, and neither holds the connection", async () => {
  // Each has a gateway of its own, whose other time-out is out of reach.
  await using slowBody = await startTestGateway({ requestTimeoutMs: 80, headersTimeoutMs: 60_000 });
  await using body = await openRaw(slowBody.port);
  body.write(`POST /v1/eth HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${paymentHeader()}\r\nContent-Length: 20\r\n\r\n{"me`);
  await using slowHead = await startTestGateway({ requestTimeoutMs: 60_000, headersTimeoutMs: 150 });
  await using head = await openRaw(slowHead.port);
  head.write("POST /v1/eth HT");
  assert.equal(code((await body.all())[0]), "408 REQUEST_TIMEOUT");
  assert.equal(code((await head.all())[0]), "408 REQUEST_TIMEOUT");
  assert.deepEqual([slowBody.payment.calls, slowHead.payment.calls], [["decode"], []]);
});

test("Expect: 100-continue gets its 100 when the body is wanted", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  const head = `PAYMENT-SIGNATURE: ${paymentHeader()}\r\nContent-Length: ${CALL.length}\r\nExpect: 100-continue\r\n`;
  raw.write(`POST /v1/eth HTTP/1.1\r\n${HOST}${head}\r\n`);
  assert.equal((await raw.next())[0]?.status, 100);
  raw.write(CALL);
  assert.equal((await raw.next())[0]?.status, 200);
});

test("a half-closed client still gets what it paid for", async () => {
  await using to = await startTestGateway();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  to.payment.admission = async (request) => {
    reach(undefined);
    await promise;
    return { kind: "paid", paid: request };
  };
  await using raw = await openRaw(to.port);
  raw.socket.end(paid(CALL), "latin1");
  await Promise.all([once(raw.socket, "finish"), reached]);
  // Two round trips on another connection: the end of the first one's has been seen by then.
  for (let trip = 0; trip < 2; trip++) await (await fetch(`${to.url}/health`)).arrayBuffer();
  resolve(undefined);
  const [response] = await raw.all();
  assert.equal(response?.status, 200);
});

test("a client that still sends when it is refused is not reset", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  raw.socket.pause();
  const head = `POST /v1/search HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${paymentHeader()}\r\n`;
  raw.write(`${head}Content-Length: 1500000\r\n\r\n`);
  const send = (bytes: number): Promise<void> =>
    new Promise((resolve) => {
      raw.socket.write("x".repeat(bytes), () => resolve());
    });
  await send(1_000_000);
  raw.socket.resume();
  assert.equal(code((await raw.all())[0]), "413 BODY_TOO_LARGE");
  for (let more = 0; more < 5; more++) {
    await send(50_000);
    await (await fetch(`${to.url}/health`)).arrayBuffer();
  }
  assert.deepEqual(raw.errors, []);
});

test("a client that leaves: what is claimed is settled; before the claim nothing is begun", async () => {
  await using to = await startTestGateway();
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  const { promise: left, resolve: leave } = Promise.withResolvers<undefined>();
  const { promise: settled, resolve: settle } = Promise.withResolvers<undefined>();
  to.payment.admission = async (request) => {
    reach(undefined);
    await left;
    return { kind: "paid", paid: request };
  };
  to.payment.outcome = () => {
    settle(undefined);
    return { kind: "released", code: "INTERNAL" };
  };
  const raw = await openRaw(to.port);
  raw.write(paid(CALL));
  await reached;
  raw.socket.destroy();
  await once(raw.socket, "close");
  leave(undefined);
  await settled;
  assert.deepEqual(to.payment.calls, ["decode", "admit", "settle"]);

  to.payment.calls.length = 0;
  const early = await openRaw(to.port);
  early.write(
    `POST /v1/eth HTTP/1.1\r\n${HOST}PAYMENT-SIGNATURE: ${paymentHeader()}\r\nContent-Length: 20\r\n\r\n{"me`,
  );
  early.socket.destroy();
  await once(early.socket, "close");
  assert.equal((await fetch(`${to.url}/health`)).status, 200);
  assert.ok(!to.payment.calls.includes("admit"));
});

test("an absolute target's authority stands for the host", async () => {
  await using to = await startTestGateway();
  await using raw = await openRaw(to.port);
  raw.write(`GET http://127.0.0.1/health HTTP/1.1\r\nHost: eth.localhost\r\n\r\n`);
  raw.write(`GET http://eth.localhost/health HTTP/1.1\r\n${HOST}\r\n`);
  const [first, second] = await raw.next(2);
  assert.equal(first?.body, '{"status":"ok"}');
  assert.equal(second?.status, 405);
});

test("any bytes on the wire: whole JSON answers, no 5xx, and the gateway lives", async () => {
  await using to = await startTestGateway();
  const piece = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.constantFrom(
      unpaid,
      paid(CALL),
      HOST,
      "\r\n",
      "POST /v1/eth HTTP/1.1\r\n",
      "GET /v1/pocket/status?x=%00 HTTP/1.1\r\n",
      "OPTIONS * HTTP/1.1\r\n",
      "Transfer-Encoding: chunked\r\n",
      "Content-Length: 5\r\n",
      "PAYMENT-SIGNATURE: e30=\r\n",
      "5\r\nabcde\r\n0\r\n\r\n",
      "__proto__: x\r\n",
      "Connection: close\r\n",
      "Upgrade: websocket\r\nConnection: upgrade\r\n",
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 8 }), async (pieces) => {
      await using raw = await openRaw(to.port);
      raw.socket.end(pieces.join(""), "latin1");
      for (const response of await raw.all()) {
        assert.ok(response.status < 500, `${response.status} ${response.body}`);
        if (response.body !== "" && response.headers.get("content-type") === "application/json")
          JSON.parse(response.body);
        assert.doesNotMatch(response.body, /node:|at .*\.ts/);
      }
    }),
    { numRuns: 300 },
  );
  assert.equal((await fetch(`${to.url}/health`)).status, 200);
});

test("any payment header and any body: one of the stated statuses", async () => {
  await using to = await startTestGateway();
  const header = fc.oneof(
    fc.base64String({ maxLength: 200 }),
    fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text).toString("base64")),
    fc.stringMatching(/^[\x21-\x7e]{0,80}$/),
  );
  const body = fc.oneof(fc.json({ maxDepth: 6 }), fc.string({ maxLength: 100 }), fc.constant(CALL));
  await fc.assert(
    fc.asyncProperty(header, body, async (value, text) => {
      const answer = await fetch(`${to.url}/v1/eth`, {
        method: "POST",
        body: text,
        headers: { "payment-signature": value },
      });
      await answer.arrayBuffer();
      assert.ok([200, 400].includes(answer.status), `${answer.status}`);
    }),
    { numRuns: 300 },
  );
});

test("a body that does not come is 408, also when all places are taken by then", async () => {
  const clock = virtualClock();
  await using to = await startTestGateway({ maxConcurrentRequests: 1, requestTimeoutMs: 150 }, { clock });
  await using late = await openRaw(to.port);
  late.write(paid("").replace("Content-Length: 0", "Content-Length: 9"));
  await eventually("its head has arrived", () => to.payment.calls.length > 0);
  const gate = Promise.withResolvers<string>();
  const relayed = Promise.withResolvers<void>();
  to.relay.answer = async () => {
    relayed.resolve();
    await gate.promise;
    return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
  };
  await using other = await openRaw(to.port);
  other.write(paid(CALL));
  await relayed.promise;
  clock.advance(1_000);
  assert.equal(code((await late.next())[0]), "408 REQUEST_TIMEOUT");
  gate.resolve("");
  assert.equal((await other.next())[0]?.status, 503);
});
