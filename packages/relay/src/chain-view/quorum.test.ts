import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { ChainView, type ViewMember } from "./chain-view.ts";

const LIE = 1_000_000;
const HONEST = 20_000_000;
const SYNC_ALLOWANCE = 25;

const quorumOf = (voters: number): number => Math.floor(voters / 2) + 1;

function membersOf(operators: readonly string[]): readonly ViewMember[] {
  return operators.map((operator) => ({ operator, isProbed: true }));
}

/** A view of a gateway that has just started: it knows its suppliers, and has heard none. */
function startedView(operators: readonly string[]): ChainView {
  const view = new ChainView({ syncAllowanceBlocks: SYNC_ALLOWANCE });
  view.setMembers(membersOf(operators));
  return view;
}

interface Hearing {
  readonly operator: string;
  readonly height: number;
  readonly isLie: boolean;
}

/** A set of three to nine operators, fewer than a quorum of which lie, in the order in which they are heard. */
const hearings = fc
  .integer({ min: 3, max: 9 })
  .chain((size) =>
    fc.record({
      size: fc.constant(size),
      liars: fc.integer({ min: 1, max: quorumOf(size) - 1 }),
      lie: fc.oneof(
        fc.constantFrom(LIE, -LIE, 1, 2 ** 50 - HONEST, 1_000, -1_000),
        fc.integer({ min: -HONEST, max: LIE }),
      ),
      order: fc.shuffledSubarray(
        Array.from({ length: size }, (_, at) => at),
        { minLength: size, maxLength: size },
      ),
      spread: fc.array(fc.nat(3), { minLength: size, maxLength: size }),
    }),
  )
  .map(({ size, liars, lie, order, spread }) => ({
    size,
    liars,
    heard: order.map((at): Hearing => {
      const isLie = at < liars;
      const height = HONEST + (spread[at] ?? 0) + (isLie ? lie : 0);
      return { operator: `${isLie ? "liar" : "honest"}${at}`, height: Math.max(0, height), isLie };
    }),
  }));

suite("a quorum of the set", () => {
  test("fewer operators never set the height nor get the calls, in whatever order all are heard", () => {
    fc.assert(
      fc.property(hearings, ({ size, heard }) => {
        const view = startedView(heard.map(({ operator }) => operator));
        const honest: number[] = [];
        const honestOperators: string[] = [];
        for (const { operator, height, isLie } of heard) {
          view.reported(operator, height, 0);
          view.sawFinal(operator, height, 0);
          if (!isLie) {
            honest.push(height);
            honestOperators.push(operator);
          }
          const tip = view.tip(0);
          const state = `tip ${tip} after ${operator} of ${heard.map((one) => `${one.operator} ${one.height}`).join()}`;
          // With fewer than half honest above the lie, and all within the allowance, which one it is does not matter.
          const isFar = Math.abs(height - HONEST) > SYNC_ALLOWANCE || !isLie;
          if (tip !== undefined && isFar) assert.ok(Math.abs(tip - HONEST) <= SYNC_ALLOWANCE + 3, state);
          if (honest.length >= quorumOf(size)) assert.ok(tip !== undefined, state);
          for (const one of honestOperators) assert.equal(view.isBehind(one, 0), false, state);
          const final = view.final(0);
          assert.ok(final === undefined || final <= HONEST + SYNC_ALLOWANCE + 3, `final ${final}, ${state}`);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("fewer operators do not set the height by answers, growth and silence over minutes", () => {
    const step = fc.record({ who: fc.nat(6), waitMs: fc.nat(9_000), isLost: fc.integer({ min: 0, max: 9 }) });
    const lies = fc.constantFrom(LIE, 5_000, 2 ** 40);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), lies, (steps, lie) => {
        const operators = Array.from({ length: 7 }, (_, at) => `op${at}`);
        const view = startedView(operators);
        let nowMs = 0;
        const heardAtMs = new Map<string, number>();
        for (const { who, waitMs, isLost } of steps) {
          nowMs += waitMs;
          const height = HONEST + Math.floor(nowMs / 12_000);
          // Two of seven lie, and are never late.
          for (const liar of ["op0", "op1"]) {
            view.reported(liar, height + lie, nowMs);
            view.wasServed(height + lie, nowMs);
          }
          if (who >= 2 && isLost > 0) {
            view.reported(`op${who}`, height, nowMs);
            heardAtMs.set(`op${who}`, nowMs);
          }
          // Five of seven are heard again and again, from when each is heard first.
          for (const [operator, atMs] of heardAtMs) {
            if (nowMs - atMs > 60_000) view.reported(operator, height, nowMs);
          }
          const honest = heardAtMs.size;
          const tip = view.tip(nowMs);
          if (honest >= 3) assert.ok(tip === undefined || tip <= height + 64, `${tip} of ${height}`);
          if (honest >= 4) {
            assert.ok(tip !== undefined && tip <= height, `${tip} of ${height}`);
            assert.equal(view.mayServe(height + lie, nowMs), false);
            for (let at = 2; at < 7; at++) assert.equal(view.isBehind(`op${at}`, nowMs), false);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
