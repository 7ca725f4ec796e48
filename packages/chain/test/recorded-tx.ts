import assert from "node:assert/strict";
import type { AddressBytes } from "@turnpike/base";
import { addressToBytes } from "@turnpike/crypto";
import { createMessage, cryptoSecp256k1, packAny } from "@turnpike/proto";
import type { RecordedTx } from "@turnpike/testkit/fixtures";
import type { StateMachine } from "../src/app/state-machine.ts";
import { createAccount, setAccount } from "../src/modules/auth/accounts.ts";
import { getBalance, getSupply, setBalance, setSupply } from "../src/modules/bank/balances.ts";
import { addCoins } from "../src/modules/bank/coins.ts";
import type { BlockInfo, Context } from "../src/state/context.ts";
import { GasMeter } from "../src/state/gas.ts";
import type { TxResult } from "../src/state/outcome.ts";
import { Overlay } from "../src/state/overlay.ts";

/** A state under test, the block that it is in, and a context that writes to it. */
export interface TestState {
  readonly state: Overlay;
  readonly block: BlockInfo;
  readonly ctx: Context;
}

const EMPTY = { get: () => undefined, range: () => [] };

/** A fresh state at the height and time of a recorded transaction, unless others are given. */
export function stateOf(
  machine: StateMachine,
  tx: RecordedTx,
  at: { readonly heightBlocks?: bigint; readonly time?: string; readonly appState?: Record<string, unknown> } = {},
): TestState {
  const response = tx.result?.tx_response;
  const time = at.time ?? response?.timestamp ?? "2026-11-21T14:39:23Z";
  const block: BlockInfo = {
    chainId: tx.chain_id,
    heightBlocks: at.heightBlocks ?? BigInt(response?.height ?? "1656"),
    timeNanos: BigInt(Date.parse(time)) * 1_000_000n,
    hash: new Uint8Array(0),
    proposer: new Uint8Array(0),
  };
  const state = new Overlay(EMPTY);
  const { changes } = machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, at.appState ?? {});
  for (const [key, value] of changes) if (value !== undefined) state.set(key, value);
  const ctx: Context = { block, mode: "block", state, gas: new GasMeter(), events: [] };
  return { state, block, ctx };
}

/** Address bytes of a bech32 address that is right. */
export function bytesOfAddress(text: string): AddressBytes {
  const bytes = addressToBytes(text);
  assert.ok(bytes, text);
  return bytes;
}

/** Gives coins to an address, and adds them to the supply. */
export function fund(ctx: Context, address: string, amount: bigint, denom = "upokt"): void {
  const bytes = bytesOfAddress(address);
  const [sum] = addCoins([[{ denom, amount: getBalance(ctx, bytes, denom) }], [{ denom, amount }]]);
  if (sum !== undefined) setBalance(ctx, bytes, sum);
  setSupply(ctx, { denom, amount: getSupply(ctx, denom) + amount });
}

/** What the signer of a recorded transaction had, where it is not what the transaction says. */
export interface SignerState {
  readonly sequence?: bigint;
  readonly accountNumber?: bigint;
  readonly balance?: bigint;
}

/** Makes the account of a transaction's signer: number, sequence and key as signed, and a balance. */
export function addSigner(ctx: Context, tx: RecordedTx, given: SignerState = {}): void {
  const signer = bytesOfAddress(tx.signer.address);
  const account = createAccount(ctx, signer);
  const sequence = given.sequence ?? BigInt(tx.sequence);
  const key = createMessage(cryptoSecp256k1.PubKeySchema, {
    key: Buffer.from(tx.tx_json.auth_info.signer_infos[0]?.public_key.key ?? "", "base64"),
  });
  setAccount(ctx, signer, {
    base: {
      ...account.base,
      accountNumber: given.accountNumber ?? BigInt(tx.account_number),
      sequence,
      // Who sent nothing before has no key yet.
      ...(sequence === 0n ? {} : { pubKey: packAny(cryptoSecp256k1.PubKeySchema, key) }),
    },
  });
  fund(ctx, tx.signer.address, given.balance ?? 997_998_981_012n);
}

/** Runs a recorded transaction on a state. */
export function runRecorded(
  machine: StateMachine,
  { state, block }: TestState,
  tx: RecordedTx,
  mode: "check" | "deliver",
): TxResult {
  return machine.runTx(state, block, mode, Buffer.from(tx.tx_bytes, "base64"));
}

/** Texts that quote gas differ in it. */
export function withoutGas(text: string): string {
  return text.startsWith("out of gas") ? text.replace(/location: \w+|\d+/g, "#") : text;
}

/** Asserts that a result in a block has the recorded code, codespace, text, data and events. */
export function assertAsRecorded(result: TxResult, tx: RecordedTx): void {
  const response = tx.result?.tx_response;
  assert.ok(response);
  assert.equal(withoutGas(result.log), withoutGas(response.raw_log));
  assert.deepEqual([result.code, result.codespace], [response.code, response.codespace]);
  assert.deepEqual(result.events, response.events);
  assert.equal(Buffer.from(result.data).toString("hex").toUpperCase(), response.data);
}

/** Asserts that the mempool refuses with the recorded code, codespace and text. */
export function assertRefusedAsRecorded(result: TxResult, tx: RecordedTx): void {
  const { code, codespace, log } = tx.broadcast_sync.result;
  assert.equal(withoutGas(result.log), withoutGas(log));
  assert.deepEqual([result.code, result.codespace], [code, codespace]);
}
