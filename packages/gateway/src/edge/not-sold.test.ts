import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServiceId, SettlementId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { EarlierAdmission, Outcome } from "@turnpike/payment";
import { openRaw, virtualClock } from "@turnpike/testkit";
import { gatewayOptions } from "../../test/options.ts";
import { option, paymentHeader, receipt, service, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const CALL = '{"method":"eth_blockNumber"}';
const SETTLED: Outcome = {
  kind: "settled",
  receipt: receipt(),
  answer: { contentType: "application/json", body: Buffer.from('{"stored":true}') },
  settlementId: "s" as SettlementId,
};
const outcome = (one: Outcome) => (): EarlierAdmission => ({ kind: "outcome", outcome: one });

interface Asked {
  readonly method?: string;
  readonly body?: string | null;
  readonly header?: string | null;
}

function ask(to: TestGateway, path: string, { method = "POST", body = CALL, header = paymentHeader() }: Asked = {}) {
  const headers = header === null ? {} : { "payment-signature": header };
  return fetch(to.url + path, { method, headers, body: method === "GET" ? null : body });
}

/** Puts another catalogue into effect, as when the rule of sale has changed. */
async function serve(to: TestGateway, services: readonly Service[]): Promise<void> {
  const byId = new Map(services.map((one) => [one.id, one]));
  const catalogue = { services: byId, get: (id: string) => byId.get(id as ServiceId) };
  const parts = { catalogue, relay: to.relay, options: [option] };
  await to.gateway.replace({ ...gatewayOptions, shutdownTimeoutMs: 500 }, parts).released;
}

test("attack: a charged buyer gets the stored answer of a service that is off sale, and of one that has gone", async () => {
  await using to = await startTestGateway();
  const paths = ["/v1/eth", "/v1/pocket/status?a=1"];
  for (const path of paths) assert.equal((await ask(to, path)).status, 200);
  const bought = [...to.payment.hashes];
  to.payment.earlier = (hash) => (bought.includes(hash) ? outcome(SETTLED)() : undefined);
  to.payment.calls.length = 0;
  const { runs } = to.relay;
  const states: readonly (readonly Service[])[] = [
    [service("eth", { paid: false }), service("pocket", { paid: false, families: ["cosmos"] })],
    [service("pocket", { operations: new Map() }), service("eth", { operations: new Map() })],
    [service("other")],
  ];
  for (const services of states) {
    await serve(to, services);
    for (const path of paths.slice(0, services.some(({ paid, id }) => paid && id === "pocket") ? 1 : 2)) {
      const answer = await ask(to, path);
      const { headers } = answer;
      assert.deepEqual([answer.status, await answer.text()], [200, '{"stored":true}']);
      assert.deepEqual(JSON.parse(atob(headers.get("payment-response") ?? "")), receipt());
      assert.equal(headers.get("cache-control"), "private");
      const otherwise = services.some(({ paid, id }) => paid && `/v1/${id}` === path) ? 400 : 404;
      assert.equal((await ask(to, path, { body: `${CALL} ` })).status, otherwise, "another body");
    }
  }
  assert.equal(to.relay.runs, runs, "nothing was run again");
  assert.deepEqual([...new Set(to.payment.calls)].sort(), ["decode", "earlier"], "nothing was admitted or settled");
});

test("attack: a browser's charged buyer may send its payment again, too: it asks first", async () => {
  await using to = await startTestGateway();
  const verbs: readonly (readonly [string, string])[] = [
    ["/v1/nothing", "POST, OPTIONS"],
    ["/v1/nothing/status", "GET, POST, OPTIONS"],
    ["/v1/pocket/gone", "GET, POST, OPTIONS"],
  ];
  for (const [path, allowed] of verbs) {
    const { status, headers } = await fetch(to.url + path, {
      method: "OPTIONS",
      headers: { origin: "https://shop.example", "access-control-request-headers": "payment-signature" },
    });
    assert.deepEqual([status, headers.get("access-control-allow-methods")], [204, allowed], path);
    assert.match(headers.get("access-control-allow-headers") ?? "", /payment-signature/i);
  }
  assert.equal((await fetch(`${to.url}/v1/a.b`, { method: "OPTIONS" })).status, 404);
});

test("attack: a path that is not listed any more still gives its buyer the stored answer", async () => {
  await using to = await startTestGateway();
  to.payment.earlier = outcome(SETTLED);
  const answer = await ask(to, "/v1/pocket/gone", { method: "GET" });
  assert.deepEqual([answer.status, await answer.text()], [200, '{"stored":true}']);
  to.payment.earlier = undefined;
  assert.equal((await ask(to, "/v1/pocket/gone", { method: "GET" })).status, 404);
  assert.equal(to.relay.runs, 0);
});

test("what is under way, failed or cannot be looked up has the status that it has while it is sold; a 402 offers nothing", async () => {
  await using to = await startTestGateway();
  const settlementId = "s" as SettlementId;
  const open = receipt({ success: false, errorReason: "settlement_pending" });
  to.payment.earlier = outcome({ kind: "pending", receipt: open, retryAfterSeconds: 7, settlementId });
  const pending = await ask(to, "/v1/nothing");
  assert.deepEqual([pending.status, pending.headers.get("retry-after")], [503, "7"]);
  assert.match(await pending.text(), /"SETTLEMENT_PENDING"/);
  assert.deepEqual(JSON.parse(atob(pending.headers.get("payment-response") ?? "")), open);

  to.payment.earlier = outcome({ kind: "expired", code: "PAYMENT_OWED", receipt: receipt(), settlementId });
  assert.equal((await ask(to, "/v1/nothing")).status, 410);

  const lost = receipt({ success: false, errorReason: "settlement_failed" });
  to.payment.earlier = outcome({ kind: "failed", code: "PAYMENT_NONCE_USED", receipt: lost, settlementId });
  const failed = await ask(to, "/v1/nothing");
  const body = await failed.text();
  assert.equal(failed.status, 402);
  assert.deepEqual(JSON.parse(atob(failed.headers.get("payment-response") ?? "")), lost);
  assert.equal(atob(failed.headers.get("payment-required") ?? ""), body);
  const { error, ...terms } = JSON.parse(body) as { error: string };
  assert.match(error, /^PAYMENT_NONCE_USED: /);
  assert.deepEqual(terms, { x402Version: 2, resource: { url: `${to.url}/v1/nothing` }, accepts: [] });

  to.payment.earlier = () => ({ kind: "refused", ok: false, code: "LEDGER_UNAVAILABLE" });
  assert.equal((await ask(to, "/v1/nothing")).status, 503);
});

test("attack: a stranger learns nothing: 404 as without a payment, and garbage costs no look into the ledger", async () => {
  await using to = await startTestGateway();
  const textOf = async (answer: Response): Promise<string> => {
    assert.equal(answer.status, 404);
    assert.equal(answer.headers.get("payment-response"), null);
    return (await answer.text()).replace(/"requestId":"[^"]*"/, "");
  };
  const unpaid = await textOf(await ask(to, "/v1/nothing", { header: null }));
  assert.equal(await textOf(await ask(to, "/v1/nothing")), unpaid);
  assert.deepEqual(to.payment.calls, ["decode", "earlier"], "the payment was looked up, and not admitted");
  to.payment.calls.length = 0;
  to.payment.earlier = outcome(SETTLED);
  for (const header of ["not base64!", "", btoa("[]"), "!".repeat(20_000)]) {
    assert.equal(await textOf(await ask(to, "/v1/nothing", { header })), unpaid);
  }
  const long = "x".repeat(64);
  for (const path of ["/v1/", "/v1/a.b", "/v1/a%62", `/v1/${long}`]) await textOf(await ask(to, path));
  await textOf(await ask(to, "/v1/nothing", { method: "GET" }));
  await textOf(await ask(to, "/v1/nothing/status", { method: "PUT" }));
  assert.ok(!to.payment.calls.includes("earlier"), String(to.payment.calls));
  assert.equal(to.relay.runs, 0);
});

test("attack: presented payments for what is not sold count as those that do not pay, and their bodies are bounded", async () => {
  await using to = await startTestGateway({ unpaidPerClient: { burst: 4, perSecond: 1 } }, { clock: virtualClock() });
  await using raw = await openRaw(to.port);
  const head = `POST /v1/nothing HTTP/1.1\r\nHost: a\r\nPAYMENT-SIGNATURE: ${paymentHeader()}\r\n`;
  raw.write(`${head}Content-Length: 1048577\r\n\r\n`);
  const [large] = await raw.next();
  assert.equal(large?.status, 413);
  assert.equal((await ask(to, "/v1/nothing", { body: "x".repeat(1_048_576) })).status, 404);
  assert.equal((await ask(to, "/v1/nothing")).status, 404);
  assert.equal((await ask(to, "/v1/nothing", { header: "garbage" })).status, 404);
  to.payment.calls.length = 0;
  to.payment.earlier = outcome(SETTLED);
  const limited = await ask(to, "/v1/nothing");
  assert.equal(limited.status, 429);
  assert.match(await limited.text(), /"PAYMENT_RATE_LIMITED"/);
  assert.deepEqual(to.payment.calls, []);
  assert.equal((await ask(to, "/v1/nothing", { header: null })).status, 404);
});
