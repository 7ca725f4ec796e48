import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Log,
  noSpan,
  type ServiceId,
  type Span,
  type SpanAttributes,
  silentLog,
  type Tracer,
  truncateIp,
} from "@turnpike/base";
import { openRaw, openSocket } from "@turnpike/testkit";
import { paymentHeader, standInRelay, startTestGateway } from "../../test/stand-ins.ts";
import { noSubscriptions } from "../generation.ts";
import { AccessLog } from "./access-log.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}';

interface Line {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

function listen(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: string): Log["info"] =>
    (fields, message) => {
      if (message === "request") lines.push({ level, fields });
    };
  return { log: { ...silentLog, info: at("info"), warn: at("warn") }, lines };
}

test("the access log: one line a request, with declared names only and no address, query or body", async () => {
  const { log, lines } = listen();
  await using to = await startTestGateway(
    { accessLog: { sample: 1, errors: true }, trustedProxies: ["127.0.0.1"] },
    { log, subscriptions: { ...noSubscriptions, offers: () => true } },
  );
  const send = async (path: string, body: string | undefined, headers: Record<string, string> = {}): Promise<void> => {
    const from = { "x-forwarded-for": "203.0.113.77", "x-request-id": "trace-1", ...headers };
    const answer = await fetch(to.url + path, {
      method: body === undefined ? "GET" : "POST",
      body: body ?? null,
      headers: from,
    });
    await answer.arrayBuffer();
  };
  await send("/relay/eth?secret=1", CALL);
  await send("/relay/eth", `[${CALL}]`);
  await send("/relay/eth", CALL.replace("eth_blockNumber", "my_secret_method"));
  await send("/v1/eth", CALL);
  await send("/v1/eth", CALL, { "payment-signature": paymentHeader() });
  await send("/no/such/page?key=1", undefined, { "x-forwarded-for": "2001:db8:1:2:3:4:5:6" });
  await using socket = await openSocket(`${to.url.replace("http", "ws")}/relay/eth`);
  void socket;
  const told: Readonly<Record<string, unknown>>[] = lines.map(({ level, fields }) => {
    const { requestId, durationMs, client, traceId, bytes, ...rest } = fields;
    assert.equal(typeof durationMs, "number");
    assert.equal(typeof bytes, "number");
    assert.equal(traceId, undefined);
    assert.ok(["trace-1"].includes(String(requestId)) || rest.verb === "UPGRADE");
    return { level, client, ...rest };
  });
  const common = { level: "info", client: "203.0.113.0/24", service: "eth", verb: "POST" };
  const free = { ...common, door: "free", status: 200, result: "ok" };
  const undeclared = told[2]?.operation;
  assert.notEqual(undeclared, "my_secret_method");
  assert.deepEqual(told, [
    { ...free, operation: "eth_blockNumber" },
    { ...free, operation: "batch" },
    { ...free, operation: undeclared },
    { ...common, door: "paid", operation: undefined, status: 402, result: "PAYMENT_REQUIRED" },
    { ...common, door: "paid", operation: "eth_blockNumber", status: 200, result: "ok" },
    {
      level: "info",
      client: "2001:db8:1:2::/64",
      door: "discovery",
      service: "",
      operation: undefined,
      verb: "GET",
      status: 404,
      result: "NOT_FOUND",
    },
    {
      level: "info",
      client: "127.0.0.0/24",
      door: "free",
      service: "eth",
      operation: undefined,
      verb: "UPGRADE",
      status: 101,
      result: "ok",
    },
  ]);
  assert.doesNotMatch(JSON.stringify(lines), /secret|my_|113\.77/);
});

