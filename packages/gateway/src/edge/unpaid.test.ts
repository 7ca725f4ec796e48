import assert from "node:assert/strict";
import { request } from "node:http";
import { suite, test } from "node:test";
import type { ErrorCode, SettlementId } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import { paymentHeader, receipt, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";
import type { GatewayOptions } from "../types.ts";

/** What a test sets beside a call: who it is from. */
interface From {
  readonly localAddress?: string;
  readonly forwarded?: string;
}

interface Reply {
  readonly status: number;
  readonly code: string | undefined;
  readonly retryAfter: string | undefined;
}

const CALL = '{"method":"eth_blockNumber"}';
const RULE = { burst: 20, perSecond: 1 };

/** One paid call; without a header it asks for the terms. */
function send(to: TestGateway, from: From = {}, header: string | null = paymentHeader()): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const headers = {
    ...(header === null ? {} : { "payment-signature": header }),
    ...(from.forwarded === undefined ? {} : { "x-forwarded-for": from.forwarded }),
  };
  const { localAddress = "127.0.0.1" } = from;
  const sent = request(`${to.url}/v1/eth`, { method: "POST", headers, localAddress, agent: false }, (res) => {
    const parts: Buffer[] = [];
    res.on("data", (part: Buffer) => parts.push(part));
    res.on("end", () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as { code?: string; error?: string };
      const code = body.code ?? body.error?.split(":")[0];
      resolve({ status: res.statusCode ?? 0, code, retryAfter: res.headers["retry-after"] });
    });
  });
  sent.on("error", reject);
  sent.end(CALL);
  return promise;
}

const terms = (to: TestGateway): Promise<Reply> => send(to, {}, null);

async function each<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < count; at++) all.push(await work());
  return all;
}

async function start(change: Partial<GatewayOptions> = {}) {
  const clock = virtualClock();
  const to = await startTestGateway({ unpaidPerClient: RULE, ...change }, { clock });
  return { to, clock };
}

const refuse =
  (code: ErrorCode): NonNullable<TestGateway["payment"]["admission"]> =>
  () => ({ kind: "refused", ok: false, code });

const fail = (code: ErrorCode) => async () => ({ ok: false, code, attempts: 1 }) as const;

