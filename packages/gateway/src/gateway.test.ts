import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError, type Log } from "@turnpike/base";
import { mintRelayed } from "@turnpike/protocol";
import { openRaw, reboundStatus } from "@turnpike/testkit";
import { paymentHeader, receipt, startTestGateway, type TestGateway } from "../test/stand-ins.ts";

const CALL = '{"method":"eth_blockNumber"}';
const decode = (header: string | null): unknown => JSON.parse(Buffer.from(header ?? "", "base64").toString("utf8"));

function buy(to: TestGateway, path = "/v1/eth", init: RequestInit = {}): Promise<Response> {
  const headers = { "payment-signature": paymentHeader(), ...(init.headers as Record<string, string> | undefined) };
  return fetch(to.url + path, { method: "POST", body: init.method === "GET" ? null : CALL, ...init, headers });
}

async function assertTerms(answer: Response, error: RegExp): Promise<void> {
  assert.equal(answer.status, 402);
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const body = Buffer.from(await answer.arrayBuffer());
  assert.deepEqual(Buffer.from(answer.headers.get("payment-required") ?? "", "base64"), body);
  assert.match((JSON.parse(body.toString()) as { error: string }).error, error);
}

async function assertError(answer: Response, status: number, code: string): Promise<void> {
  assert.equal(answer.status, status);
  const body = (await answer.json()) as Record<string, unknown>;
  assert.deepEqual(Object.keys(body), ["code", "message", "requestId", "retryable"]);
  assert.equal(body.code, code);
  assert.equal(answer.headers.get("x-request-id"), body.requestId);
  assert.equal(answer.headers.get("cache-control"), "no-store");
}

test("unpaid: the route's terms, the same bytes in header and body, whatever the body is", async () => {
  await using to = await startTestGateway();
  for (const body of [CALL, "", "{", "[1,2]", null]) {
    await assertTerms(await fetch(`${to.url}/v1/eth`, { method: "POST", body }), /^Payment required$/);
  }
  const paths: [string, string][] = [
    ["GET", "/v1/pocket/status"],
    ["POST", "/v1/pocket/status"],
    ["GET", "/v1/pocket/status?height=5"],
    ["POST", "/v1/eth?a=b"],
  ];
  for (const [method, path] of paths) {
    const answer = await fetch(to.url + path, { method });
    const { resource } = (await answer.clone().json()) as { resource: { url: string } };
    assert.equal(resource.url, `${to.url}${path.startsWith("/v1/eth") ? "/v1/eth" : "/v1/pocket"}`);
    await assertTerms(answer, /^Payment required$/);
  }
  assert.deepEqual(to.payment.calls, []);
});

test("unpaid with two Host lines is 400, as every such request (RFC 9112 section 3.2)", async () => {
  await using to = await startTestGateway();
  for (const second of ["Host: 127.0.0.1", "hOST: other.example"]) {
    await using raw = await openRaw(to.port);
    raw.write(`POST /v1/eth HTTP/1.1\r\nHost: 127.0.0.1\r\n${second}\r\nContent-Length: 2\r\n\r\n{}`);
    const [response] = await raw.next();
    assert.equal(response?.status, 400);
    assert.match(response.body, /"code":"MALFORMED_REQUEST"/);
  }
});

test("paid: the envelope around the supplier's bytes, the receipt, private", async () => {
  await using to = await startTestGateway();
  const raw = ' {"jsonrpc":"2.0",  "id":1,"result":{"b":1.0,"a":123456789012345678901,"b2":"\\u00e9"}}\n';
  to.relay.answer = () => raw;
  const answer = await buy(to);
  assert.equal(answer.status, 200);
  const portal = '{"provenance":"third-party-supplier","serviceId":"eth","schemaCheck":"passed"}';
  assert.equal(await answer.text(), `{"portal":${portal},"data":${raw}}`);
  assert.deepEqual(decode(answer.headers.get("payment-response")), receipt());
  assert.equal(answer.headers.get("cache-control"), "private");
  assert.equal(answer.headers.get("access-control-allow-origin"), "*");
  assert.match(answer.headers.get("access-control-expose-headers") ?? "", /PAYMENT-REQUIRED, PAYMENT-RESPONSE/);
  assert.deepEqual(to.payment.calls, ["decode", "admit", "settle"]);
});

