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
    const spendsOf = (...messages: Any[]): [string, bigint, ...string[]][] => {
      const fee = [{ denom: "upokt", amount: 400n }];
      const tx = LiveChain.start(GROUND_STATE).sign({ signer: "faucet", messages, gasLimit: 1_000n, fee, memo: "" });
      const facts = machine.factsOf(tx);
      assert.deepEqual([facts?.feePayer, facts?.feeUpokt], [faucet, 400n]);
      const byGrant = facts?.grantedSpends ?? [];
      return [
        ...(facts?.spends ?? []),
        ...byGrant.map(({ account, upokt, grants }): [string, bigint, ...string[]] => [
          account,
          upokt,
          ...grants.map(({ granter, grantee, typeUrl }) => `${granter} > ${grantee}: ${typeUrl}`),
        ]),
      ];
    };
    assert.deepEqual(spendsOf(sendOf(faucet, ["5"]), sendOf(faucet.toUpperCase(), ["7"])), [[faucet, 12n]]);
    // An amount below zero takes nothing, and gives nothing.
    assert.deepEqual(spendsOf(execOf([sendOf(dao, ["9", "-8"]), execOf([sendOf(faucet, ["1"])])])), [
      [faucet, 1n],
      [dao, 9n, `${dao} > ${faucet}: /cosmos.bank.v1beta1.MsgSend`],
    ]);
    const inner = packAny(application.MsgUnstakeApplicationSchema, unstake);
    const grant = `${dao} > ${faucet}: /pocket.application.MsgUnstakeApplication`;
    assert.deepEqual(spendsOf(execOf([inner])), [[dao, ALL_COINS, grant]]);
    // What one who is named as a grantee inside may do needs the grants on the way.
    const nested = createMessage(authz.MsgExecSchema, {
      grantee: dao,
      msgs: [sendOf(SIGNERS.delegator.address, ["3"])],
    });
    assert.deepEqual(spendsOf(execOf([packAny(authz.MsgExecSchema, nested)])), [
      [
        SIGNERS.delegator.address,
        3n,
        `${SIGNERS.delegator.address} > ${dao}: /cosmos.bank.v1beta1.MsgSend`,
        `${dao} > ${faucet}: /cosmos.authz.v1beta1.MsgExec`,
      ],
    ]);
  });
});