test("failures have a line whatever the sample, answers below 500 have none", async () => {
  const { log, lines } = listen();
  await using to = await startTestGateway({ accessLog: { sample: 0, errors: true } }, { log });
  const send = () => fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL });
  await send();
  await fetch(`${to.url}/nothing`);
  assert.equal(lines.length, 0);
  to.relay.answer = async () => ({ ok: false, code: "SUPPLIERS_UNREACHABLE", attempts: 2 });
  await send();
  assert.deepEqual(
    lines.map(({ level, fields }) => [level, fields.status, fields.result, fields.operation]),
    [["warn", 502, "SUPPLIERS_UNREACHABLE", "eth_blockNumber"]],
  );
});

test("the sample is as large as it says, and a flood of failures is cut and counted", () => {
  let nowMs = 0;
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log: Log = { ...silentLog, warn: (fields) => lines.push(fields) };
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  for (const sample of [0, 0.01, 0.5, 1]) {
    const access = new AccessLog(() => ({ sample, errors: true }), {
      log,
      clock,
      random: { bytes: () => Uint8Array.of(1, 2, 3, 4) },
    });
    let picked = 0;
    for (let at = 0; at < 100_000; at++) if (access.sample()) picked++;
    assert.ok(Math.abs(picked / 100_000 - sample) < 0.005, `${sample}: ${picked}`);
  }
  const access = new AccessLog(() => ({ sample: 0, errors: true }), {
    log,
    clock,
    random: { bytes: () => new Uint8Array(4) },
  });
  const line = () => ({ requestId: "1" }) as never;
  for (let at = 0; at < 500; at++) access.write(false, 503, line);
  assert.equal(lines.length, 100);
  nowMs = 1_500;
  access.write(false, 503, line);
  assert.deepEqual(lines.at(-1), { requestId: "1", omitted: 400 });
});

test("addresses are cut to their network", () => {
  const cut: Readonly<Record<string, string>> = {
    "203.0.113.9": "203.0.113.0/24",
    "::ffff:203.0.113.9": "203.0.113.0/24",
    "2001:db8:a:b:c:d:e:f": "2001:db8:a:b::/64",
    "fe80::1%eth0": "fe80:0:0:0::/64",
    nobody: "",
  };
  assert.deepEqual(Object.fromEntries(Object.keys(cut).map((ip) => [ip, truncateIp(ip)])), cut);
});

test("X-Request-Id: a sane one of the client is kept on every door, another is replaced", async () => {
  await using to = await startTestGateway();
  const idOf = async (path: string, given: string | undefined, init: RequestInit = {}): Promise<string> => {
    const headers: Record<string, string> = given === undefined ? {} : { "x-request-id": given };
    const answer = await fetch(to.url + path, { ...init, headers });
    await answer.arrayBuffer();
    return answer.headers.get("x-request-id") ?? "";
  };
  const call = { method: "POST", body: CALL };
  for (const [path, init] of [
    ["/v1/eth", call],
    ["/relay/eth", call],
    ["/health", {}],
    ["/nothing", {}],
  ] as const) {
    const id = "0af7651916cd43dd8448eb211c80319c";
    assert.equal(await idOf(path, id, init), id, path);
    for (const bad of [undefined, "a b", "x".repeat(65), '"}', "-a"]) {
      assert.match(await idOf(path, bad, init), /^[0-9a-f]{16}-[0-9a-z]+$/, path);
    }
  }
  await using raw = await openRaw(to.port);
  raw.write("POST /v1/eth HTTP/1.1\r\nHost: a\r\nX-Request-Id: one\r\nX-Request-Id: two\r\nContent-Length: 0\r\n\r\n");
  const [answer] = await raw.next();
  assert.match(answer?.headers.get("x-request-id") ?? "", /^[0-9a-f]{16}-/);
});

interface Told {
  readonly name: string;
  readonly parent: string | undefined;
  attributes: SpanAttributes;
  failed: string | undefined;
  ends: number;
}