test("the order of checks: route, header, body, family, payment", async () => {
  await using to = await startTestGateway();
  const bad = { "payment-signature": "not base64!" };
  await assertError(await buy(to, "/v1/nothing", { headers: bad }), 404, "UNKNOWN_SERVICE");
  await assertError(await buy(to, "/v1/eth", { headers: bad, body: "{" }), 400, "PAYMENT_MALFORMED");
  await assertError(await buy(to, "/v1/eth", { body: "{" }), 400, "INVALID_JSON");
  await assertError(await buy(to, "/v1/eth", { body: "[]" }), 400, "BATCH_NOT_SOLD");
  await assertError(await buy(to, "/v1/eth", { body: '{"method":"a","method":"b"}' }), 400, "DUPLICATE_KEY");
  await assertError(await buy(to, "/v1/eth", { body: '{"method":"eth_send"}' }), 400, "METHOD_NOT_ALLOWED");
  await assertError(
    await buy(to, "/v1/eth", { body: '{"__proto__":{"method":"eth_blockNumber"}}' }),
    400,
    "METHOD_NOT_ALLOWED",
  );
  await assertError(await buy(to, "/v1/eth", { body: "[".repeat(100_000) }), 400, "INVALID_JSON");
  await assertError(await buy(to, "/v1/eth/status"), 404, "NOT_FOUND");
  assert.match(
    await (await buy(to, "/v1")).text(),
    /"NOT_FOUND".*Name the service: .*Target-Service-Id .*\/services\.json/,
  );
  await assertError(await buy(to, "/v1/pocket/..%2fx"), 400, "BAD_PATH");
  await assertError(
    await buy(to, "/v1/eth", { headers: { "content-encoding": "gzip" } }),
    415,
    "UNSUPPORTED_MEDIA_TYPE",
  );
  assert.ok(!to.payment.calls.includes("admit"));
  assert.equal(to.relay.runs, 0);
});

test("search: 422 is exactly the detail; 16,384 bytes pass and 16,385 are 413", async () => {
  await using to = await startTestGateway();
  const invalid = await buy(to, "/v1/search", { body: "{}" });
  assert.equal(invalid.status, 422);
  assert.deepEqual(await invalid.json(), {
    detail: [{ loc: ["body", "query"], msg: "field required", type: "missing" }],
  });
  const ofSize = (size: number): string => `{"query":"${"x".repeat(size - 12)}"}`;
  assert.equal((await buy(to, "/v1/search", { body: ofSize(16_384) })).status, 200);
  await assertError(await buy(to, "/v1/search", { body: ofSize(16_385) }), 413, "BODY_TOO_LARGE");
});

test("refusals of payment: 402 with terms and cause, 409, 503 with Retry-After", async () => {
  await using to = await startTestGateway();
  to.payment.admission = () => ({ kind: "refused", ok: false, code: "PAYMENT_EXPIRED", message: "Too late by 3 s." });
  await assertTerms(await buy(to), /^PAYMENT_EXPIRED: Too late by 3 s\. Sign again/);
  to.payment.admission = () => ({ kind: "refused", ok: false, code: "PAYMENT_CONFLICT", receipt: receipt() });
  const conflict = await buy(to);
  assert.deepEqual(decode(conflict.headers.get("payment-response")), receipt());
  await assertError(conflict, 409, "PAYMENT_CONFLICT");
  const pause = { ok: false, code: "PAYMENT_SIMULATION_FAILED", retryAfterSeconds: 60 } as const;
  to.payment.admission = () => ({ kind: "refused", ...pause });
  const later = await buy(to);
  assert.equal(later.headers.get("retry-after"), "60");
  await assertTerms(later, /^PAYMENT_SIMULATION_FAILED: /);
  to.payment.admission = () => ({ kind: "refused", ok: false, code: "SETTLEMENT_UNAVAILABLE" });
  const busy = await buy(to);
  assert.equal(busy.headers.get("retry-after"), "1");
  await assertError(busy, 503, "SETTLEMENT_UNAVAILABLE");
  assert.equal(to.relay.runs, 0);
});

test("what no supplier has is refused before anything is claimed", async () => {
  await using to = await startTestGateway();
  to.relay.lost.add("eth_blockNumber");
  await assertError(await buy(to), 400, "METHOD_NOT_ALLOWED");
  assert.deepEqual([to.payment.calls, to.relay.runs], [["decode", "admit"], 0]);
  to.relay.lost.clear();
  assert.equal((await buy(to)).status, 200);
});

