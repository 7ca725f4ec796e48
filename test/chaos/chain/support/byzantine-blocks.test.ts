import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { getAccount } from "../../../../packages/chain/src/modules/auth/accounts.ts";
import { parseAddress } from "../../../../packages/chain/src/state/addresses.ts";
import { SIGNERS } from "../../../../packages/chain/test/generated/actors.ts";
import { makeGround } from "../../../../packages/chain/test/generated/history.ts";
import { sendStep, USUAL } from "../../../../packages/chain/test/generated/steps.ts";
import { BYZANTINE_BLOCKS } from "./byzantine-blocks.ts";

suite("blocks of a byzantine proposer, when they are delivered after all", () => {
  const ground = makeGround("byzantine");
  const address = parseAddress(SIGNERS.faucet.address);
  const account = address.ok ? getAccount(ground.context(), address.value) : undefined;
  const signed = { signer: SIGNERS.faucet, accountNumber: account?.base.accountNumber ?? 0n, chainId: "pocket" };
  for (const [kind, make] of Object.entries(BYZANTINE_BLOCKS)) {
    test(`${kind}: a code for each transaction, and the next block as ever`, () => {
      const chain = ground.branch();
      const { heightBlocks, timeNanos } = chain.nextBlock();
      const txs = [chain.sign(sendStep("spare-1", "spare-2", 1n))];
      chain.run(make({ heightBlocks, timeNanos, txs }, signed));
      const { results } = chain.run([chain.sign({ ...sendStep("spare-1", "spare-3", 1n), ...USUAL })]);
      assert.deepEqual([results[0]?.code, results[0]?.log], [0, ""]);
    });
  }
});
