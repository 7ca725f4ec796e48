import assert from "node:assert/strict";
import { test } from "node:test";
import type { SettlementId } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import type { Outcome, Receipt } from "./types.ts";
import { endOutcome, type UnpaidAttempt, UnpaidLimit, type UnpaidRule } from "./unpaid-limit.ts";

function limitOf(rule: UnpaidRule) {
  const clock = virtualClock();
  const limit = new UnpaidLimit(() => rule, { clock });
  return { clock, limit };
}

function begun(limit: UnpaidLimit, key = "a"): UnpaidAttempt {
  const attempt = limit.begin(key);
  assert.ok(attempt.ok, `${key} has no token`);
  return attempt;
}

const left = (limit: UnpaidLimit, key = "a"): number => {
  let count = 0;
  const taken: UnpaidAttempt[] = [];
  for (let attempt = limit.begin(key); attempt.ok; attempt = limit.begin(key)) {
    taken.push(attempt);
    count++;
  }
  for (const attempt of taken) attempt.excused();
  return count;
};

test("attack: attempts that end in nothing, however long they take and however many they are, earn no tokens", () => {
  const { clock, limit } = limitOf({ burst: 3, perSecond: 1 });
  for (let round = 0; round < 5; round++) {
    const attempts = [begun(limit), begun(limit), begun(limit)];
    clock.advance(10_000);
    attempts.push(begun(limit), begun(limit));
    for (const attempt of attempts) attempt.excused();
  }
  assert.equal(left(limit), 3);
  begun(limit).paid();
  assert.equal(left(limit), 4, "what was earned is put back");
  const attempts = [begun(limit), begun(limit), begun(limit)];
  clock.advance(10_000);
  for (const attempt of attempts) attempt.excused();
  assert.equal(left(limit), 4);
});

test("paid calls earn one token each, however long they take", () => {
  const { clock, limit } = limitOf({ burst: 3, perSecond: 1 });
  const attempts = [begun(limit), begun(limit), begun(limit)];
  clock.advance(10_000);
  // What came by time is counted when the bucket is looked at.
  assert.equal(limit.waitSeconds("a"), 0);
  for (const attempt of attempts) attempt.paid();
  assert.equal(left(limit), 6);
});

test("a token that came by time while an unpaid call was out is not taken from the others under way", () => {
  const { clock, limit } = limitOf({ burst: 3, perSecond: 1 });
  const [unpaid, ...others] = [begun(limit), begun(limit), begun(limit)];
  clock.advance(1_000);
  assert.equal(limit.waitSeconds("a"), 0);
  unpaid?.unpaid();
  for (const attempt of others) attempt.excused();
  assert.equal(left(limit), 2, "3 less the call's token and one for its second, and one that came by time");
});

test("a token for each attempt under way or unpaid; by time they come back, up to the burst", () => {
  const { clock, limit } = limitOf({ burst: 3, perSecond: 0.5 });
  const attempts = [begun(limit), begun(limit), begun(limit)];
  assert.deepEqual(limit.begin("a"), { ok: false, waitSeconds: 2 });
  assert.equal(limit.waitSeconds("b"), 0);
  for (const attempt of attempts) attempt.unpaid();
  assert.equal(limit.waitSeconds("a"), 2);
  clock.advance(2_000);
  assert.equal(left(limit), 1);
  clock.advance(3_600_000);
  assert.equal(left(limit), 3);
});

test("what is paid earns a token, what we are the cause of costs none; only the first end counts", () => {
  const { limit } = limitOf({ burst: 2, perSecond: 1 });
  for (let call = 0; call < 10; call++) {
    const attempt = begun(limit);
    attempt.paid();
    attempt.unpaid();
    attempt.paid();
  }
  assert.equal(left(limit), 12);
  const failed = begun(limit);
  failed.excused();
  failed.unpaid();
  assert.equal(left(limit), 12);
});

test("an unpaid call costs a token more for each second; no wait is longer than a minute", () => {
  const { clock, limit } = limitOf({ burst: 100, perSecond: 1 });
  // So that nothing comes back in between.
  const earlier = Array.from({ length: 60 }, () => begun(limit));
  clock.advance(20_000);
  for (const attempt of earlier.slice(0, 2)) attempt.unpaid();
  assert.equal(left(limit), 100 - 60 + 20 - 40);
  for (const attempt of earlier.slice(2)) attempt.unpaid();
  assert.equal(limit.waitSeconds("a"), 60);
});

