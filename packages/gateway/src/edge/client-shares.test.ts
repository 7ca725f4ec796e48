import assert from "node:assert/strict";
import { request } from "node:http";
import { suite, test } from "node:test";
import type { Outcome } from "@turnpike/payment";
import { eventually } from "@turnpike/testkit";
import { paymentHeader, receipt, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

interface Reply {
  readonly status: number;
  readonly retryAfter: string | undefined;
}

interface Call {
  /** Address that a trusted proxy names. */
  readonly client: string;
  readonly payer?: string;
  /** White space in the body. */
  readonly padding?: number;
}

function send(to: TestGateway, { client, payer = client, padding = 0 }: Call): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const headers = { "payment-signature": paymentHeader({ from: payer }), "x-forwarded-for": client };
  const sent = request(`${to.url}/v1/eth`, { method: "POST", headers, agent: false }, (res) => {
    res.resume();
    res.on("end", () => resolve({ status: res.statusCode ?? 0, retryAfter: res.headers["retry-after"] }));
  });
  sent.on("error", reject);
  sent.end(`{"method":"eth_blockNumber"${" ".repeat(padding)}}`);
  return promise;
}

/** Settlements that end when the test says so. */
function heldOutcomes(to: TestGateway) {
  const ended = Promise.withResolvers<void>();
  const held = { count: 0, end: () => ended.resolve() };
  to.payment.outcome = async (body): Promise<Outcome> => {
    held.count++;
    await ended.promise;
    const answer = { contentType: "application/json", body };
    return { kind: "settled", receipt: receipt(), answer, settlementId: "s" as never };
  };
  return held;
}

const PROXIED = { trustedProxies: ["127.0.0.1"] };
const LIMITED = { status: 429, retryAfter: "1" };
const statusesOf = async (replies: readonly Promise<Reply>[]): Promise<number[]> =>
  (await Promise.all(replies)).map(({ status }) => status);

suite("one client behind a trusted proxy", () => {
  test("attack: has a quarter of the paid calls under way, and leaves the others to other clients", async () => {
    await using to = await startTestGateway({ ...PROXIED, maxConcurrentRequests: 40 });
    const held = heldOutcomes(to);
    const attack = Array.from({ length: 10 }, () => send(to, { client: "192.0.2.1" }));
    await eventually("its places are taken", () => held.count === 10);
    assert.deepEqual(await send(to, { client: "192.0.2.1" }), LIMITED);
    const honest = send(to, { client: "192.0.2.2" });
    await eventually("another client's call is served", () => held.count === 11);
    held.end();
    assert.deepEqual(new Set(await statusesOf([...attack, honest])), new Set([200]));
    assert.equal((await send(to, { client: "192.0.2.1" })).status, 200);
  });

  test("attack: the clients of one /48 have half of the paid calls under way", async () => {
    await using to = await startTestGateway({ ...PROXIED, maxConcurrentRequests: 40 });
    const held = heldOutcomes(to);
    const clientOf = (at: number): string => `2001:db8:1:${at.toString(16)}::1`;
    const attack = Array.from({ length: 20 }, (_, at) => send(to, { client: clientOf(at) }));
    await eventually("its places are taken", () => held.count === 20);
    assert.deepEqual(await send(to, { client: clientOf(20) }), LIMITED);
    held.end();
    assert.deepEqual(new Set(await statusesOf(attack)), new Set([200]));
  });

  test("attack: holds a quarter of the bytes of bodies", async () => {
    await using to = await startTestGateway({ ...PROXIED, maxBufferedBytes: 1_048_576 });
    const held = heldOutcomes(to);
    const attack = [200_000, 60_000].map((padding) => send(to, { client: "192.0.2.1", padding }));
    await eventually("its bytes are held", () => held.count === 2);
    assert.deepEqual(await send(to, { client: "192.0.2.1", padding: 60_000 }), LIMITED);
    const honest = send(to, { client: "192.0.2.2", padding: 200_000 });
    await eventually("another client's call is served", () => held.count === 3);
    held.end();
    assert.deepEqual(new Set(await statusesOf([...attack, honest])), new Set([200]));
  });

  test("attack: holds a quarter of the bytes of answers that are not settled yet, and is refused before a supplier works", async () => {
    await using to = await startTestGateway({ ...PROXIED, maxHeldAnswerBytes: 8 * 1_048_576 });
    const held = heldOutcomes(to);
    to.relay.answer = () => JSON.stringify({ jsonrpc: "2.0", id: 1, result: "x".repeat(1_048_576) });
    const attack = send(to, { client: "192.0.2.1" });
    await eventually("its share is held", () => held.count === 1);
    const more = [send(to, { client: "192.0.2.1" }), send(to, { client: "192.0.2.1" })];
    assert.deepEqual(await Promise.all(more), [LIMITED, LIMITED]);
    assert.deepEqual(
      await send(to, { client: "192.0.2.3", payer: "192.0.2.1" }),
      LIMITED,
      "its payer at another client",
    );
    assert.equal(to.relay.runs, 1, "no supplier worked for them");
    to.relay.answer = () => '{"jsonrpc":"2.0","id":1,"result":"0x10"}';
    const honest = send(to, { client: "192.0.2.2" });
    await eventually("another client's call is served", () => held.count === 2);
    held.end();
    assert.deepEqual(await statusesOf([attack, honest]), [200, 200]);
  });
});