test("a failed call: released, 503, and never another status", async () => {
  await using to = await startTestGateway();
  for (const code of ["NO_SUPPLIERS", "SUPPLIERS_UNREACHABLE", "SUPPLIERS_FAILED", "DEADLINE_EXCEEDED"] as const) {
    to.relay.answer = async () => ({ ok: false, code, attempts: 2 });
    await assertError(await buy(to), 503, "SERVICE_UNAVAILABLE");
    assert.equal(to.payment.calls.at(-1), `release ${code}`);
  }
  to.relay.answer = async () => ({ ok: false, code: "ANSWER_TOO_LARGE", attempts: 1 });
  await assertError(await buy(to), 503, "ANSWER_TOO_LARGE");
  to.relay.answer = () => {
    throw new TypeError("a fault");
  };
  await assertError(await buy(to), 503, "SERVICE_UNAVAILABLE");
  assert.equal(to.payment.calls.at(-1), "release INTERNAL");
  assert.ok(!to.payment.calls.includes("settle"));
});

test("outcomes: pending 503, failed 402, expired 410, each with its receipt; a fault is never 402", async () => {
  await using to = await startTestGateway();
  const pending = receipt({ success: false, errorReason: "settlement_pending" });
  const settlementId = "s" as never;
  to.payment.outcome = () => ({ kind: "pending", receipt: pending, retryAfterSeconds: 7, settlementId });
  const waits = await buy(to);
  assert.deepEqual(decode(waits.headers.get("payment-response")), pending);
  assert.equal(waits.headers.get("retry-after"), "7");
  await assertError(waits, 503, "SETTLEMENT_PENDING");

  const failed = receipt({ success: false, transaction: "" });
  to.payment.outcome = () => ({ kind: "failed", receipt: failed, code: "PAYMENT_NONCE_USED", settlementId });
  const fails = await buy(to);
  assert.deepEqual(decode(fails.headers.get("payment-response")), failed);
  await assertTerms(fails, /^PAYMENT_NONCE_USED/);

  to.payment.outcome = () => ({ kind: "expired", code: "PAYMENT_OWED", receipt: receipt(), settlementId });
  const old = await buy(to);
  assert.deepEqual(decode(old.headers.get("payment-response")), receipt());
  await assertError(old, 410, "PAYMENT_OWED");

  to.payment.outcome = () => {
    throw new TypeError("a fault with https://secret.example/key");
  };
  const fault = await buy(to);
  await assertError(fault, 503, "SETTLEMENT_PENDING");
  const open = decode(fault.headers.get("payment-response")) as { success: boolean; errorReason: string };
  assert.deepEqual([open.success, open.errorReason], [false, "settlement_pending"]);
});

test("attack: a claim does not stay behind when a fault makes no answer of what a supplier said", async () => {
  await using to = await startTestGateway();
  const body: Uint8Array = Object.defineProperty(Object.create(Uint8Array.prototype), "length", { value: 3 });
  to.relay.answer = async ({ request }) =>
    mintRelayed({
      ok: true,
      request,
      status: 200,
      body,
      contentType: "application/json",
      schemaCheck: "passed",
      operator: "stand-in",
    });
  await assertError(await buy(to), 503, "SERVICE_UNAVAILABLE");
  assert.deepEqual(to.payment.calls.slice(-1), ["release INTERNAL"]);
});

test("a fault before the claim is 500 without internals", async () => {
  await using to = await startTestGateway();
  to.payment.admission = () => {
    throw new TypeError("secret internals");
  };
  const answer = await buy(to);
  const text = await answer.clone().text();
  assert.doesNotMatch(text, /secret|TypeError|at /);
  await assertError(answer, 500, "INTERNAL");
});

test("a sale that ends well is one debug line; one that does not is a warning", async () => {
  const lines: string[] = [];
  const at = (level: string) => (_fields: unknown, message: string) => void lines.push(`${level}: ${message}`);
  const log: Log = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error"), child: () => log };
  await using to = await startTestGateway({}, { log });
  lines.length = 0;
  assert.equal((await buy(to)).status, 200);
  assert.deepEqual(lines, ["debug: a paid call has ended"]);
  const pending = receipt({ success: false, errorReason: "settlement_pending" });
  const outcome = { kind: "pending", receipt: pending, retryAfterSeconds: 7, settlementId: "s" as never } as const;
  to.payment.outcome = () => outcome;
  assert.equal((await buy(to)).status, 503);
  assert.equal(lines.at(-1), "warn: a paid call has ended without a settlement");
});

test("a copy of an earlier payment gets its outcome without another run", async () => {
  await using to = await startTestGateway();
  const answer = { contentType: "application/json", body: Buffer.from('{"stored":true}') };
  to.payment.admission = () => ({
    kind: "outcome",
    outcome: { kind: "settled", receipt: receipt(), answer, settlementId: "s" as never },
  });
  const got = await buy(to);
  assert.equal(got.status, 200);
  assert.equal(await got.text(), '{"stored":true}');
  assert.equal(to.relay.runs, 0);
});

