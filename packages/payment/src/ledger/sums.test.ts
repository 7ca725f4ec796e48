import assert from "node:assert/strict";
import { test } from "node:test";
import { isAppError, type SettlementId } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import {
  ASSET,
  LEDGER,
  leased,
  NETWORK,
  newAnswer,
  newClaim,
  newEvidence,
  newKey,
  newPayer,
  newTransaction,
  openLedger,
  sql,
  testServer,
} from "../../test/ledger-fixtures.ts";
import type { RelayerLease } from "../ledger-types.ts";
import type { PaymentKey, PaymentState } from "../types.ts";
import { auditLedger } from "./audit.ts";

const server = testServer();

const SLOTS = 4;
const BALANCE = 12_000n;

type Operation =
  | { readonly do: "claim"; readonly slot: number; readonly value: bigint }
  | { readonly do: "journal"; readonly slots: readonly number[] }
  | {
      readonly do: "release" | "submit" | "settled" | "failed" | "reorganised" | "disputed" | "owed";
      readonly slot: number;
    };

const slot = fc.nat({ max: SLOTS - 1 });
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant("claim" as const), slot, value: fc.bigInt(1n, 5_000n) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("journal" as const), slots: fc.uniqueArray(slot, { minLength: 1 }) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom("release", "submit", "settled", "failed", "reorganised", "disputed", "owed"),
      slot,
    }),
  },
);

interface Slot {
  readonly key: PaymentKey;
  id: SettlementId | undefined;
  state: PaymentState | undefined;
  value: bigint;
  signed: boolean;
}

// The table of states in types.ts and the comments of ledger-types.ts, written a second time.
const ENTERED_FROM: Readonly<
  Record<"settled" | "failed" | "disputed" | "owed" | "reorganised", readonly PaymentState[]>
> = {
  settled: ["signed", "submitted", "failed", "disputed", "settled"],
  failed: ["signed", "submitted", "failed"],
  disputed: ["settled", "signed", "submitted", "disputed"],
  owed: ["released", "failed", "owed"],
  reorganised: ["settled", "signed", "submitted"],
};

test("after any sequence of calls the sums are those of the model, and the events sum to them", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const lease: RelayerLease = await leased(ledger);
  let nonce = 0;
  const total: Record<string, { count: number; value: bigint }> = {};

  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 25 }), async (operations) => {
      const from = newPayer();
      const slots: Slot[] = Array.from({ length: SLOTS }, () => ({
        key: newKey(from),
        id: undefined,
        state: undefined,
        value: 0n,
        signed: false,
      }));
      const at = (index: number): Slot => slots[index] as Slot;
      const fails = async (work: Promise<unknown>): Promise<boolean> => {
        try {
          await work;
          return false;
        } catch (error) {
          if (!isAppError(error, "INTERNAL") && !isAppError(error, "LEDGER_FENCED")) throw error;
          return true;
        }
      };
      const idOf = (one: Slot): SettlementId => one.id ?? ("stl_none" as SettlementId);

      for (const op of operations) {
        if (op.do === "claim") {
          const one = at(op.slot);
          const reserved = slots.reduce(
            (sum, { state, value }) =>
              sum + (state && !["released", "failed", "disputed"].includes(state) ? value : 0n),
            0n,
          );
          const expected =
            one.state !== undefined && one.state !== "released"
              ? "exists"
              : reserved + op.value > BALANCE
                ? "insufficient"
                : "claimed";
          const result = await ledger.claim(
            newClaim({ key: one.key, value: op.value, balance: BALANCE, balanceBlock: 0n }),
          );
          assert.equal(result.kind, expected);
          if (result.kind === "claimed")
            Object.assign(one, { id: result.id, state: "claimed", value: op.value, signed: false });
        } else if (op.do === "journal") {
          const chosen = op.slots.map(at);
          const items = chosen.map((one, i) => ({
            id: one.id ?? (`stl_none${i}` as SettlementId),
            answer: newAnswer(),
          }));
          const legal = chosen.every((one) => one.state === "claimed");
          const failed = await fails(
            ledger.journal({ lease, nonce, gasLimit: 21_000n, transaction: newTransaction(), items }),
          );
          assert.equal(failed, !legal);
          if (legal) nonce++;
          if (legal) for (const one of chosen) Object.assign(one, { state: "signed", signed: true });
        } else if (op.do === "release") {
          const one = at(op.slot);
          assert.equal(await ledger.release(idOf(one), "SERVICE_UNAVAILABLE"), one.state === "claimed");
          if (one.state === "claimed") one.state = "released";
        } else if (op.do === "submit") {
          const one = at(op.slot);
          assert.equal(await fails(ledger.journalSubmission(idOf(one), newAnswer())), one.state !== "claimed");
          if (one.state === "claimed") one.state = "submitted";
        } else {
          const one = at(op.slot);
          const legal = one.state !== undefined && ENTERED_FROM[op.do].includes(one.state);
          const work =
            op.do === "reorganised"
              ? ledger.reorganised(idOf(one))
              : op.do === "settled" || op.do === "owed"
                ? ledger[op.do](idOf(one), newEvidence(5n))
                : ledger[op.do](idOf(one), "PAYMENT_NONCE_USED");
          assert.equal(await fails(work), !legal, `${op.do} from ${one.state}`);
          if (legal) one.state = op.do === "reorganised" ? (one.signed ? "signed" : "submitted") : op.do;
        }
      }

      for (const { state, value } of slots) {
        if (state === undefined) continue;
        const sum = total[state] ?? { count: 0, value: 0n };
        total[state] = sum;
        sum.count++;
        sum.value += value;
      }
      const [sums, ...others] = await ledger.sums();
      assert.equal(others.length, 0);
      for (const [state, sum] of Object.entries(sums?.states ?? {})) {
        assert.deepEqual(sum, total[state] ?? { count: 0, value: 0n }, state);
      }
      assert.deepEqual(await auditLedger(url, LEDGER), { ok: true, differences: [] });
    }),
    // A smaller case would run on the same ledger, so a failure is shown as it was found.
    { numRuns: 40, endOnFailure: true },
  );
});

test("the audit finds what does not sum", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  const result = await ledger.claim(newClaim());
  assert.ok(result.kind === "claimed");
  await sql(
    url,
    `begin; alter table payments disable trigger payments_event;
    update payments set state = 'released', holder = null; alter table payments enable trigger payments_event; commit`,
  );
  const { ok, differences } = await auditLedger(url, LEDGER);
  assert.equal(ok, false);
  const sums = { network: NETWORK, asset: ASSET, kind: "sum" } as const;
  const [one, none] = [
    { count: 1, value: 5_000n },
    { count: 0, value: 0n },
  ];
  assert.deepEqual(
    differences.toSorted((a, b) => `${a.kind}${a.state}`.localeCompare(`${b.kind}${b.state}`)),
    [
      { kind: "payment", id: result.id, state: "released", eventState: "claimed" },
      { ...sums, state: "claimed", payments: none, events: one },
      { ...sums, state: "released", payments: one, events: none },
    ],
  );
});

test("each asset has sums of its own", async () => {
  const url = await server().database();
  await using ledger = await openLedger(url);
  assert.deepEqual(await ledger.sums(), []);
  const assets = [newPayer(), newPayer()];
  for (const asset of assets) await ledger.claim(newClaim({ key: { ...newKey(), asset }, value: 3n }));
  const sums = await ledger.sums();
  assert.deepEqual(new Set(sums.map(({ asset }) => asset)), new Set(assets));
  for (const { states } of sums) assert.deepEqual(states.claimed, { count: 1, value: 3n });
});