suite("calls that present a payment and do not pay", { concurrency: true }, () => {
  test("refused payments: then 429 and Retry-After, for that client alone, and nothing of it is looked at", async () => {
    const { to, clock } = await start();
    await using _ = to;
    to.payment.admission = refuse("PAYMENT_INSUFFICIENT_FUNDS");
    assert.deepEqual(new Set((await each(20, () => send(to))).map(({ status }) => status)), new Set([402]));
    const asked = to.payment.calls.length;
    const limited = await each(5, () => send(to));
    assert.deepEqual(
      limited,
      limited.map(() => ({ status: 429, code: "PAYMENT_RATE_LIMITED", retryAfter: "1" })),
    );
    assert.equal(to.payment.calls.length, asked);
    assert.equal((await terms(to)).status, 402, "the terms are no payment");
    to.payment.admission = undefined;
    assert.equal((await send(to, { localAddress: "127.0.0.2" })).status, 200, "another client buys");
    clock.advance(1_000);
    assert.equal((await send(to)).status, 200);
    assert.match(
      await (await fetch(`${to.metricsUrl}/metrics`)).text(),
      /turnpike_gateway_limited_total\{limit="unpaid"\} 5/,
    );
  });

  for (const code of ["DEADLINE_EXCEEDED", "ANSWER_TOO_LARGE", "SUPPLIERS_FAILED", "SUPPLIERS_UNREACHABLE"] as const) {
    test(`calls that end with ${code} are not free without bound`, async () => {
      const { to } = await start();
      await using _ = to;
      to.relay.answer = fail(code);
      assert.ok((await each(20, () => send(to))).every(({ status }) => status === 503));
      assert.equal((await send(to)).code, "PAYMENT_RATE_LIMITED");
      assert.equal(to.relay.runs, 20);
    });
  }

  test("malformed payments, and bodies that are no call, count as well", async () => {
    const { to } = await start();
    await using _ = to;
    assert.ok((await each(20, () => send(to, {}, "not base64!"))).every(({ status }) => status === 400));
    assert.equal((await send(to)).code, "PAYMENT_RATE_LIMITED");
  });

  test("what we are the cause of does not count", async () => {
    const { to } = await start();
    await using _ = to;
    for (const code of ["SETTLEMENT_UNAVAILABLE", "LEDGER_UNAVAILABLE", "OVERLOADED", "SHUTTING_DOWN"] as const) {
      to.payment.admission = refuse(code);
      assert.ok(
        (await each(25, () => send(to))).every((reply) => reply.code === code),
        code,
      );
    }
    to.payment.admission = undefined;
    to.relay.answer = fail("OVERLOADED");
    assert.ok((await each(25, () => send(to))).every(({ status }) => status === 503));
    assert.equal(to.relay.runs, 25);
  });

  test("at once: one client holds no more places than its tokens, and the others are served", async () => {
    const { to } = await start({ maxConcurrentRequests: 100 });
    await using _ = to;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    to.payment.outcome = async (body) => {
      await released;
      const answer = { contentType: "application/json", body };
      return { kind: "settled", receipt: receipt(), answer, settlementId: "s" as SettlementId };
    };
    let refused = 0;
    const attack = Array.from({ length: 200 }, async () => {
      const { code } = await send(to);
      if (code === "PAYMENT_RATE_LIMITED") refused++;
    });
    // All before one that is served returns its token: a slow machine reads them in turn.
    await eventually("each runs or is refused", () => to.relay.runs + refused >= 200);
    assert.deepEqual([to.relay.runs, refused], [20, 180]);
    const other = send(to, { localAddress: "127.0.0.2" });
    await eventually("another client's call runs", () => to.relay.runs === 21);
    release();
    assert.equal((await other).status, 200);
    await Promise.all(attack);
    assert.equal(refused, 180);
  });

  test("a buyer that pays is never refused, nor one that asks for the terms, however often", async () => {
    const { to } = await start();
    await using _ = to;
    const buyer = async (): Promise<Reply[]> => each(30, () => send(to));
    const bought = (await Promise.all(Array.from({ length: 10 }, buyer))).flat();
    assert.deepEqual(new Set(bought.map(({ status }) => status)), new Set([200]));
    assert.deepEqual(
      new Set((await each(100, () => terms(to))).map(({ code }) => code)),
      new Set(["Payment required"]),
    );
    // What it has paid for lets as many calls fail.
    to.relay.answer = fail("DEADLINE_EXCEEDED");
    assert.ok((await each(100, () => send(to))).every(({ status }) => status === 503));
  });

  test("a pending settlement counts until it settles; a stored answer that is fetched again pays nothing", async () => {
    const { to } = await start();
    await using _ = to;
    const settlementId = "stl" as SettlementId;
    const pending = { kind: "pending", receipt: receipt(), retryAfterSeconds: 2, settlementId } as const;
    const answer = { contentType: "application/json", body: Buffer.from("{}") };
    const settled = { kind: "settled", receipt: receipt(), answer, settlementId } as const;
    to.payment.outcome = () => pending;
    await send(to);
    to.payment.admission = () => ({ kind: "outcome", outcome: pending });
    await each(18, () => send(to));
    to.payment.admission = () => ({ kind: "outcome", outcome: settled });
    assert.equal((await send(to)).status, 200);
    const again = await each(25, () => send(to));
    assert.equal(again.filter(({ status }) => status === 200).length, 21, "what it cost came back, once");
  });

  test("a payer's own limit shows when it may come again", async () => {
    const { to } = await start();
    await using _ = to;
    to.payment.admission = () => ({ kind: "refused", ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds: 17 });
    assert.deepEqual(await send(to), { status: 429, code: "PAYMENT_RATE_LIMITED", retryAfter: "17" });
  });

  test("clients behind a trusted proxy are distinguished, IPv6 by /64; the header of an untrusted peer changes nothing", async () => {
    const { to } = await start({ trustedProxies: ["127.0.0.1"], unpaidPerClient: { burst: 1, perSecond: 1 } });
    await using _ = to;
    to.payment.admission = refuse("PAYMENT_SIGNATURE_INVALID");
    const statusOf = async (from: From): Promise<number> => (await send(to, from)).status;
    assert.equal(await statusOf({ forwarded: "192.0.2.1" }), 402);
    assert.equal(await statusOf({ forwarded: "192.0.2.1" }), 429);
    assert.equal(await statusOf({ forwarded: "192.0.2.2" }), 402);
    assert.equal(await statusOf({ forwarded: "2001:db8:1:1::1" }), 402);
    assert.equal(await statusOf({ forwarded: "2001:db8:1:1::2" }), 429);
    assert.equal(await statusOf({ forwarded: "2001:db8:1:2::1" }), 402);
    assert.equal(await statusOf({ forwarded: "192.0.2.3", localAddress: "127.0.0.3" }), 402);
    assert.equal(await statusOf({ forwarded: "192.0.2.4", localAddress: "127.0.0.3" }), 429);
  });
});
