import assert from "node:assert/strict";
import { decodeMessage, proof, tx } from "@turnpike/proto";
import { submitProof } from "../../../src/modules/proof/submit-proof.ts";
import type { Context } from "../../../src/state/context.ts";
import { Overlay } from "../../../src/state/overlay.ts";
import { planted } from "../../planted.ts";
import { contextAt, readChain, runRecordedTxs, settlementMachine, stateBefore } from "../tokenomics/recorded.ts";

/** One recorded session with its claims and proofs. */
export const record = readChain("e2e-1");
/** A machine that settles it. */
export const machine = settlementMachine();
/** A height at which its proofs are taken. */
export const PROVE = 1220n;

/** The recorded messages of one type, in order. */
function recordedMessages(typeUrl: string): Uint8Array[] {
  return record.txs.flatMap((one) => {
    const raw = decodeMessage(tx.TxRawSchema, Buffer.from(one.tx_bytes, "base64"));
    assert.ok(raw.ok);
    const body = decodeMessage(tx.TxBodySchema, raw.message.bodyBytes);
    assert.ok(body.ok);
    return body.message.messages.filter((any) => any.typeUrl === typeUrl).map((any) => any.value);
  });
}

/** The recorded proofs. */
export const submissions: readonly proof.MsgSubmitProof[] = recordedMessages("/pocket.proof.MsgSubmitProof").map(
  (bytes) => {
    const read = decodeMessage(proof.MsgSubmitProofSchema, bytes);
    assert.ok(read.ok);
    return read.message;
  },
);

/** The recorded claims. */
export const claimMessages: readonly proof.MsgCreateClaim[] = recordedMessages("/pocket.proof.MsgCreateClaim").map(
  (bytes) => {
    const read = decodeMessage(proof.MsgCreateClaimSchema, bytes);
    assert.ok(read.ok);
    return read.message;
  },
);

/** The recorded chain with its claims, inside the proof window. */
function claimed(): Overlay {
  const state = stateBefore(record);
  runRecordedTxs(machine, { ...record, txs: record.txs.filter((one) => one.height === "1213") }, state);
  return state;
}

/** The recorded state with its claims. */
export const base: Overlay = claimed();
/** A context over a copy of {@link base}. */
export const fresh = (height = PROVE): Context => contextAt(new Overlay(base), height);

/** Why a proof is refused; empty when it is not. */
export function refusal(ctx: Context, message: proof.MsgSubmitProof): string {
  const result = submitProof(ctx, planted(message));
  return result.ok ? "" : result.fault.text;
}
