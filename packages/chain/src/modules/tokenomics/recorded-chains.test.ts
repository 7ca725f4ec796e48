import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddressBytes } from "@turnpike/crypto";
import { proof, service } from "@turnpike/proto";
import {
  ADDRESSES,
  contextAt,
  fromJson,
  RECORDED_CHAINS,
  type RecordedState,
  readChain,
  runRecordedBlock,
  runRecordedTxs,
  settlementMachine,
  stateBefore,
} from "../../../test/modules/tokenomics/recorded.ts";
import { bytesOfAddress } from "../../../test/recorded-tx.ts";
import { pocketMachine } from "../../app/pocket-machine.ts";
import type { ChainEvent } from "../../state/context.ts";
import { getApplication } from "../application/state.ts";
import { getBalance, getSupply } from "../bank/balances.ts";
import { claims, proofs } from "../proof/state.ts";
import { difficulties, difficultyHistory } from "../service/state.ts";
import { getDehydratedSupplier } from "../supplier/state.ts";

// Fees leave through modules that this machine is without.
const FEES = new Set(["fee_collector", "distribution"]);
const text = (event: ChainEvent): string => JSON.stringify(event);

function assertMoney(ctx: ReturnType<typeof contextAt>, expected: RecordedState): void {
  for (const [name, coins] of Object.entries(expected.balances)) {
    const address = bytesOfAddress(ADDRESSES[name] ?? "");
    for (const [denom, amount] of Object.entries(coins)) {
      assert.equal(getBalance(ctx, address, denom), BigInt(amount), `${name} ${denom}`);
    }
  }
  for (const [name, coins] of Object.entries(expected.modules)) {
    if (FEES.has(name)) continue;
    const { upokt = 0 } = coins;
    assert.equal(getBalance(ctx, moduleAddressBytes(name), "upokt"), BigInt(upokt), name);
  }
  for (const { denom, amount } of expected.supply) assert.equal(getSupply(ctx, denom), BigInt(amount), denom);
}

suite("recorded sessions on the state machine", () => {
  // Alone, and among all the modules of the chain, which add nothing to these blocks.
  const cases = RECORDED_CHAINS.flatMap((name) => [
    { name, whole: false },
    { name, whole: true },
  ]);
  for (const { name, whole } of cases) {
    test(`${name}${whole ? " on the whole machine" : ""}: transactions, verdicts, every event of the settlement, every balance`, () => {
      const record = readChain(name);
      const machine = whole ? pocketMachine({ gasPrices: [] }).machine : settlementMachine();
      const state = stateBefore(record);
      const ctx = contextAt(state, BigInt(record.settlement_height));

      for (const { height, outcome, txs } of runRecordedTxs(machine, record, state)) {
        for (const [i, { tx }] of txs.entries()) {
          const result = outcome.results[i];
          assert.deepEqual([result?.code, result?.log], [tx.code, ""], `${height} ${i}`);
          assert.deepEqual(result?.events, tx.events);
        }
        // The chain checks the proofs of a block in threads: their order is not the same on every node.
        const recorded = record.end_block_events_of_claim_and_proof_blocks[height] ?? [];
        assert.deepEqual(outcome.events.map(text).sort(), recorded.map(text).sort());
      }
      const stored = [...claims.entries(ctx)].map(([, claim]) => claim);
      const expected = record.claims_before_settlement.map((json) => fromJson(proof.ClaimSchema, json));
      const bySupplier = (a: proof.Claim, b: proof.Claim) =>
        `${a.sessionHeader?.sessionId}${a.supplierOperatorAddress}` <
        `${b.sessionHeader?.sessionId}${b.supplierOperatorAddress}`
          ? -1
          : 1;
      assert.deepEqual(stored, expected.sort(bySupplier));
      assert.deepEqual([...proofs.entries(ctx)], []);
      assertMoney(ctx, record.state_before_settlement);

      const early = runRecordedBlock(machine, record, state, BigInt(record.settlement_height) - 1n, []);
      assert.deepEqual(early.events, []);
      const { events } = runRecordedBlock(machine, record, state, BigInt(record.settlement_height), []);
      const settled = record.settlement_block_results.finalize_block_events.filter(({ attributes }) =>
        attributes.some(({ key, value }) => key === "mode" && value === "EndBlock"),
      );
      assert.ok(settled.length > 10);
      assert.deepEqual(events.map(text), settled.map(text));

      assertMoney(ctx, record.state_after_settlement);
      for (const { application } of record.sessions) {
        const { address } = application;
        const stake = record.state_after_settlement.applications[address]?.amount;
        assert.equal(getApplication(ctx, address)?.stake?.amount, stake);
      }
      for (const operator of new Set(record.sessions.flatMap((s) => s.suppliers.map((one) => one.operator_address)))) {
        const stake = record.state_after_settlement.suppliers[operator]?.amount;
        assert.equal(getDehydratedSupplier(ctx, operator)?.stake?.amount, stake);
      }
      assert.deepEqual([...claims.entries(ctx)], []);
      for (const [id, { after_settlement, history }] of Object.entries(record.relay_mining_difficulty)) {
        const after = fromJson(service.RelayMiningDifficultySchema, after_settlement.relayMiningDifficulty);
        assert.deepEqual(difficulties.get(ctx, id), after);
        const until = nextStart(record.settlement_height);
        const entries = history.relayMiningDifficultyHistory.filter((e) => Number(e.effective_height) <= until);
        const kept = [...difficultyHistory.entries(ctx)].map(([[, height]]) => height.toString());
        assert.deepEqual(
          kept,
          entries.map((entry) => entry.effective_height),
        );
      }
    });
  }
});

const nextStart = (height: number): number => height - ((height - 1) % 10) + 10;
