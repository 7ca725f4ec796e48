import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { accountAddress, cosmosPublicKey, cosmosSign, moduleAddress, privateKeyFromSecret } from "@turnpike/crypto";
import { bank, cometAbci, createMessage, encodeMessage, packAny, signing, tx as txs, typeUrlOf } from "@turnpike/proto";
import { bytesOfAddress } from "../../test/recorded-tx.ts";
import { packAccountKey } from "../modules/auth/account-keys.ts";
import { createAccount } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import { type BlockInfo, chainEvent } from "../state/context.ts";
import { resultBytes } from "../state/event-bytes.ts";
import { GasMeter } from "../state/gas.ts";
import { messageHandler } from "../state/module.ts";
import { boundedText, done } from "../state/outcome.ts";
import { Overlay } from "../state/overlay.ts";
import { MAX_TX_EVENT_BYTES } from "../tx/tx-bounds.ts";
import { MAX_BLOCK_RESULT_BYTES, MAX_RESULTS_BYTES } from "./block-bounds.ts";
import { StateMachine } from "./state-machine.ts";

const EMPTY = { get: () => undefined, range: () => [] };
/** CometBFT 0.38, `abci/types/messages.go`, `maxMsgSize`: a longer answer ends the node. */
const COMETBFT_MAX_MESSAGE_BYTES = 104_857_600;
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

/** A chain one of whose messages has an event of as many bytes as its coin's amount says. */
const machine = new StateMachine({ gasPrices: [] }, [
  authModule({ moduleAccounts: { fee_collector: [] }, authority }),
  bankModule({ blocked: new Set(), authority }),
  {
    name: "large",
    messages: {
      [typeUrlOf(bank.MsgSendSchema)]: messageHandler(bank.MsgSendSchema, bank.MsgSendResponseSchema, {
        signers: ({ fromAddress }) => [fromAddress],
        run(ctx, { amount }) {
          ctx.events.push(chainEvent("large", { value: "x".repeat(Number(amount[0]?.amount)) }));
          return done(createMessage(bank.MsgSendResponseSchema));
        },
      }),
    },
  },
]);

function newState(): Overlay {
  const state = new Overlay(EMPTY);
  const { changes } = machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, {});
  for (const [name, value] of changes) if (value !== undefined) state.set(name, value);
  createAccount({ block, mode: "query", state, gas: new GasMeter(), events: [] }, bytesOfAddress(signer));
  return state;
}

function txWith(sequence: bigint, eventBytes: readonly number[]): Uint8Array {
  const messages = eventBytes.map((bytes) => {
    const amount = [{ denom: "upokt", amount: `${bytes}` }];
    return packAny(
      bank.MsgSendSchema,
      createMessage(bank.MsgSendSchema, { fromAddress: signer, toAddress: signer, amount }),
    );
  });
  const bodyBytes = encodeMessage(txs.TxBodySchema, createMessage(txs.TxBodySchema, { messages }));
  const authInfoBytes = encodeMessage(
    txs.AuthInfoSchema,
    createMessage(txs.AuthInfoSchema, {
      signerInfos: [
        {
          publicKey: packAccountKey({ kind: "single", key: cosmosPublicKey(key) }),
          modeInfo: { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } },
          sequence,
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

suite("results of a full block", () => {
  test("all that a block's results may have fits into one message of CometBFT", () => {
    assert.ok(MAX_RESULTS_BYTES < COMETBFT_MAX_MESSAGE_BYTES, `${MAX_RESULTS_BYTES} bytes`);
  });

  test("the bytes of an event and a result are an upper bound of those of their encodings", () => {
    for (const length of [0, 1, 127, 128, 16_384, 2_200_000]) {
      const value = "\u00e4".repeat(length);
      for (const numEvents of [1, 100]) {
        if (length * numEvents > 3_000_000) continue;
        const events = Array.from({ length: numEvents }, () => chainEvent("type", { key: value, other: "" }));
        const result = {
          code: 5,
          codespace: "sdk",
          log: boundedText(value),
          data: new Uint8Array(length),
          gasWanted: 2n ** 62n,
          gasUsed: 2n ** 62n,
          events,
        };
        const message = createMessage(cometAbci.ExecTxResultSchema, {
          ...result,
          events: events.map(({ type, attributes }) => ({ type, attributes: [...attributes] })),
        });
        const bytes = encodeMessage(
          cometAbci.ResponseFinalizeBlockSchema,
          createMessage(cometAbci.ResponseFinalizeBlockSchema, { txResults: [message] }),
        ).length;
        assert.ok(bytes <= resultBytes(result), `${length} ${numEvents}: ${bytes} ${resultBytes(result)}`);
      }
    }
  });

  test("attack: a transaction whose events exceed the maximum fails, and leaves none of them", () => {
    const half = MAX_TX_EVENT_BYTES / 2;
    const { results } = machine.runBlock(newState(), block, [txWith(0n, [half, half]), txWith(1n, [half])]);
    assert.deepEqual(
      results.map(({ code, codespace }) => [codespace, code]),
      [
        ["sdk", 18],
        ["", 0],
      ],
    );
    assert.match(results[0]?.log ?? "", /the events of the messages have more than \d+ bytes/);
    assert.ok(results[0] !== undefined && resultBytes(results[0]) < 3_000);
  });

  test("attack: transactions whose results do not fit into the block are not run, and can be sent again", () => {
    const state = newState();
    const largest = MAX_TX_EVENT_BYTES - 1_000;
    const list = Array.from({ length: 6 }, (_, i) => txWith(BigInt(i), [largest]));
    const { results, changes } = machine.runBlock(state, block, list);
    assert.deepEqual(
      results.map(({ code }) => code),
      [0, 0, 0, 11, 11, 11],
    );
    assert.match(results[3]?.log ?? "", /^the results of earlier transactions fill the block: out of gas$/);
    const bytes = results.reduce((sum, result) => sum + resultBytes(result), 0);
    assert.ok(bytes < MAX_BLOCK_RESULT_BYTES + MAX_TX_EVENT_BYTES, `${bytes} bytes`);
    for (const [name, value] of changes) {
      if (value === undefined) state.delete(name);
      else state.set(name, value);
    }
    const next = machine.runBlock(state, { ...block, heightBlocks: 8n }, list.slice(3));
    assert.deepEqual(
      next.results.map(({ code }) => code),
      [0, 0, 0],
    );
  });
});
