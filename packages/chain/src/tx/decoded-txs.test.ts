import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { DecodedTx } from "./decode.ts";
import { DecodedTxs } from "./decoded-txs.ts";

const decoded = (bytes: Uint8Array): DecodedTx =>
  ({
    bytes,
    fee: { amount: [], gasLimit: 1n },
    raw: {},
    body: { unordered: false, messages: [{}] },
    messages: [{ handler: { spending: () => [] } }],
    authInfo: { signerInfos: [] },
    signers: [],
    feePayer: new Uint8Array(20),
  }) as unknown as DecodedTx;

suite("decoded transactions", () => {
  test("what a check read is found by the same bytes until a block has run them, and by no equal ones", () => {
    const kept = new DecodedTxs();
    const bytes = Uint8Array.of(1, 2);
    const read = decoded(bytes);
    kept.keep(bytes, "check", read);
    assert.equal(kept.find(Uint8Array.from(bytes), "deliver"), undefined);
    assert.equal(kept.find(bytes, "recheck"), read);
    assert.equal(kept.find(bytes, "deliver"), read);
    assert.equal(
      kept.find(bytes, "deliver"),
      undefined,
      "kept blocks hold the bytes on, and not what was read of them",
    );
  });

  test("neither what a block or a simulation read is kept, nor the messages of long ones", () => {
    const kept = new DecodedTxs();
    const [bytes, long] = [Uint8Array.of(1), new Uint8Array(4_097)];
    kept.keep(bytes, "deliver", decoded(bytes));
    kept.keep(bytes, "simulate", decoded(bytes));
    kept.keep(long, "check", decoded(long));
    assert.deepEqual([kept.find(bytes, "check"), kept.find(long, "check")], [undefined, undefined]);
    for (const mode of ["deliver", "simulate"] as const) assert.equal(kept.find(long, mode), undefined);
    // A check again reads no message.
    assert.equal(kept.find(long, "recheck")?.bytes, long);
    assert.deepEqual(kept.find(long, "recheck")?.messages, []);
  });
});