test("a pending settlement that settles later gives back what it cost, once", () => {
  const { clock, limit } = limitOf({ burst: 50, perSecond: 0.001 });
  const id = "stl_1" as SettlementId;
  const receipt: Receipt = { success: true, transaction: "0x", network: "eip155:1", payer: "0x" } as unknown as Receipt;
  const pending: Outcome = { kind: "pending", receipt, retryAfterSeconds: 2, settlementId: id };
  const answer = { contentType: "application/json", body: new Uint8Array() };
  const settled: Outcome = { kind: "settled", receipt, answer, settlementId: id };
  const own = begun(limit);
  clock.advance(20_000);
  endOutcome(limit, own, pending, true);
  endOutcome(limit, begun(limit), pending, false);
  assert.equal(left(limit), 28);
  endOutcome(limit, begun(limit), settled, false);
  assert.equal(left(limit), 51);
  // To fetch the stored answer once more pays nothing.
  endOutcome(limit, begun(limit), settled, false);
  assert.equal(left(limit), 50);
});

test("property: unpaid ends are no more than the burst, what came back by time, and what was paid", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("begin" as const) }),
    fc.record({ kind: fc.constantFrom("paid" as const, "unpaid" as const, "excused" as const), at: fc.nat(50) }),
    fc.record({ kind: fc.constant("pass" as const), ms: fc.nat(5_000) }),
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 5 }),
      fc.array(step),
      (burst, rate, steps) => {
        const { clock, limit } = limitOf({ burst, perSecond: rate });
        const underWay: UnpaidAttempt[] = [];
        let [paid, unpaid] = [0, 0];
        for (const one of steps) {
          if (one.kind === "begin") {
            const attempt = limit.begin("a");
            if (attempt.ok) underWay.push(attempt);
          } else if (one.kind === "pass") clock.advance(one.ms);
          else {
            const [attempt] = underWay.splice(one.at % Math.max(1, underWay.length), 1);
            attempt?.[one.kind]();
            if (attempt !== undefined && one.kind === "paid") paid++;
            if (attempt !== undefined && one.kind === "unpaid") unpaid++;
          }
          const most = burst + (clock.monotonicMs() / 1_000) * rate + paid;
          assert.ok(unpaid + underWay.length <= most, `${unpaid} + ${underWay.length} of ${most}`);
        }
      },
    ),
  );
});

test("property: who pays for each call is never refused, however many are under way within the burst", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), fc.array(fc.nat(100), { maxLength: 200 }), (burst, pauses) => {
      const { clock, limit } = limitOf({ burst, perSecond: 1 });
      const underWay: UnpaidAttempt[] = [];
      for (const ms of pauses) {
        if (underWay.length === burst) underWay.shift()?.paid();
        underWay.push(begun(limit));
        clock.advance(ms);
      }
    }),
  );
});

test("memory is bounded: of 120,000 keys the last are known", () => {
  const { limit } = limitOf({ burst: 1, perSecond: 0.001 });
  for (let key = 0; key < 120_000; key++) begun(limit, `k${key}`).unpaid();
  assert.equal(limit.waitSeconds("k0"), 0);
  assert.ok(limit.waitSeconds("k119999") > 0);
});

test("attack: clients of one /48 have four times the tokens of one together, and get those of a pending payment back", () => {
  const { limit } = limitOf({ burst: 3, perSecond: 0.001 });
  const clientOf = (at: number): string => `2001:db8:1:${at.toString(16)}::/64`;
  for (let at = 0; at < 12; at++) begun(limit, clientOf(at)).unpaid(`payment ${at}`);
  const refused = limit.begin(clientOf(12));
  assert.ok(!refused.ok && refused.waitSeconds > 0);
  assert.equal(left(limit, "2001:db8:2:0::/64"), 3, "another site");
  assert.equal(left(limit, "192.0.2.1"), 3);
  assert.equal(limit.settled("payment 0"), true);
  assert.equal(left(limit, clientOf(12)), 1);
  assert.equal(left(limit, clientOf(12)), 1, "a token that its site lacks is not spent");
});
