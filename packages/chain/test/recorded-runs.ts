import assert from "node:assert/strict";
import type { RecordedTx } from "@turnpike/testkit/fixtures";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { getAccount, setAccount } from "../src/modules/auth/accounts.ts";
import type { TxResult } from "../src/state/outcome.ts";
import type { Overlay } from "../src/state/overlay.ts";
import { blockAt, contextAt } from "./modules/tokenomics/recorded.ts";
import { addRecordedParams, addUsers, type RecordedState } from "./recorded-states.ts";
import { addSigner, bytesOfAddress, stateOf, type TestState } from "./recorded-tx.ts";

/** Claims and proofs, with the recorded session that holds their state. */
export const IN_SESSIONS: Readonly<Record<string, string>> = {
  "claim-fabricated-no-proof": "e2e-5",
  "claim-fabricated-over-1": "e2e-4",
  "fail-claim-cu-mismatch": "e2e-4",
  "fail-claim-too-late": "e2e-4",
  "fail-proof-not-required": "e2e-4",
};
/** The whole machine, with the recorded chain's lowest gas price. */
export const { machine } = pocketMachine({ gasPrices: [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }] });

// An account with a high number: the modules' own, which come after it, leave the recorded numbers free.
const AUTH = {
  accounts: [
    {
      "@type": "/cosmos.auth.v1beta1.BaseAccount",
      address: "pokt1vwpt8nygzsftw7lu4mksycqpcqxeuvp9ywgv7n",
      account_number: "99",
    },
  ],
};

/** A state as a recorded transaction found it. */
export function stateFor(tx: RecordedTx, { has, ...signer }: RecordedState): TestState {
  const state = stateOf(machine, tx, { appState: { auth: AUTH } });
  addRecordedParams(state.ctx);
  addUsers(state.ctx, tx.signer.address);
  addSigner(state.ctx, tx, signer);
  has?.(state.ctx);
  return state;
}

/** Runs a transaction on the state of a recorded session, its signer's sequence as it was. */
export function runInSession(state: Overlay, tx: RecordedTx, mode: "check" | "deliver"): TxResult {
  const { height = "1656", timestamp = "2026-11-21T14:39:23Z" } = tx.result?.tx_response ?? {};
  const ctx = contextAt(state, BigInt(height));
  const account = getAccount(ctx, bytesOfAddress(tx.signer.address)) ?? assert.fail();
  const base = { ...account.base, sequence: BigInt(tx.sequence) };
  setAccount(ctx, bytesOfAddress(tx.signer.address), { base });
  return machine.runTx(state, blockAt(BigInt(height), undefined, timestamp), mode, Buffer.from(tx.tx_bytes, "base64"));
}
