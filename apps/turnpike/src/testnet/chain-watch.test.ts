import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { systemClock } from "@turnpike/base";
import { startFakeRpc, statusAt } from "../../test/testnet-rpc.ts";
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

suite("the watch on a chain", { timeout: 60_000 }, () => {
  test("says once that the chain stands still, whose votes there are and who is silent, and that it goes on", async () => {
    await using node = await startFakeRpc({ status: statusAt(28), consensus_state: CONSENSUS });
    const said: string[] = [];
    let heard = Promise.withResolvers<void>();
    const onEvent = (text: string): void => {
      said.push(text);
      heard.resolve();
    };
    const nodes = [
      { name: "node0", rpc: node.url },
      // Nothing listens there.
      { name: "node1", rpc: "http://127.0.0.1:1" },
    ];
    await using _watch = new ChainWatch(
      { nodes: () => nodes, standMs: 200, everyMs: 20 },
      { clock: systemClock, onEvent },
    );
    await heard.promise;
    assert.match(
      said[0] ?? "",
      /^the chain stands still at block 28 for \d+ s; no answer from node1; round 0 of block 29 has prevotes BA\{4:xxxx\} 40000\/40000 = 1\.00, precommits BA\{4:x_x_\} 20000\/40000 = 0\.50; a block needs more than two thirds of the votes$/,
    );
    heard = Promise.withResolvers();
    node.answers = { status: statusAt(29) };
    await heard.promise;
    assert.match(said[1] ?? "", /^the chain goes on with block 29 after \d+ s$/);
    assert.equal(said.length, 2);
  });

  test("votes of what is no consensus state are none", () => {
    assert.equal(votesText(CONSENSUS).includes("precommits BA{4:x_x_}"), true);
    for (const junk of [undefined, null, 7, {}, { round_state: [] }, { round_state: { height_vote_set: {} } }]) {
      assert.equal(votesText(junk), "");
    }
  });
});
