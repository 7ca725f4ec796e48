import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { proof, typeUrlOf } from "@turnpike/proto";
import { chanceOf } from "@turnpike/testkit/chance";
import { fc } from "@turnpike/testkit/property";
import { FIRST_HEIGHT, Game, NUM_HEIGHTS, playGame, worthOf } from "../../../test/session-games.ts";
import { KINDS, LEFT_OUT, MOVES, type Move, REFUSED, WRAPPER } from "../../../test/session-moves.ts";

/** Games of each kind; more for a long run. */
const GAMES = Number(process.env.SESSION_GAMES ?? 6);
const MOVES_PER_HEIGHT = 4;
const MAX_TRIES = 16;
/** Parts of a session's life: blocks of the session, and of its windows. */
const PARTS = ["first block", "under way", "last block", "before claims", "claims", "proofs", "settlement"] as const;

const MOVE: fc.Arbitrary<Move> = fc.record({
  kind: fc.nat(MOVES.length - 1),
  who: fc.nat(9),
  to: fc.nat(11),
  amount: fc.nat(23),
});
const HEIGHTS = fc.array(fc.array(MOVE, { maxLength: MOVES_PER_HEIGHT }), {
  minLength: 12,
  maxLength: NUM_HEIGHTS,
  size: "max",
});

/** Games that make each kind of move once at each height, together. */
function movesOfEveryHeight(): Move[][][] {
  const chance = chanceOf("moves of every height");
  const games = Array.from({ length: Math.ceil(KINDS.length / MOVES_PER_HEIGHT) }, (): Move[][] => []);
  for (let at = 0; at < NUM_HEIGHTS; at++) {
    const kinds = KINDS.map((_, kind) => ({ kind, order: chance.below(1e6) })).sort((a, b) => a.order - b.order);
    for (const [i, game] of games.entries()) {
      const kindsOfGame = kinds.slice(i * MOVES_PER_HEIGHT, (i + 1) * MOVES_PER_HEIGHT);
      game[at] = kindsOfGame.map(({ kind }) => ({
        kind,
        who: chance.below(10),
        to: chance.below(12),
        amount: chance.below(24),
      }));
    }
  }
  return games;
}

/** Parts of sessions' lives in which a message must be accepted: all, but of what has a window, and of what the chain refuses. */
function partsToAccept(typeUrl: string): readonly string[] {
  if (REFUSED.has(typeUrl)) return [];
  if (typeUrl === typeUrlOf(proof.MsgCreateClaimSchema)) return ["claims"];
  return typeUrl === typeUrlOf(proof.MsgSubmitProofSchema) ? ["proofs"] : PARTS;
}

suite("games over sessions", () => {
  test("every message type that the chain serves is in the games, or is left out for a reason", () => {
    const types = new Set([...KINDS.map(({ schema }) => typeUrlOf(schema)), WRAPPER, ...LEFT_OUT.keys()]);
    const { handlers } = new Game({ proveAll: false, single: false }).chain;
    assert.deepEqual([...types].toSorted(), [...handlers.keys()].toSorted());
  });

  test("each type of message is made at every height, and accepted in every part of a session's life", () => {
    const accepted = new Map<string, Set<string>>();
    for (const [i, heights] of movesOfEveryHeight().entries()) {
      const options = { proveAll: i % 2 === 0, single: false, kinds: KINDS, maxTries: MAX_TRIES };
      const game = playGame(options, heights, i * 2_654_435);
      game.checkPay();
      for (const [typeUrl, parts] of game.acceptedParts) {
        accepted.set(typeUrl, new Set([...(accepted.get(typeUrl) ?? []), ...parts]));
      }
    }
    const missing = [...new Set([...KINDS.map(({ schema }) => typeUrlOf(schema)), WRAPPER])].flatMap((typeUrl) =>
      partsToAccept(typeUrl).flatMap((part) =>
        accepted.get(typeUrl)?.has(part) === true ? [] : [`${typeUrl}: ${part}`],
      ),
    );
    assert.deepEqual(missing, []);
    for (const typeUrl of REFUSED) assert.equal(accepted.get(typeUrl), undefined, typeUrl);
  });

  for (const proveAll of [false, true]) {
    test(`whatever anybody does at any height, each relay that was sure of its pay is paid (proofs: ${proveAll})`, () => {
      let relays = 0n;
      fc.assert(
        fc.property(HEIGHTS, fc.nat(0xffff), (heights, seed) => {
          const game = playGame({ proveAll, single: false }, heights, seed);
          game.checkPay();
          for (const { work } of game.served.values()) relays += work.relays;
        }),
        { numRuns: GAMES },
      );
      assert.ok(relays > 10n * BigInt(GAMES), `only ${relays} relays were served`);
    });
  }

  test("the order of a block's messages changes neither what a relay earns nor who gets it", () => {
    let relays = 0n;
    fc.assert(
      fc.property(HEIGHTS, fc.nat(0xffff), fc.nat(NUM_HEIGHTS - 1), fc.boolean(), (heights, seed, at, proveAll) => {
        const height = FIRST_HEIGHT + BigInt(at);
        const options = { proveAll, single: false, lastServedHeight: height };
        const game = playGame(options, heights, seed);
        const reversed = playGame({ ...options, reversedHeight: height }, heights, seed);
        game.checkPay();
        reversed.checkPay();
        assert.deepEqual(reversed.earnings(), game.earnings());
        for (const { work } of game.served.values()) relays += work.relays;
      }),
      { numRuns: GAMES },
    );
    assert.ok(relays > 5n * BigInt(GAMES), `only ${relays} relays were served`);
  });

  for (const isDao of [false, true]) {
    const parts = `application, gateway, supplier, owner and validator${isDao ? ", and the DAO," : ""}`;
    test(`one party that is ${parts} gains by dealing with itself at most what parameters mint beyond what is burned`, () => {
      let sumUpokt = 0n;
      fc.assert(
        fc.property(HEIGHTS, fc.nat(0xffff), (heights, seed) => {
          const old = { worthUpokt: 0n };
          const onBegin = (begun: Game): void => {
            old.worthUpokt = worthOf(begun, begun.dealer);
          };
          const game = playGame({ proveAll: false, single: true, isDao, onBegin }, heights, seed);
          const { settledUpokt, mintedUpokt, inflationUpokt } = game.totals;
          // The mint ratio is at most 1: a claim mints at most its inflation beyond what is burned, and its application pays
          // the same to the DAO.
          assert.ok(mintedUpokt <= settledUpokt);
          const most = mintedUpokt - settledUpokt + (isDao ? inflationUpokt : 0n);
          const gained = worthOf(game, game.dealer) - old.worthUpokt;
          assert.ok(gained <= most, `gained ${gained} upokt, and may gain ${most}`);
          sumUpokt += settledUpokt;
        }),
        { numRuns: GAMES },
      );
      assert.ok(sumUpokt > 0n);
    });
  }
});