test("what a payment is bound to: verb, route, appended path, query and body", async () => {
  await using to = await startTestGateway();
  await buy(to, "/v1/pocket/status", { method: "GET" });
  await buy(to, "/v1/pocket/status", { body: "" });
  await buy(to, "/v1/pocket/status?a", { method: "GET" });
  await buy(to, "/v1/eth");
  await buy(to, "/v1/pocket");
  await buy(to, "/v1/eth", { body: `${CALL} ` });
  await buy(to, "/v1/eth");
  const { hashes } = to.payment;
  assert.equal(hashes.length, 7);
  assert.equal(new Set(hashes).size, 6);
  assert.equal(hashes[3], hashes[6]);
});

test("verbs: 405 with Allow, preflight 204, HEAD on documents", async () => {
  await using to = await startTestGateway();
  for (const method of ["GET", "PUT", "DELETE", "PATCH", "HEAD"]) {
    const answer = await fetch(`${to.url}/v1/eth`, { method });
    assert.equal(answer.status, 405, method);
    assert.equal(answer.headers.get("allow"), "POST, OPTIONS");
  }
  await assertError(await fetch(`${to.url}/v1/pocket/status`, { method: "PUT" }), 405, "VERB_NOT_ALLOWED");
  await assertError(await fetch(`${to.url}/health`, { method: "POST" }), 405, "VERB_NOT_ALLOWED");
  const preflight = await fetch(`${to.url}/v1/pocket/status`, {
    method: "OPTIONS",
    headers: { origin: "https://a.example", "access-control-request-headers": "payment-signature,content-type" },
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers.get("access-control-allow-origin"), "*");
  assert.match(preflight.headers.get("access-control-allow-headers") ?? "", /PAYMENT-SIGNATURE/);
  // @x402/fetch and @x402/axios send it with their paid request, so a browser asks for it.
  assert.match(preflight.headers.get("access-control-allow-headers") ?? "", /Access-Control-Expose-Headers/);
  assert.match(preflight.headers.get("access-control-allow-methods") ?? "", /GET, POST/);
  const head = await fetch(`${to.url}/openapi.json`, { method: "HEAD" });
  assert.equal(head.status, 200);
  assert.ok(Number(head.headers.get("content-length")) > 0);
});

test("discovery: documents with validators, live services, icons, index", async () => {
  await using to = await startTestGateway();
  for (const path of [
    "/openapi.json",
    "/.well-known/x402",
    "/llms.txt",
    "/discovery/resources",
    "/",
    "/icons/eth.svg",
  ]) {
    const first = await fetch(to.url + path);
    assert.equal(first.status, 200, path);
    assert.ok((await first.text()).length > 0);
    const etag = first.headers.get("etag") ?? "";
    const again = await fetch(to.url + path, { headers: { "if-none-match": `W/${etag}, "x"` } });
    assert.equal(again.status, 304, path);
    assert.equal(await again.text(), "");
  }
  assert.equal((await fetch(`${to.url}/icons/eth.svg`)).headers.get("content-type"), "image/svg+xml");
  const list = async (): Promise<unknown> => (await fetch(`${to.url}/services.json`)).json();
  assert.deepEqual(await list(), [
    { id: "eth", serves: true },
    { id: "pocket", serves: true },
  ]);
  to.relay.lacking.set("pocket", ["healthy supplier"]);
  assert.deepEqual(await list(), [
    { id: "eth", serves: true },
    { id: "pocket", serves: false },
  ]);
  await assertError(await fetch(`${to.url}/nothing`), 404, "NOT_FOUND");
});

test("monitoring: health, readiness and what is missing, settlements", async () => {
  let ledger = true;
  const readiness = [{ name: "ledger", ready: async () => ledger }];
  let nowMs = 0;
  const clock = { nowMs: () => Date.now(), monotonicMs: () => nowMs };
  await using to = await startTestGateway({}, { readiness, clock });
  const get = async (path: string): Promise<[number, unknown]> => {
    nowMs += 2_000;
    const answer = await fetch(to.url + path);
    return [answer.status, await answer.json()];
  };
  assert.deepEqual(await get("/health"), [200, { status: "ok" }]);
  assert.deepEqual(await get("/ready"), [200, { ready: true }]);
  assert.deepEqual(await get("/ready/eth"), [200, { ready: true, service: "eth" }]);
  assert.equal((await get("/ready/no-such-service"))[0], 404);
  assert.equal((await get("/ready/__proto__"))[0], 404);
  to.relay.lacking.delete("eth");
  assert.deepEqual(await get("/ready/eth"), [503, { ready: false, service: "eth", missing: ["supplier"] }]);
  to.relay.lacking.clear();
  to.payment.lacking = ["settlement"];
  ledger = false;
  assert.deepEqual(await get("/ready"), [503, { ready: false, missing: ["ledger", "settlement", "service"] }]);
  assert.deepEqual(await get("/health"), [200, { status: "ok" }]);
  assert.equal((await get("/settlements/known"))[0], 200);
  for (const id of ["unknown", "..%2f", "a".repeat(200)]) assert.equal((await get(`/settlements/${id}`))[0], 404);
});

test("metrics: stages, requests and unpaid answers are counted, with labels from fixed sets", async () => {
  await using to = await startTestGateway();
  await buy(to);
  await fetch(`${to.url}/v1/eth`, { method: "POST" });
  await fetch(`${to.url}/v1/${"x".repeat(50)}`, { method: "POST" });
  const answer = await fetch(`${to.metricsUrl}/metrics`);
  const text = await answer.text();
  assert.match(text, /^# TYPE turnpike_gateway_request_seconds histogram$/m);
  assert.match(text, /turnpike_gateway_stage_total\{stage="settle",outcome="settled"\} 1/);
  assert.match(text, /requests_total\{door="paid",service="eth",status="402",result="PAYMENT_REQUIRED"\} 1/);
  assert.match(text, /requests_total\{door="paid",service="unknown",status="404",result="UNKNOWN_SERVICE"\} 1/);
  assert.match(text, /turnpike_gateway_in_flight\{door="paid"\} 0/);
  assert.equal((await fetch(`${to.metricsUrl}/`)).status, 404);
  assert.equal((await fetch(`${to.metricsUrl}/metrics`, { method: "POST" })).status, 405);
  assert.equal((await fetch(`${to.url}/metrics`)).status, 404);
});

test("attack: DNS rebinding: a web page reads no metrics", async () => {
  await using to = await startTestGateway();
  assert.equal(await reboundStatus(Number(new URL(to.metricsUrl).port), "/metrics"), 403);
  assert.equal((await fetch(`${to.metricsUrl}/metrics`, { headers: { origin: "https://evil.example" } })).status, 403);
});

test("over the limit of concurrent requests: 503 with Retry-After, while monitoring and terms still answer", async () => {
  await using to = await startTestGateway({ maxConcurrentRequests: 1 });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  to.relay.answer = async () => {
    reach(undefined);
    await promise;
    return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
  };
  const first = buy(to);
  await reached;
  const second = await buy(to);
  assert.equal(second.headers.get("retry-after"), "1");
  await assertError(second, 503, "OVERLOADED");
  assert.equal((await fetch(`${to.url}/health`)).status, 200);
  assert.equal((await fetch(`${to.url}/v1/eth`, { method: "POST" })).status, 402);
  resolve(undefined);
  assert.equal((await first).status, 503);
});

test("checked answers that wait for their settlement are bounded: beyond that the call is given up, uncharged", async () => {
  await using to = await startTestGateway({ maxHeldAnswerBytes: 10 });
  await assertError(await buy(to), 503, "SERVICE_UNAVAILABLE");
  assert.ok(
    to.payment.calls.some((call) => call.startsWith("release")),
    to.payment.calls.join(),
  );
});

test("the end: requests in flight are answered, then both ports are free", async () => {
  const to = await startTestGateway({ shutdownTimeoutMs: 60_000 });
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  to.relay.answer = async () => {
    reach(undefined);
    await promise;
    return { ok: false, code: "NO_SUPPLIERS", attempts: 0 };
  };
  const first = buy(to);
  await reached;
  const disposed = to.gateway[Symbol.asyncDispose]();
  resolve(undefined);
  assert.equal((await first).status, 503);
  await disposed;
  await assert.rejects(fetch(`${to.url}/health`));
  await assert.rejects(fetch(`${to.metricsUrl}/metrics`));
});

test("the end: work beyond the limit is told to stop, and releases", async () => {
  const to = await startTestGateway({ shutdownTimeoutMs: 20 });
  const { promise: reached, resolve: reach } = Promise.withResolvers<undefined>();
  to.relay.answer = () => {
    reach(undefined);
    return new Promise(() => {});
  };
  const first = buy(to);
  await reached;
  await to.gateway[Symbol.asyncDispose]();
  await assertError(await first, 503, "SHUTTING_DOWN");
  assert.equal(to.payment.calls.at(-1), "release SHUTTING_DOWN");
});

test("a port in use is said to be", async () => {
  await using to = await startTestGateway();
  await assert.rejects(startTestGateway({ port: to.port }), (error: unknown) => isAppError(error, "PORT_IN_USE"));
});
