import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeMessage, encodeMessage } from "./binary.ts";
import { createMessage } from "./create.ts";
import { type TxRaw, TxRawSchema } from "./generated/cosmos/tx/v1beta1/tx_pb.ts";

const raw: TxRaw = createMessage(TxRawSchema, { bodyBytes: new Uint8Array(50), signatures: [new Uint8Array(64)] });
const bytes = encodeMessage(TxRawSchema, raw);
const outcomes = new Map<string, number>();

function read(): void {
  let outcome: string;
  try {
    const decoded = decodeMessage(TxRawSchema, bytes);
    outcome = decoded.ok ? "read" : decoded.fault;
  } catch (error) {
    outcome = `thrown: ${String(error)}`;
  }
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
}

// Goes down to the end of the stack, then reads with a little more room at each step back.
function descend(): void {
  try {
    descend();
  } catch (error) {
    outcomes.set("end of the stack", error instanceof RangeError ? 1 : 0);
  }
  read();
}

test("at no depth of the stack bytes that are right are read as wrong", () => {
  descend();
  const { read: whole, ...others } = Object.fromEntries(outcomes);
  assert.ok(whole !== undefined && whole > 1000);
  assert.deepEqual(
    Object.keys(others).filter(
      (outcome) => outcome !== "end of the stack" && !outcome.startsWith("thrown: RangeError"),
    ),
    [],
  );
});
