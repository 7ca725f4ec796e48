import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { TxResult } from "@turnpike/chain";
import { cometAbci, createMessage, encodeMessage } from "@turnpike/proto";
import { fc } from "@turnpike/testkit/property";
import { decodeTxResult, encodeTxResult } from "./result-codec.ts";
import { RESULT_TEXTS } from "./result-texts.ts";

const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const text = fc.oneof(
  fc.constantFrom(...RESULT_TEXTS),
  fc.string({ unit: "grapheme" }),
  fc.constantFrom("a", "ü", "€"),
);
const results: fc.Arbitrary<TxResult> = record({
  code: fc.nat(),
  codespace: text,
  log: text,
  data: fc.uint8Array(),
  gasWanted: int64,
  gasUsed: int64,
  events: fc.array(
    record({ type: text, attributes: fc.array(record({ key: text, value: text, index: fc.boolean() })) }),
  ),
});

function protobufOf({ events, ...rest }: TxResult): Uint8Array {
  const message = createMessage(cometAbci.ExecTxResultSchema, {
    ...rest,
    events: events.map(({ type, attributes }) => ({ type, attributes: [...attributes] })),
  });
  return encodeMessage(cometAbci.ExecTxResultSchema, message);
}

suite("stored results of transactions", () => {
  test("are read as they were written, and as earlier versions wrote them", () => {
    fc.assert(
      fc.property(results, (result) => {
        assert.deepEqual(decodeTxResult(encodeTxResult(result)), result);
        assert.deepEqual(decodeTxResult(protobufOf(result)), result);
      }),
    );
  });

  test("of one form have one set of bytes: it is the store's format", () => {
    const result: TxResult = {
      code: 0,
      codespace: "",
      log: "",
      data: Uint8Array.of(7),
      gasWanted: 300n,
      gasUsed: -1n,
      events: [
        {
          type: "tx",
          attributes: [
            { key: "fee", value: "x", index: true },
            { key: "x", value: "", index: false },
          ],
        },
      ],
    };
    const place = (at: number): number => RESULT_TEXTS.length + at;
    const wanted = [0, 0, 1, 1, 1, 7, 0xac, 2, ...Array.from({ length: 9 }, () => 0xff), 1, 1];
    const events = [3, 5, 5, 2, 0x78, place(0) * 2 + 1, 1, 1, 1];
    assert.deepEqual([...encodeTxResult(result)], [...wanted, ...events]);
  });

  test("attack: bytes that are none end in the error of a damaged store, whatever they are", () => {
    const isDamaged = { code: "CHAIN_STORE_DAMAGED" };
    fc.assert(
      fc.property(results, fc.nat(), fc.nat(255), (result, at, byte) => {
        const bytes = encodeTxResult(result);
        assert.throws(() => decodeTxResult(bytes.subarray(0, 1 + (at % (bytes.length - 1)))), isDamaged);
        assert.throws(() => decodeTxResult(Uint8Array.of(...bytes, 0)), isDamaged);
        bytes[1 + (at % (bytes.length - 1))] = byte;
        try {
          decodeTxResult(bytes);
        } catch (error) {
          assert.equal((error as { code?: unknown }).code, "CHAIN_STORE_DAMAGED");
        }
      }),
    );
  });
});
