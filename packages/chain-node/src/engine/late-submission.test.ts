import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { NODE, sendTx, testGenesis, testMachine, tickingClock, VALIDATOR } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { openEmbeddedNode } from "./open-embedded-node.ts";

suite("a transaction that comes while a block is made", () => {
  // Once the block is written, checks are on the state after it: one that was checked there must not be checked again.
  for (const at of ["embedded.built", "embedded.ran", "embedded.committed"]) {
    test(`at ${at}, is in the next one`, async () => {
      await using folder = await scratchFolder();
      const reached = Promise.withResolvers<void>();
      const held = Promise.withResolvers<void>();
      const reach = (name: string): Promise<void> | undefined => {
        if (name !== at) return undefined;
        reached.resolve();
        return held.promise;
      };
      await using node = await openEmbeddedNode(
        { folder: folder.path, genesis: testGenesis(), moniker: "test", version: "0.1.35" },
        {
          machine: testMachine(),
          validatorSigner: VALIDATOR,
          nodeSigner: NODE,
          clock: tickingClock(),
          faults: { reach },
        },
      );
      node.submit(sendTx({ from: 0, sequence: 0n }));
      const making = node.produceBlock();
      await reached.promise;
      const late = sendTx({ from: 0, sequence: 1n });
      const sent = node.submit(late);
      assert.deepEqual(sent.kind === "checked" ? [sent.result.code, sent.result.log] : sent, [0, ""]);
      held.resolve();
      const first = await making;
      const second = await node.produceBlock();
      assert.deepEqual([first.block.txs.length, second.block.txs], [1, [late]]);
    });
  }
});
