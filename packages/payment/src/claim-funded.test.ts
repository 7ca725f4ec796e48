import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { createFundedClaims } from "./claim-funded.ts";
import type { ClaimResult } from "./ledger-types.ts";
import type { Verification, VerifiedPayment } from "./types.ts";

const verified = {
  balance: 1n,
  payment: { option: { network: "eip155:1", asset: "0xa" }, authorization: { from: "0xF" } },
} as unknown as VerifiedPayment;
const UNSETTLED: ClaimResult = { kind: "insufficient", unsettled: true };
const CLAIMED = { kind: "claimed", id: "s" } as ClaimResult;

/** Claims that end one after another as told; the chain is looked at again in between. */
function run(
  claims: readonly ClaimResult[],
  looks: readonly Verification[] = [],
  limit = new AbortController().signal,
  claimFunded = createFundedClaims(),
) {
  const seen: bigint[] = [];
  let at = 0;
  let look = 0;
  const result = claimFunded(verified, {
    async claim({ balance }) {
      seen.push(balance);
      return claims[at++] ?? UNSETTLED;
    },
    verify: async () => looks[look++] ?? { ok: true, ...verified, balance: BigInt(look) * 100n },
    pollMs: 1,
    limit: () => limit,
  });
  return { result, seen };
}

test("a claim that is taken, or cannot be, is not tried again", async () => {
  for (const claim of [CLAIMED, { kind: "insufficient", unsettled: false } as const]) {
    const { result, seen } = run([claim]);
    assert.deepEqual(await result, { ok: true, claim, verified });
    assert.deepEqual(seen, [1n]);
  }
});

test("while settlements are under way it is tried again, with what the chain says then", async () => {
  const { result, seen } = run([UNSETTLED, UNSETTLED, CLAIMED]);
  const ended = await result;
  assert.ok(ended.ok);
  assert.equal(ended.claim, CLAIMED);
  assert.equal(ended.verified.balance, 200n);
  assert.deepEqual(seen, [1n, 100n, 200n]);
});

test("a later look at the chain may refuse the payment", async () => {
  const refusal = { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" } as const;
  const { result } = run([UNSETTLED], [refusal]);
  assert.deepEqual(await result, refusal);
});

test("the waiting ends with its limit", async () => {
  const stop = new AbortController();
  const { result, seen } = run([], [], stop.signal);
  await eventually("it is tried again and again", () => seen.length >= 3);
  stop.abort();
  const ended = await result;
  assert.ok(ended.ok);
  assert.deepEqual(ended.claim, UNSETTLED);
});

test("of one payer only so many wait; the others are refused at once", async () => {
  const stop = new AbortController();
  const claims = createFundedClaims();
  const waiting = Array.from({ length: 32 }, () => run([], [], stop.signal, claims).result);
  // Those have made their first claim when this one, begun after them, has.
  const { result, seen } = run([], [], stop.signal, claims);
  assert.deepEqual(await result, { ok: true, claim: UNSETTLED, verified });
  assert.deepEqual(seen, [1n]);
  stop.abort();
  await Promise.all(waiting);
  const later = run([UNSETTLED, CLAIMED], [], new AbortController().signal, claims);
  const ended = await later.result;
  assert.ok(ended.ok);
  assert.equal(ended.claim, CLAIMED);
});
