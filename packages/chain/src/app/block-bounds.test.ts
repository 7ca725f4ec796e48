import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { createMessage, encodeMessage, tx as txs } from "@turnpike/proto";
import { fittingTxs, MAX_BLOCK_TXS } from "./block-bounds.ts";

const BYTES = WireType.LengthDelimited;
const BOUNDS = { maxBlockGas: 10n, maxBlockBytes: -1n };

/** A transaction that asks for gas, with this many empty signers. */
function txOf(gasLimit: bigint, numSigners: number): Uint8Array {
  const info = new BinaryWriter();
  for (let i = 0; i < numSigners; i++) info.tag(1, BYTES).bytes(new Uint8Array(0));
  info.tag(2, BYTES).bytes(encodeMessage(txs.FeeSchema, createMessage(txs.FeeSchema, { gasLimit })));
  const raw = createMessage(txs.TxRawSchema, { authInfoBytes: info.finish() });
  return encodeMessage(txs.TxRawSchema, raw);
}

suite("transactions that fit into a block", () => {
  test("gas is counted as it is asked for", () => {
    assert.equal(fittingTxs([txOf(6n, 1), txOf(4n, 1), txOf(1n, 1)], BOUNDS), 2);
  });

  test("attack: one that no node runs, as it exceeds the bounds of what is read, is not decoded and has no gas", () => {
    const hostile = txOf(11n, 300_000);
    assert.equal(fittingTxs([hostile, txOf(10n, 1)], BOUNDS), 2);
  });

  test("attack: a block of transactions of one byte is no more than a block of valid ones", () => {
    const list = Array.from({ length: MAX_BLOCK_TXS + 1 }, () => Uint8Array.of(0));
    assert.equal(fittingTxs(list, BOUNDS), MAX_BLOCK_TXS);
    assert.equal(fittingTxs(list.slice(1), BOUNDS), MAX_BLOCK_TXS);
  });
});
