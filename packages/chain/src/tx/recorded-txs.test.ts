import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { addressToBytes, moduleAddress } from "@turnpike/crypto";
import { createMessage, cryptoSecp256k1, packAny } from "@turnpike/proto";
import { createAccount, setAccount } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { setBalance, setSupply } from "../modules/bank/balances.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import type { BlockInfo, ChainEvent, Context } from "../state/context.ts";
import { GasMeter } from "../state/gas.ts";
import { StateMachine } from "../state/machine.ts";
import { Overlay } from "../state/overlay.ts";
import type { TxResult } from "./run-tx.ts";

interface Recorded {
  readonly signer: { readonly address: string };
  readonly account_number: string;
  readonly sequence: string;
  readonly chain_id: string;
  readonly tx_bytes: string;
  readonly tx_json: {
    readonly auth_info: { readonly signer_infos: { readonly public_key: { readonly key: string } }[] };
  };
  readonly broadcast_sync: {
    readonly result: { readonly code: number; readonly codespace: string; readonly log: string };
  };
  readonly result?: {
    readonly tx_response: {
      readonly height: string;
      readonly timestamp: string;
      readonly code: number;
      readonly codespace: string;
      readonly raw_log: string;
      readonly data: string;
      readonly gas_used: string;
      readonly events: readonly ChainEvent[];
    };
  };
}

const ROOT = new URL("../../../../test/spec/recorded-chain/txs/", import.meta.url);
const recorded = (name: string): Recorded => {
  return JSON.parse(readFileSync(new URL(`${name}.json`, ROOT), "utf8")) as Recorded;
};

const EMPTY = { get: () => undefined, range: () => [] };
const machine = new StateMachine({ gasPrices: [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }] }, [
  authModule({ moduleAccounts: { fee_collector: [] }, authority: moduleAddress("gov") }),
  bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority: moduleAddress("gov") }),
]);

const RECEIVERS = [
  "pokt1uv05fgvml8sxsjg296ktwp4z2q6puffu45jje8",
  "pokt1l420gpd6jag686mvr7pcw4xzfqphhg93lzwsym",
  "pokt1rl3gjgzexmplmds3tq3r3yk84zlwdl6djzgsvm",
  "pokt173r2dgg0jce84fq60sc7wmasvrpesfjdf93pqz",
];

interface Given {
  readonly sequence?: bigint;
  readonly accountNumber?: bigint;
  readonly balance?: bigint;
  readonly heightBlocks?: bigint;
  readonly time?: string;
}

function addressBytes(text: string): Uint8Array {
  const bytes = addressToBytes(text);
  assert.ok(bytes);
  return bytes;
}

function packedKey(base64: string): ReturnType<typeof packAny> {
  const key = createMessage(cryptoSecp256k1.PubKeySchema, { key: Buffer.from(base64, "base64") });
  return packAny(cryptoSecp256k1.PubKeySchema, key);
}

function stateFor(tx: Recorded, given: Given): { state: Overlay; block: BlockInfo } {
  const block: BlockInfo = {
    chainId: tx.chain_id,
    heightBlocks: given.heightBlocks ?? BigInt(tx.result?.tx_response.height ?? "1656"),
    timeNanos:
      BigInt(Date.parse(given.time ?? tx.result?.tx_response.timestamp ?? "2026-11-21T14:39:23Z")) * 1_000_000n,
    hash: new Uint8Array(0),
    proposer: new Uint8Array(0),
  };
  const state = new Overlay(EMPTY);
  const { changes } = machine.initGenesis(EMPTY, { ...block, heightBlocks: 0n }, {});
  for (const [key, value] of changes) if (value !== undefined) state.set(key, value);
  const ctx: Context = { block, mode: "block", state, gas: new GasMeter(), events: [] };
  const signer = addressBytes(tx.signer.address);
  const account = createAccount(ctx, signer);
  const key = tx.tx_json.auth_info.signer_infos[0]?.public_key.key ?? "";
  setAccount(ctx, signer, {
    base: {
      ...account.base,
      accountNumber: given.accountNumber ?? BigInt(tx.account_number),
      sequence: given.sequence ?? BigInt(tx.sequence),
      // Who sent nothing before has no key yet.
      ...((given.sequence ?? BigInt(tx.sequence)) === 0n ? {} : { pubKey: packedKey(key) }),
    },
  });
  for (const text of RECEIVERS) {
    if (text !== tx.signer.address) createAccount(ctx, addressBytes(text));
  }
  const amount = given.balance ?? 997_998_981_012n;
  setBalance(ctx, signer, { denom: "upokt", amount });
  setSupply(ctx, { denom: "upokt", amount });
  return { state, block };
}

const run = (tx: Recorded, mode: "check" | "deliver", given: Given): TxResult => {
  const { state, block } = stateFor(tx, given);
  return machine.runTx(state, block, mode, Buffer.from(tx.tx_bytes, "base64"));
};

const withoutNumbers = (text: string): string =>
  text.startsWith("out of gas") ? text.replace(/location: \w+|\d+/g, "#") : text;

const DELIVERED: Record<string, Given> = {
  "accepted-ante-gas-low-deliver": {},
  "accepted-bank-send-to-module": {},
  "bank-multi-send": {},
  "bank-send-appg1": {},
  "bank-send-appg2": {},
  "bank-send-plain": {},
  "bank-send-sowner1": {},
  "fail-bank-send-bad-address": {},
  "fail-bank-send-funds": { balance: 3100n },
  "fail-gas-low-deliver": {},
  "unordered-send": { sequence: 20n },
};

const REFUSED: Record<string, Given> = {
  "fail-ante-account-number": { accountNumber: 28n },
  "fail-ante-fee-funds": { balance: 2100n },
  "fail-ante-fee-zero": {},
  "fail-ante-gas-low-check": {},
  "fail-ante-sequence-high": { sequence: 19n },
  "fail-ante-signature": {},
  "fail-ante-timeout-height": {},
  "fail-unordered-no-timeout": { sequence: 20n },
  "fail-unordered-too-long": { sequence: 20n },
};

suite("recorded transactions of bank and ante", () => {
  for (const [name, given] of Object.entries(DELIVERED)) {
    test(`${name}: in a block, the recorded code, text, data and events`, () => {
      const tx = recorded(name);
      const response = tx.result?.tx_response;
      assert.ok(response);
      const result = run(tx, "deliver", given);
      assert.equal(withoutNumbers(result.log), withoutNumbers(response.raw_log));
      assert.deepEqual([result.code, result.codespace], [response.code, response.codespace]);
      assert.deepEqual(result.events, response.events);
      assert.equal(Buffer.from(result.data).toString("hex").toUpperCase(), response.data);
      const gas = Number(result.gasUsed) / Number(response.gas_used);
      assert.ok(gas > 0.95 && gas < 1.05, `gas ${result.gasUsed} of ${response.gas_used}`);
      assert.equal(run(tx, "check", given).code, 0);
    });
  }

  for (const [name, given] of Object.entries(REFUSED)) {
    test(`${name}: by the mempool, the recorded code and text`, () => {
      const tx = recorded(name);
      const { code, codespace, log } = tx.broadcast_sync.result;
      const result = run(tx, "check", given);
      assert.equal(withoutNumbers(result.log), withoutNumbers(log));
      assert.deepEqual([result.code, result.codespace], [code, codespace]);
      assert.deepEqual(result.events, []);
    });
  }
});