function standInTracer(): { readonly tracer: Tracer; readonly spans: Told[] } {
  const spans: Told[] = [];
  const open = (name: string, parent: string | undefined, attributes: SpanAttributes = {}): Span => {
    const told: Told = { name, parent, attributes, failed: undefined, ends: 0 };
    spans.push(told);
    return {
      traceId: "t1",
      child: (inner, _kind, more) => open(inner, name, more),
      set(more) {
        told.attributes = { ...told.attributes, ...more };
      },
      fail(code) {
        told.failed = code;
      },
      end() {
        told.ends++;
      },
    };
  };
  return { tracer: { start: open }, spans };
}

test("spans: one a request, one a stage of a paid call, each ended once, with nothing of its content", async () => {
  const { tracer, spans } = standInTracer();
  const { log, lines } = listen();
  await using to = await startTestGateway({ accessLog: { sample: 1, errors: true } }, { tracer, log });
  const seen: (Span | undefined)[] = [];
  const send = to.relay.send.bind(to.relay);
  to.relay.send = (request, signal) => {
    seen.push(request.request.span);
    return send(request, signal);
  };
  const post = (path: string, headers: Record<string, string> = {}) =>
    fetch(to.url + path, { method: "POST", body: CALL, headers });
  await post("/v1/eth", { "payment-signature": paymentHeader(), traceparent: "00-aa-bb-01" });
  await post("/relay/eth");
  await post("/v1/eth");
  assert.equal(seen.length, 2);
  assert.ok(seen.every((span) => span !== undefined && span !== noSpan));
  assert.ok(spans.every(({ ends }) => ends === 1));
  assert.deepEqual(
    spans.map(({ name, parent }) => [name, parent]),
    [
      ["HTTP POST", "00-aa-bb-01"],
      ...["decode", "read", "parse", "admit", "relay", "settle"].map((stage) => [stage, "HTTP POST"]),
      ["HTTP POST", undefined],
      ["HTTP POST", undefined],
    ],
  );
  assert.deepEqual(spans[0]?.attributes, {
    "http.request.method": "POST",
    "turnpike.door": "paid",
    "turnpike.service": "eth",
    "turnpike.operation": "eth_blockNumber",
    "turnpike.result": "ok",
    "http.response.status_code": 200,
  });
  assert.equal(spans.at(-1)?.attributes["http.response.status_code"], 402);
  assert.ok(lines.every(({ fields }) => fields.traceId === "t1"));

  to.relay.answer = async () => ({ ok: false, code: "SUPPLIERS_FAILED", attempts: 1 });
  await post("/relay/eth");
  assert.equal(spans.at(-1)?.failed, "SUPPLIERS_FAILED");
});

test("a service with nothing but WebSockets is ready, and unknown networks are named so on both doors", async () => {
  const relay = standInRelay([]);
  await using to = await startTestGateway(
    {},
    { relay, subscriptions: { ...noSubscriptions, offers: (id) => id === ("eth" as ServiceId) } },
  );
  assert.equal((await fetch(`${to.url}/ready`)).status, 200);
  assert.equal((await fetch(`${to.url}/ready/eth`)).status, 200);
  assert.equal((await fetch(`${to.url}/ready/pocket`)).status, 503);
  const metrics = await (await fetch(`${to.metricsUrl}/metrics`)).text();
  assert.match(metrics, /^turnpike_gateway_service_ready\{service="eth"\} 1$/m);
  await using raw = await openRaw(to.port);
  const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
  raw.write(
    [
      "GET /relay/nope HTTP/1.1",
      "Host: a",
      ...upgrade,
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "X-Request-Id: ws-1",
      "",
      "",
    ].join("\r\n"),
  );
  const [refused] = await raw.next();
  const http = (await (await fetch(`${to.url}/relay/nope`, { method: "POST", body: CALL })).json()) as {
    error: { message: string };
  };
  const { error } = JSON.parse(refused?.body ?? "") as { error: { message: string } };
  assert.equal(error.message, http.error.message);
  assert.match(error.message, /free relay has no network/);
  assert.equal(refused?.headers.get("x-request-id"), "ws-1");
});
