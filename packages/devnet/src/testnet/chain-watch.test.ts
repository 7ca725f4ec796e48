import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually, startFakeRpc, statusAt, virtualClock } from "@turnpike/testkit";
import { ChainWatch, votesText } from "./chain-watch.ts";

// As a node of four tells it while two others are away.
const CONSENSUS = {
  round_state: {
    "height/round/step": "29/0/6",
    height_vote_set: [
      {
        round: 0,
        prevotes_bit_array: "BA{4:xxxx} 40000/40000 = 1.00",
        precommits_bit_array: "BA{4:x_x_} 20000/40000 = 0.50",
      },
      { round: 1, prevotes_bit_array: "BA{4:____} 0/40000 = 0.00", precommits_bit_array: "BA{4:____} 0/40000 = 0.00" },
    ],
  },
};

suite("the watch on a chain", () => {
  test("says once that the chain stands still, whose votes there are and who is silent, and that it goes on", async () => {
    let looks = 0;
    const statusOf = (height: number) => ({
      get status() {
        looks++;
        return statusAt(height);
      },
      consensus_state: CONSENSUS,
    });
    await using node = await startFakeRpc(statusOf(28));
    const clock = virtualClock();
    const said: string[] = [];
    const nodes = [
      { name: "node0", rpc: node.url },
      // Nothing listens there.
      { name: "node1", rpc: "http://127.0.0.1:1" },
    ];
    await using _watch = new ChainWatch(
      { nodes: () => nodes, everyMs: 1, askMs: 60_000 },
      { clock, onEvent: (text) => said.push(text) },
    );
    /** Resolves when a look that began after this call is over. */
    const looked = (): Promise<true> => {
      const before = looks;
      return eventually("two looks", () => looks >= before + 2);
    };
    await looked();
    clock.advance(9_999);
    await looked();
    assert.deepEqual(said, []);
    clock.advance(1);
    await eventually("that it stands still", () => said.length > 0);
    assert.equal(
      said[0],
      "the chain stands still at block 28 for 10 s; no answer from node1; round 0 of block 29 has prevotes BA{4:xxxx} 40000/40000 = 1.00, precommits BA{4:x_x_} 20000/40000 = 0.50; a block needs more than two thirds of the votes",
    );
    clock.advance(60_000);
    await looked();
    assert.equal(said.length, 1);
    node.answers = statusOf(29);
    await eventually("that it goes on", () => said.length > 1);
    assert.equal(said[1], "the chain goes on with block 29 after 70 s");
    await looked();
    assert.equal(said.length, 2);
  });

  test("votes of what is no consensus state are none", () => {
    assert.equal(votesText(CONSENSUS).includes("precommits BA{4:x_x_}"), true);
    for (const junk of [undefined, null, 7, {}, { round_state: [] }, { round_state: { height_vote_set: {} } }]) {
      assert.equal(votesText(junk), "");
    }
  });
});
