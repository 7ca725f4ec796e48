import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { changedGenesis, exportOf, startChanged } from "./genesis-variants.ts";
import {
  errorText,
  type HistoryFailure,
  historyText,
  makeGround,
  readHistory,
  runAfterGenesis,
  runDrawnHistory,
  runHistory,
  shrink,
  Tally,
} from "./history.ts";
import { HANDLERS } from "./live-chain.ts";
import { PLAUSIBLE } from "./plausible.ts";

const SEED = process.env.FUZZ_SEED ?? "1";
const NUM_GROUNDS = 4;
const NUM_HISTORIES = 25;
/** A history in so many is queried, exported and imported at its end. */
const LOOKED_AT = 4;
const NUM_GENESES = 30;

const explained = ({ history, error }: HistoryFailure): string => `${errorText(error)}\n${historyText(history)}`;

suite("generated histories", () => {
  test("every message type has a maker of plausible messages", () => {
    const { actors, staking, authority } = PLAUSIBLE;
    const typeUrls = [...actors.keys(), ...staking.keys(), ...authority.keys()].toSorted();
    assert.deepEqual(typeUrls, [...HANDLERS.keys()].toSorted());
  });

  test("a block never throws, and all supplies are exact", () => {
    const tally = new Tally();
    for (let index = 0; index < NUM_GROUNDS; index++) {
      const seed = `${SEED}/${index}`;
      const ground = { seed, chain: makeGround(seed) };
      for (let branch = 0; branch < NUM_HISTORIES; branch++) {
        const name = `${seed}/${branch}`;
        const options = branch % LOOKED_AT === 0 ? { tally, finalSeed: name } : { tally };
        const { failure } = runDrawnHistory(ground, name, options);
        assert.equal(failure, undefined, failure === undefined ? "" : explained(shrink(ground.chain, failure)));
      }
    }
    // The histories are not idle.
    for (const name of ["step accepted", "step refused"]) assert.ok(tally.sum(name) > 50, name);
    for (const name of ["tokenomics.EventClaimSettled", "tokenomics.EventClaimExpired", "proof.EventProofSubmitted"]) {
      assert.ok(tally.sum(`pocket.${name}`) > 0, name);
    }
  });

  test("a changed genesis is refused, or its chain goes on", () => {
    const ground = makeGround(`genesis ${SEED}`);
    const exported = exportOf(ground);
    const counts = { refused: 0, accepted: 0 };
    for (let index = 0; index < NUM_GENESES; index++) {
      const changed = changedGenesis(exported, `${SEED}/${index}`);
      if (changed === undefined) continue;
      const chain = startChanged(changed, ground);
      counts[chain === undefined ? "refused" : "accepted"]++;
      if (chain === undefined) continue;
      const error = runAfterGenesis(chain, `${SEED}/${index}`, new Tally());
      assert.equal(error, undefined, `genesis ${SEED}/${index}: ${errorText(error)}`);
    }
    assert.ok(counts.refused > 0 && counts.accepted > 0, JSON.stringify(counts));
  });

  test("a history that is written and read again runs as it did", () => {
    const seed = `${SEED}/text`;
    const chain = makeGround(seed);
    const { history } = runDrawnHistory({ seed, chain }, seed, { tally: new Tally() });
    assert.ok(history.steps.length > 0);
    const again = readHistory(historyText(history));
    assert.deepEqual(again, history);
    assert.equal(runHistory(chain, again), undefined);
  });
});
