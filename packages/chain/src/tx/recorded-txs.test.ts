import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { type RecordedTx, readRecordedTx } from "@turnpike/testkit/fixtures";
import {
  addSigner,
  assertAsRecorded,
  assertRefusedAsRecorded,
  bytesOfAddress,
  runRecorded,
  type SignerState,
  stateOf,
} from "../../test/recorded-tx.ts";
import { StateMachine } from "../app/state-machine.ts";
import { createAccount } from "../modules/auth/accounts.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import type { TxResult } from "../state/outcome.ts";

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

const run = (tx: RecordedTx, mode: "check" | "deliver", given: SignerState): TxResult => {
  const test = stateOf(machine, tx);
  addSigner(test.ctx, tx, given);
  for (const text of RECEIVERS) {
    if (text !== tx.signer.address) createAccount(test.ctx, bytesOfAddress(text));
  }
  return runRecorded(machine, test, tx, mode);
};

const DELIVERED: Record<string, SignerState> = {
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

const REFUSED: Record<string, SignerState> = {
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
      const tx = readRecordedTx(name);
      const result = run(tx, "deliver", given);
      assertAsRecorded(result, tx);
      const recordedGas = tx.result?.tx_response.gas_used ?? "";
      const gas = Number(result.gasUsed) / Number(recordedGas);
      assert.ok(gas > 0.95 && gas < 1.05, `gas ${result.gasUsed} of ${recordedGas}`);
      assert.equal(run(tx, "check", given).code, 0);
    });
  }

  for (const [name, given] of Object.entries(REFUSED)) {
    test(`${name}: by the mempool, the recorded code and text`, () => {
      const tx = readRecordedTx(name);
      const result = run(tx, "check", given);
      assertRefusedAsRecorded(result, tx);
      assert.deepEqual(result.events, []);
    });
  }
});
