import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { FundedClaims } from "./funded-claims.ts";
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
  results: readonly ClaimResult[],
  looks: readonly Verification[] = [],
  limit = new AbortController().signal,
  claims = new FundedClaims(8),
  payment = verified,
  mayWait = true,
) {
  const seen: bigint[] = [];
  let at = 0;
  let look = 0;
  const result = claims.claim(payment, {
    async claim({ balance }) {
      seen.push(balance);
      return results[at++] ?? UNSETTLED;
    },
    mayWait: async () => mayWait,
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

test("attack: what waits for settlements that are still to be made is not tried again", async () => {
  const { result, seen } = run([UNSETTLED], [], undefined, new FundedClaims(8), verified, false);
  assert.deepEqual(await result, { ok: true, claim: UNSETTLED, verified });
  assert.deepEqual(seen, [1n]);
});

test("a verification that the limit ends is the end of the waiting, and no fault", async () => {
  const stop = new AbortController();
  const { promise: limited, reject } = Promise.withResolvers<Verification>();
  stop.signal.addEventListener("abort", () => reject(stop.signal.reason));
  let looks = 0;
  const result = new FundedClaims(8).claim(verified, {
    claim: async () => UNSETTLED,
    mayWait: async () => true,
    verify() {
      looks++;
      return limited;
    },
    pollMs: 1,
    limit: () => stop.signal,
  });
  await eventually("the chain is asked", () => looks > 0);
  stop.abort();
  assert.deepEqual(await result, { ok: true, claim: UNSETTLED, verified });
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

test("of one payer half of the places ask again; those behind wait for one in their order, and have half of all places to wait", async () => {
  const [stop, leave] = [new AbortController(), new AbortController()];
  const claims = new FundedClaims(8);
  const asking = Array.from({ length: 4 }, () => run([], [], stop.signal, claims));
  await eventually("4 ask again", () => asking.every(({ seen }) => seen.length > 1));
  const order: number[] = [];
  const behind = Array.from({ length: 4 }, (_, at) => {
    const begun = run([UNSETTLED, CLAIMED], [], at === 1 ? leave.signal : new AbortController().signal, claims);
    void begun.result.then(() => order.push(at));
    return begun;
  });
  // Begun after them: they have made their first claim when this has.
  const refused = run([], [], new AbortController().signal, claims);
  assert.deepEqual(await refused.result, { ok: true, claim: UNSETTLED, verified });
  assert.deepEqual(refused.seen, [1n]);
  assert.ok(behind.every(({ seen }) => seen.length === 1));
  leave.abort();
  assert.deepEqual(await behind[1]?.result, { ok: true, claim: UNSETTLED, verified });
  assert.deepEqual(order, [1]);
  stop.abort();
  for (const at of [0, 2, 3]) {
    const ended = await behind[at]?.result;
    assert.ok(ended?.ok);
    assert.equal(ended.claim, CLAIMED);
  }
  const later = await run([UNSETTLED, CLAIMED], [], new AbortController().signal, claims).result;
  assert.ok(later.ok);
  assert.equal(later.claim, CLAIMED);
});

test("attack: many payers with long lines hold no more requests than may ask again and wait over all payers", async () => {
  const stop = new AbortController();
  const claims = new FundedClaims(8);
  const begin = (from: string, count: number) => {
    const payment = { ...verified.payment, authorization: { ...verified.payment.authorization, from } };
    return Array.from({ length: count }, () =>
      run([], [], stop.signal, claims, { ...verified, payment } as VerifiedPayment),
    );
  };
  const all = ["0x1", "0x2", "0x3"].flatMap((from) => begin(from, 40));
  let refused = 0;
  for (const { result } of all) void result.then(() => refused++);
  await eventually("what has no place is refused at once", () => refused === 120 - 16);
  stop.abort();
  await Promise.all(all.map(({ result }) => result));
});
