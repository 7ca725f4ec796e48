import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { concatBytes } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { packAny } from "./any.ts";
import { encodeMessage } from "./binary.ts";
import { createMessage } from "./create.ts";
import { MsgSendSchema } from "./generated/cosmos/bank/v1beta1/tx_pb.ts";
import { CoinSchema } from "./generated/cosmos/base/v1beta1/coin_pb.ts";
import { TxBodySchema } from "./generated/cosmos/tx/v1beta1/tx_pb.ts";
import { WireScanner } from "./wire-bounds.ts";

const scanner = new WireScanner({ maxParts: () => 40, maxDepth: 4, maxItems: () => 3, maxTextBytes: () => 20 });
const send = (coins: number, denom = "upokt") =>
  createMessage(MsgSendSchema, {
    fromAddress: "a",
    toAddress: "b",
    amount: Array.from({ length: coins }, () => createMessage(CoinSchema, { denom, amount: "1" })),
  });
const body = (...messages: ReturnType<typeof send>[]) =>
  encodeMessage(
    TxBodySchema,
    createMessage(TxBodySchema, { messages: messages.map((message) => packAny(MsgSendSchema, message)) }),
  );

suite("bounds of a message's bytes", () => {
  test("a message within them passes, also inside Any", () => {
    const wide = new WireScanner({ maxParts: () => 40, maxDepth: 4, maxItems: () => 3, maxTextBytes: () => 100 });
    assert.equal(wide.excess(MsgSendSchema, encodeMessage(MsgSendSchema, send(3))), undefined);
    assert.equal(wide.excess(TxBodySchema, body(send(3), send(1))), undefined);
  });

  test("attack: lists, texts, parts and nesting beyond them are named, also inside Any", () => {
    const long = encodeMessage(MsgSendSchema, send(1, "u".repeat(21)));
    assert.match(scanner.excess(MsgSendSchema, long) ?? "", /Coin\.denom has 21 bytes; the maximum is 20$/);
    assert.match(
      scanner.excess(MsgSendSchema, encodeMessage(MsgSendSchema, send(4))) ?? "",
      /MsgSend\.amount has more than 3 items/,
    );
    const wide = new WireScanner({ maxParts: () => 1000, maxDepth: 4, maxItems: () => 3, maxTextBytes: () => 100 });
    assert.match(wide.excess(TxBodySchema, body(send(4))) ?? "", /MsgSend\.amount has more than 3 items/);
    assert.match(wide.excess(TxBodySchema, body(send(1), send(1), send(1), send(1))) ?? "", /TxBody\.messages/);
    const flat = new WireScanner({ maxParts: () => 5, maxDepth: 4, maxItems: () => 9, maxTextBytes: () => 100 });
    assert.match(flat.excess(TxBodySchema, body(send(1))) ?? "", /more than 5 parts/);
    const shallow = new WireScanner({ maxParts: () => 99, maxDepth: 2, maxItems: () => 9, maxTextBytes: () => 100 });
    assert.match(shallow.excess(TxBodySchema, body(send(1))) ?? "", /nested too deeply/);
    // Fields that the schema does not have: each is kept by the decoder.
    const unknown = concatBytes(
      encodeMessage(MsgSendSchema, send(1)),
      Uint8Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? 0x78 : 1)),
    );
    assert.match(scanner.excess(MsgSendSchema, unknown) ?? "", /more than 40 parts/);
  });

  test("an Any whose value stands before its type is looked into", () => {
    const inner = encodeMessage(MsgSendSchema, send(4));
    const url = Buffer.from("/cosmos.bank.v1beta1.MsgSend");
    const any = concatBytes(Uint8Array.of(0x12, inner.length), inner, Uint8Array.of(0x0a, url.length), url);
    const bytes = concatBytes(Uint8Array.of(0x0a, any.length), any);
    const wide = new WireScanner({ maxParts: () => 1000, maxDepth: 4, maxItems: () => 3, maxTextBytes: () => 100 });
    assert.match(wide.excess(TxBodySchema, bytes) ?? "", /MsgSend\.amount has more than 3 items/);
  });

  test("any bytes end in a verdict", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const verdict = scanner.excess(TxBodySchema, bytes);
        assert.ok(verdict === undefined || verdict.length > 0);
      }),
      { numRuns: 2_000 },
    );
  });
});
