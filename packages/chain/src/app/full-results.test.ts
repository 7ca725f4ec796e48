import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bank, base, cometAbci, createMessage, encodeMessage } from "@turnpike/proto";
import { block, machineThatSends, newState, signedTx } from "../../test/one-signer.ts";
import { chainEvent } from "../state/context.ts";
import { resultBytes } from "../state/event-bytes.ts";
import { messageHandler } from "../state/module.ts";
import { boundedText, done } from "../state/outcome.ts";
import { MAX_TX_EVENT_BYTES } from "../tx/tx-bounds.ts";
import { MAX_BLOCK_RESULT_BYTES, MAX_RESULTS_BYTES } from "./block-bounds.ts";

/** CometBFT 0.38, `abci/types/messages.go`, `maxMsgSize`: a longer answer ends the node. */
const COMETBFT_MAX_MESSAGE_BYTES = 104_857_600;
/** A chain one of whose messages has an event of as many bytes as its coin's amount says. */
const machine = machineThatSends(
  messageHandler(bank.MsgSendSchema, bank.MsgSendResponseSchema, {
    signers: ({ fromAddress }) => [fromAddress],
    run(ctx, { amount }) {
      ctx.events.push(chainEvent("large", { value: "x".repeat(Number(amount[0]?.amount)) }));
      return done(createMessage(bank.MsgSendResponseSchema));
    },
  }),
);

const txWith = (sequence: bigint, eventBytes: readonly number[]): Uint8Array =>
  signedTx(
    eventBytes.map((bytes) => [createMessage(base.CoinSchema, { denom: "upokt", amount: `${bytes}` })]),
    sequence,
  );

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
    const { results } = machine.runBlock(newState(machine), block, [txWith(0n, [half, half]), txWith(1n, [half])]);
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
    const state = newState(machine);
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
