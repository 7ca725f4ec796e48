import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, cosmosSign, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import { bank, createMessage, encodeMessage, packAny, signing, tx as txs, typeUrlOf } from "@turnpike/proto";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import { StateMachine } from "../app/state-machine.ts";
import { packAccountKey } from "../modules/auth/account-keys.ts";
import { createAccount, getAccount } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import type { BlockInfo, Context, ExecutionMode } from "../state/context.ts";
import { GasMeter } from "../state/gas.ts";
import { messageHandler } from "../state/module.ts";
import { Overlay } from "../state/overlay.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const key = privateKeyFromSecret(Buffer.from("a"));
const signer = accountAddress(cosmosPublicKey(key));
const authority = moduleAddress("gov");
const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 7n,
  timeNanos: 0n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};

/** A chain one of whose messages throws. */
function machineThatThrows(run: () => never): StateMachine {
  const handler = messageHandler(bank.MsgSendSchema, bank.MsgSendResponseSchema, {
    signers: ({ fromAddress }) => [fromAddress],
    run,
  });
  return new StateMachine({ gasPrices: [] }, [
    authModule({ moduleAccounts: { fee_collector: [] }, authority }),
    bankModule({ blocked: new Set(), authority }),
    { name: "broken", messages: { [typeUrlOf(bank.MsgSendSchema)]: handler } },
  ]);
}

const contextOf = (state: Overlay): Context => ({ block, mode: "query", state, gas: new GasMeter(), events: [] });

function newState(machine: StateMachine): Overlay {
  const state = new Overlay(EMPTY);
  const { changes } = machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, {});
  for (const [name, value] of changes) if (value !== undefined) state.set(name, value);
  createAccount(contextOf(state), bytesOfAddress(signer));
  return state;
}

function signedTx(): Uint8Array {
  const send = createMessage(bank.MsgSendSchema, { fromAddress: signer, toAddress: signer });
  const bodyBytes = encodeMessage(
    txs.TxBodySchema,
    createMessage(txs.TxBodySchema, { messages: [packAny(bank.MsgSendSchema, send)] }),
  );
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [
        {
          publicKey: packAccountKey({ kind: "single", key: cosmosPublicKey(key) }),
          modeInfo: { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } },
        },
      ],
      fee: { gasLimit: 500_000n },
    }),
  );
  const document = createMessage(txs.SignDocSchema, {
    bodyBytes,
    authInfoBytes,
    chainId: block.chainId,
    accountNumber: 1n,
  });
  const signature = cosmosSign(encodeMessage(txs.SignDocSchema, document), key);
  return encodeMessage(
    txs.TxRawSchema,
    createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] }),
  );
}

const overflow = (): never => {
  overflow();
  throw new TypeError("not reached");
};
const readsNothing = (): never => {
  readFileSync("/nowhere/at/all");
  throw new TypeError("not reached");
};
const isWrong = (): never => {
  throw new TypeError("a fault of the program");
};

suite("errors of JavaScript in a transaction", () => {
  for (const [what, run] of [
    ["the stack's end", overflow],
    ["a failed read", readsNothing],
  ] as const) {
    test(`${what}, which other machines may not meet, stops the block and leaves no result`, () => {
      const machine = machineThatThrows(run);
      const state = newState(machine);
      assert.throws(() => machine.runBlock(state, block, [signedTx()]), { code: "CHAIN_ENGINE_LIMIT" });
    });

    test(`${what} stops nothing where no block depends on it`, () => {
      const machine = machineThatThrows(run);
      assert.equal(machine.runTx(newState(machine), block, "simulate", signedTx()).code, 111_222);
    });
  }

  test("a fault of the program, the same on every machine, is recovered from as the SDK does; the fee stays taken", () => {
    const machine = machineThatThrows(isWrong);
    const modes: readonly Extract<ExecutionMode, "deliver" | "simulate">[] = ["deliver", "simulate"];
    for (const mode of modes) {
      const state = newState(machine);
      const { code, codespace, log } = machine.runTx(state, block, mode, signedTx());
      assert.deepEqual([code, codespace, log], [111_222, "sdk", "recovered: panic"]);
      assert.equal(getAccount(contextOf(state), bytesOfAddress(signer))?.base.sequence, 1n);
    }
  });
});
