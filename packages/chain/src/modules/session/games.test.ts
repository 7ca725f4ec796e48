import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { type Move, NUM_MOVES, playGame, worthOf } from "../../../test/session-games.ts";

/** Games of each kind; more for a long run. */
const GAMES = Number(process.env.SESSION_GAMES ?? 12);

const MOVE: fc.Arbitrary<Move> = fc.record({
  kind: fc.nat(NUM_MOVES - 1),
  who: fc.nat(9),
  to: fc.nat(11),
  amount: fc.nat(23),
});
const HEIGHTS = fc.array(fc.array(MOVE, { maxLength: 4 }), { minLength: 12, maxLength: 22, size: "max" });

suite("games over sessions", () => {
  for (const proveAll of [false, true]) {
    test(`whatever anybody does at any height, each relay that was sure of its pay is paid (proofs: ${proveAll})`, () => {
      const accepted = new Map<number, number>();
      let relays = 0n;
      fc.assert(
        fc.property(HEIGHTS, fc.nat(0xffff), (heights, seed) => {
          const game = playGame({ proveAll, single: false }, heights, seed);
          game.checkPay();
          for (const [kind, count] of game.accepted) accepted.set(kind, (accepted.get(kind) ?? 0) + count);
          for (const { work } of game.served.values()) relays += work.relays;
        }),
        { numRuns: GAMES },
      );
      assert.ok(relays > 10n * BigInt(GAMES), `only ${relays} relays were served`);
      assert.ok(accepted.size >= NUM_MOVES - 2, `only moves ${[...accepted.keys()].join()} were accepted`);
    });
  }

  test("one party that is application, gateway, supplier, owner and validator never gains by dealing with itself", () => {
    fc.assert(
      fc.property(HEIGHTS, fc.nat(0xffff), (heights, seed) => {
        const oldWorth = { upokt: 0n };
        const game = playGame({ proveAll: false, single: true }, heights, seed, (begun) => {
          oldWorth.upokt = worthOf(begun, begun.dealer);
        });
        assert.ok(worthOf(game, game.dealer) <= oldWorth.upokt);
      }),
      { numRuns: GAMES },
    );
  });
});
