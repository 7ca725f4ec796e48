import { accountAddress, cosmosPublicKey, cosmosSign, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import { bank, createMessage, encodeMessage, packAny, signing, tx as txs, typeUrlOf } from "@turnpike/proto";
import { StateMachine } from "../src/app/state-machine.ts";
import { packAccountKey } from "../src/modules/auth/account-keys.ts";
import { createAccount } from "../src/modules/auth/accounts.ts";
import { authModule } from "../src/modules/auth/auth-module.ts";
import { bankModule } from "../src/modules/bank/bank-module.ts";
import type { BlockInfo, Context } from "../src/state/context.ts";
import { GasMeter } from "../src/state/gas.ts";
import type { MessageHandler } from "../src/state/module.ts";
import { Overlay } from "../src/state/overlay.ts";
import { bytesOfAddress } from "./recorded-tx.ts";

const EMPTY = { get: () => undefined, range: () => [] };
const key = privateKeyFromSecret(Buffer.from("a"));
const authority = moduleAddress("gov");

/** The only account of the chains here, number 1. */
export const signer = accountAddress(cosmosPublicKey(key));

/** The block that they run. */
export const block: BlockInfo = {
  chainId: "pocket",
  heightBlocks: 7n,
  timeNanos: 0n,
  hash: new Uint8Array(0),
  proposer: new Uint8Array(0),
};

/** A chain of accounts and money whose transfers a handler of the test runs. */
export function machineThatSends(handler: MessageHandler): StateMachine {
  return new StateMachine({ gasPrices: [] }, [
    authModule({ moduleAccounts: { fee_collector: [] }, authority }),
    bankModule({ blocked: new Set(), authority }),
    { name: "replacement", messages: { [typeUrlOf(bank.MsgSendSchema)]: handler } },
  ]);
}

/** A context on a state, outside of a transaction. */
export function contextOf(state: Overlay): Context {
  return { block, mode: "query", state, gas: new GasMeter(), events: [] };
}

/** The state of a new chain that has the signer. */
export function newState(machine: StateMachine): Overlay {
  const state = new Overlay(EMPTY);
  const { changes } = machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, {});
  for (const [name, value] of changes) if (value !== undefined) state.set(name, value);
  createAccount(contextOf(state), bytesOfAddress(signer));
  return state;
}

/** A signed transaction of transfers from the signer to itself. */
export function signedTx(amounts: readonly bank.MsgSend["amount"][], sequence = 0n): Uint8Array {
  const messages = amounts.map((amount) => {
    const send = createMessage(bank.MsgSendSchema, { fromAddress: signer, toAddress: signer, amount });
    return packAny(bank.MsgSendSchema, send);
  });
  const bodyBytes = encodeMessage(txs.TxBodySchema, createMessage(txs.TxBodySchema, { messages }));
  const publicKey = packAccountKey({ kind: "single", key: cosmosPublicKey(key) });
  const modeInfo = { sum: { case: "single" as const, value: { mode: signing.SignMode.DIRECT } } };
  const authInfo = { signerInfos: [{ publicKey, modeInfo, sequence }], fee: { gasLimit: 500_000n } };
  const authInfoBytes = encodeMessage(txs.AuthInfoSchema, createMessage(txs.AuthInfoSchema, authInfo));
  const { chainId } = block;
  const document = createMessage(txs.SignDocSchema, { bodyBytes, authInfoBytes, chainId, accountNumber: 1n });
  const signatures = [cosmosSign(encodeMessage(txs.SignDocSchema, document), key)];
  return encodeMessage(txs.TxRawSchema, createMessage(txs.TxRawSchema, { bodyBytes, authInfoBytes, signatures }));
}
