import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError } from "@turnpike/base";
import { memoryJournal, type SpendOutcome } from "@turnpike/client";
import { fc } from "@turnpike/testkit/property";
import { McpSession, microOf, usdOf } from "./mcp-session.ts";

const REQUEST = { service: "eth", request: undefined };
const TOTAL = { totalMicroUsd: undefined, service: "eth" };

/** A payment that says when it ends, in seconds since the Unix epoch. */
const paymentUntil = (validBefore: number, nonce: number): string =>
  Buffer.from(
    JSON.stringify({
      accepted: { network: "eip155:1", asset: "0x0" },
      payload: { authorization: { from: "0x1", value: "1", validBefore: String(validBefore), nonce } },
    }),
  ).toString("base64");

function ticking() {
  let now = 1_000_000;
  const clock = { nowMs: () => now, monotonicMs: () => now };
  return {
    clock,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test("attack: what is charged and held never exceeds the session's budget, whatever calls do at once", async () => {
  const outcomes = fc.constantFrom<SpendOutcome | "unsigned" | "forgotten">(
    "charged",
    "uncharged",
    "unserved",
    "open",
    "unsigned",
    "forgotten",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.bigInt({ min: 0n, max: 60n }), outcomes), { maxLength: 30 }),
      async (calls) => {
        const { clock } = ticking();
        const journal = memoryJournal({ clock });
        const session = new McpSession({ perCallMicroUsd: 50n, perSessionMicroUsd: 200n }, { journal });
        let signed = 0n;
        await Promise.all(
          calls.map(async ([microUsd, outcome], at) => {
            const record = session.startCall("buy", REQUEST);
            try {
              const reservation = await record.journal.reserve({ ...TOTAL, requestHash: String(at), microUsd });
              assert.ok(microUsd <= 50n);
              if (outcome === "unsigned") return;
              await reservation.signed(paymentUntil(2_000, at));
              signed += microUsd;
              if (outcome !== "forgotten") await reservation.end(outcome);
            } catch (error) {
              assert.ok(isAppError(error, "BUDGET_SPENT") || isAppError(error, "SPEND_CAP"));
            } finally {
              record.close();
            }
          }),
        );
        assert.ok(signed <= 200n);
        assert.equal(
          session.spending().usedMicroUsd,
          signed,
          "nothing that was signed is given back before it has expired",
        );
      },
    ),
  );
});

test("what was refused is given back when the chain shows it unused, and not before; what was used is charged", async () => {
  for (const [end, left] of [
    ["void", 50n],
    ["charged", 0n],
  ] as const) {
    const { clock, pass } = ticking();
    const journal = memoryJournal({ clock });
    const session = new McpSession({ perCallMicroUsd: 50n, perSessionMicroUsd: 50n }, { journal });
    const record = session.startCall("buy", REQUEST);
    const reservation = await record.journal.reserve({ ...TOTAL, requestHash: "a", microUsd: 50n });
    await reservation.signed(paymentUntil(1_030, 1));
    await reservation.end("uncharged");
    assert.equal(record.state, "uncharged");
    pass(89_000);
    assert.deepEqual(journal.expired(), [], "it can still be taken");
    pass(3_600_000);
    assert.equal(session.spending().remainingMicroUsd, 0n, "time alone gives nothing back");
    // As the client of another session of the same journal finds it.
    for (const refused of journal.expired()) await refused.end(end);
    assert.equal(await reservation.ended, end);
    const { remainingMicroUsd, heldMicroUsd } = session.spending();
    assert.deepEqual([remainingMicroUsd, heldMicroUsd], [left, 0n]);
  }
});

test("a payment that cannot be written down is not sent, and its part is given back", async () => {
  const { clock } = ticking();
  const journal = memoryJournal({
    clock,
    faults: { reach: async (point) => (point === "journal.sign" ? Promise.reject(new Error("disk full")) : undefined) },
  });
  const session = new McpSession({ perCallMicroUsd: 50n, perSessionMicroUsd: 50n }, { journal });
  const record = session.startCall("buy", REQUEST);
  const reservation = await record.journal.reserve({ ...TOTAL, requestHash: "a", microUsd: 50n });
  await assert.rejects(reservation.signed(paymentUntil(1_030, 1)));
  record.close();
  assert.equal(record.state, "unsigned");
  assert.equal(session.spending().usedMicroUsd, 0n);
});

test("a call that resumes cannot reserve, so it cannot sign", async () => {
  const { clock } = ticking();
  const session = new McpSession(
    { perCallMicroUsd: 50n, perSessionMicroUsd: 50n },
    { journal: memoryJournal({ clock }) },
  );
  const record = session.startCall("resume", REQUEST);
  await assert.rejects(record.journal.reserve({ ...TOTAL, requestHash: "a", microUsd: 1n }), (error) =>
    isAppError(error, "NOT_FOUND"),
  );
  assert.equal(session.spending().usedMicroUsd, 0n);
});

test("amounts are rounded up to micro-units", () => {
  assert.equal(microOf("0.005"), 5_000n);
  assert.equal(microOf("0.0000001"), 1n);
  assert.equal(usdOf(5_000n), "0.005000");
});
