import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Any, application, authz, bank, createMessage, packAny } from "@turnpike/proto";
import { GROUND_STATE, SIGNERS } from "../../test/generated/actors.ts";
import { LiveChain, machine } from "../../test/generated/live-chain.ts";
import { ALL_COINS } from "../state/spending.ts";

suite("facts of transactions", () => {
  test("attack: coins that a transaction takes from others by their grants are among those that it may take", () => {
    const [faucet, dao] = [SIGNERS.faucet.address, SIGNERS.dao.address];
    const sendOf = (fromAddress: string, amounts: readonly string[]): Any => {
      const amount = amounts.map((one) => ({ denom: "upokt", amount: one }));
      return packAny(bank.MsgSendSchema, createMessage(bank.MsgSendSchema, { fromAddress, toAddress: dao, amount }));
    };
    const execOf = (msgs: Any[]): Any =>
      packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: faucet, msgs }));
    const unstake = createMessage(application.MsgUnstakeApplicationSchema, { address: dao });
    const spendsOf = (...messages: Any[]): [string, bigint][] => {
      const fee = [{ denom: "upokt", amount: 400n }];
      const tx = LiveChain.start(GROUND_STATE).sign({ signer: "faucet", messages, gasLimit: 1_000n, fee, memo: "" });
      const facts = machine.factsOf(tx);
      assert.deepEqual([facts?.feePayer, facts?.feeUpokt], [faucet, 400n]);
      return [...(facts?.spends ?? [])];
    };
    assert.deepEqual(spendsOf(sendOf(faucet, ["5"]), sendOf(faucet.toUpperCase(), ["7"])), [[faucet, 12n]]);
    // An amount below zero takes nothing, and gives nothing.
    assert.deepEqual(spendsOf(execOf([sendOf(dao, ["9", "-8"]), execOf([sendOf(faucet, ["1"])])])), [
      [dao, 9n],
      [faucet, 1n],
    ]);
    const inner = packAny(application.MsgUnstakeApplicationSchema, unstake);
    assert.deepEqual(spendsOf(execOf([inner])), [[dao, ALL_COINS]]);
  });
});
