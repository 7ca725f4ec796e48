import assert from "node:assert/strict";
import { test } from "node:test";
import { isRecord } from "@turnpike/base";
import { devRpc, setTokenBalance } from "@turnpike/localnet";
import {
  ANSWER,
  AT_ONCE,
  type Bed,
  claim,
  mineUntil,
  openBedWithoutContract,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { MAX_UNLIMITED } from "./batch-contract.ts";
import { createEngine } from "./engine.ts";
import { GasCosts } from "./gas-costs.ts";

const server = testServer();

const GAS = { perTransfer: 120_000n, perWallet: 400_000n, perDeployment: 2_000_000n };

/** Gas of one transaction that settles so many payments. As usual, payers and receiver have a balance before and after. */
async function measuredGas(bed: Bed, count: number): Promise<bigint> {
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const options = bed.options([key], { ...AT_ONCE, batchWindowMs: 600_000, maxBatch: count });
  await using engine = await createEngine(options, bed.modules(ledger));
  const payers = await Promise.all(Array.from({ length: count }, () => bed.payer(2n * PRICE)));
  const payments = await Promise.all(payers.map((payer) => claim(ledger, payer)));
  await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  const hashes = new Set(ends.map(({ evidence }) => evidence?.transaction));
  assert.equal(hashes.size, 1, "one transaction");
  const receipt = await devRpc(bed.anvil.url, "eth_getTransactionReceipt", [...hashes]);
  assert.ok(isRecord(receipt));
  return BigInt(String(receipt.gasUsed));
}

/** By how many percent what is assumed before the first receipt is above what a chain shows, alone and shared. */
async function errors(bed: Bed, batchSize: number): Promise<number[]> {
  await setTokenBalance(bed.anvil.url, { address: PAY_TO, units: PRICE });
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  const costs = new GasCosts(GAS, () => 0);
  const percents: number[] = [];
  for (const count of [1, batchSize]) {
    const gas = await measuredGas(bed, count);
    percents.push((Number(costs.shared(count).gas) / Number(gas) - 1) * 100);
  }
  return percents;
}

test("what payments are assumed to cost before the first receipt is what they cost by the contract", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const percents = await errors(bed, 20);
  assert.ok(
    percents.every((percent) => Math.abs(percent) < 2),
    percents.join(),
  );
});

test("without the contract they cost about that", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  const percents = await errors(bed, MAX_UNLIMITED);
  assert.ok(
    percents.every((percent) => percent > -5 && percent < 10),
    percents.join(),
  );
});
