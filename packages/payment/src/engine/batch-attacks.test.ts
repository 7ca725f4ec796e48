import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, type FaultPoints, isRecord } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, LOCAL_CHAIN_ID, setCode, setTokenBalance } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { delegateCode, deployGasBurner, deploySwitchWallet } from "@turnpike/testkit/servers";
import { privateKeyToAccount } from "viem/accounts";
import {
  ANSWER,
  AT_ONCE,
  type Bed,
  claim,
  countingBackOff,
  mineUntil,
  NETWORK,
  newPayer,
  openBedWithoutContract,
  openOwnBed,
  PAY_TO,
  type Payer,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { MAX_UNLIMITED } from "./batch-contract.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

/** Payments wait for each other until so many share a transaction. */
const together = (maxBatch: number) => ({ ...AT_ONCE, batchWindowMs: 600_000, maxBatch });
const HONEST = 19;
/** Maximum gas that a payment takes which the contract leaves out. */
const LEFT_OUT_GAS = 10_000;
/** Maximum gas of a transaction whose only payment the contract leaves out. */
const LEFT_OUT_ALONE_GAS = 40_000;

async function receiptOf(bed: Bed, hash: string | undefined): Promise<Readonly<Record<string, unknown>>> {
  const receipt = await devRpc(bed.anvil.url, "eth_getTransactionReceipt", [hash]);
  assert.ok(isRecord(receipt));
  return receipt;
}

/** Gas of all transactions of a relayer by now, in their order. */
async function gasOf(bed: Bed, key: Uint8Array): Promise<number[]> {
  const relayer = privateKeyToAddress(key).toLowerCase();
  const gas: number[] = [];
  const head = Number(await devRpc(bed.anvil.url, "eth_blockNumber", []));
  for (let number = 0; number <= head; number++) {
    const receipts = await devRpc(bed.anvil.url, "eth_getBlockReceipts", [`0x${number.toString(16)}`]);
    for (const receipt of Array.isArray(receipts) ? (receipts as unknown[]).filter(isRecord) : []) {
      if (String(receipt.from).toLowerCase() === relayer) gas.push(Number(receipt.gasUsed));
    }
  }
  return gas;
}

const claimMany = (bed: Bed, ledger: Ledger, count: number): Promise<PaymentRecord[]> =>
  Promise.all(Array.from({ length: count }, async () => claim(ledger, await bed.payer(PRICE))));

/** Sends a transaction that delegates a payer's code (EIP-7702), at a price that puts it in front of others in its block. */
async function sendDelegation({ anvil: { url } }: Bed, payer: Payer, contractAddress: Address): Promise<void> {
  const sponsor = privateKeyToAccount(newPayer().privateKey);
  await fundGas(url, sponsor.address, 10n ** 18n);
  const authority = { contractAddress, chainId: LOCAL_CHAIN_ID, nonce: 0 };
  const authorization = await privateKeyToAccount(payer.privateKey).signAuthorization(authority);
  const raw = await sponsor.signTransaction({
    type: "eip7702",
    chainId: LOCAL_CHAIN_ID,
    nonce: 0,
    gas: 200_000n,
    to: sponsor.address,
    maxFeePerGas: 100_000_000_000n,
    maxPriorityFeePerGas: 10_000_000_000n,
    authorizationList: [authorization],
  });
  await devRpc(url, "eth_sendRawTransaction", [raw]);
}

/** Runs `change` once, behind the first transaction that is journaled: it was simulated, and is not sent yet. */
function behindFirst(change: () => Promise<void>): FaultPoints {
  let isDone = false;
  return {
    async reach(name) {
      if (name !== "engine.journal.after" || isDone) return;
      isDone = true;
      await change();
    },
  };
}

/** The one transaction that settled all of these. */
async function transactionOf(ledger: Ledger, payments: readonly PaymentRecord[]): Promise<string | undefined> {
  const ends = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.deepEqual(new Set(ends.map(({ state }) => state)), new Set(["settled"]));
  const hashes = new Set(ends.map(({ evidence }) => evidence?.transaction));
  assert.equal(hashes.size, 1, "one transaction");
  return [...hashes][0];
}

test("19 payments settle in the block of a twentieth that delegated to a gas burner behind the signed transaction, at their usual price", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const burner = await deployGasBurner(bed.anvil.url);
  const attacker = await bed.payer(PRICE);
  // A receiver's first balance takes more.
  await setTokenBalance(bed.anvil.url, { address: PAY_TO, units: 1n });
  const faults = behindFirst(() => sendDelegation(bed, attacker, burner));
  const backOff = countingBackOff();
  const modules = { ...bed.modules(ledger, faults), backOff };
  await using engine = await createEngine(bed.options([key], together(HONEST + 1)), modules);
  // In front of all others, where it would burn most.
  const attack = await claim(ledger, attacker);
  const payments = await claimMany(bed, ledger, HONEST);
  const patience = new AbortController();
  const attacking = engine.settle(attack, ANSWER, patience.signal).catch(() => undefined);
  await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
  const attackReceipt = await receiptOf(bed, await transactionOf(ledger, payments));
  assert.equal(String(attackReceipt.to).toLowerCase(), SETTLEMENT_BATCH_ADDRESS);
  const attackCode = await devRpc(bed.anvil.url, "eth_getCode", [attacker.address, attackReceipt.blockNumber]);
  assert.equal(attackCode, `0xef0100${burner.slice(2)}`);

  const { payments: others, gas: usualGas } = await settledTogether(bed, ledger);
  assert.equal(others.length, HONEST);
  const extraGas = Number(attackReceipt.gasUsed) - usualGas;
  assert.ok(extraGas <= LEFT_OUT_GAS, `${extraGas} gas for the attacker's payment`);
  await eventually("the attacker is blamed when its code refuses by itself", async () => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    return backOff.blamed.has(attacker.address.toLowerCase());
  });
  assert.equal(backOff.blamed.size, 1);
  patience.abort();
  await attacking;
  assert.equal((await stateOf(ledger, attack)).state, "signed");
  assert.equal((await gasOf(bed, key)).length, 1, "nothing more was sent");
});

/** The gas of a transaction of {@link HONEST} payments without an attacker, by another relayer. */
async function settledTogether(bed: Bed, ledger: Ledger): Promise<{ payments: PaymentRecord[]; gas: number }> {
  const options = bed.options([await bed.relayerKey()], together(HONEST));
  await using engine = await createEngine(options, bed.modules(ledger));
  const payments = await claimMany(bed, ledger, HONEST);
  await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
  const { gasUsed } = await receiptOf(bed, await transactionOf(ledger, payments));
  return { payments, gas: Number(gasUsed) };
}

test("an account that delegates to an honest wallet behind the signed transaction settles by itself, and is not blamed", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const { wallet } = await deploySwitchWallet(bed.anvil.url);
  const upgrader = await bed.payer(PRICE);
  const faults = behindFirst(() => delegateCode(bed.anvil.url, upgrader.address, wallet));
  const backOff = countingBackOff();
  await using engine = await createEngine(bed.options([key], together(3)), { ...bed.modules(ledger, faults), backOff });
  const payments = [await claim(ledger, upgrader), ...(await claimMany(bed, ledger, 2))];
  await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
  const [first, second, third] = await Promise.all(payments.map((payment) => stateOf(ledger, payment)));
  assert.equal(second?.evidence?.transaction, third?.evidence?.transaction);
  assert.notEqual(first?.evidence?.transaction, second?.evidence?.transaction);
  assert.deepEqual([...backOff.blamed], []);
  const wallets = { payer: upgrader.address, classes: [`delegate:${wallet}`] };
  assert.equal(await ledger.walletPauseSeconds(NETWORK, wallets), 0);
});

/** Settles one payment whose account has a gas burner's code in each block of its transactions, and none when it is judged. */
async function undelegatedAttack(
  bed: Bed,
  transactions: number,
): Promise<{ gas: number[]; blamed: readonly string[] }> {
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  const burner = await deployGasBurner(bed.anvil.url);
  const attacker = await bed.payer(PRICE);
  const faults: FaultPoints = {
    async reach(name) {
      if (name === "engine.journal.after") await delegateCode(bed.anvil.url, attacker.address, burner);
      if (name === "engine.receipt.seen") await delegateCode(bed.anvil.url, attacker.address, undefined);
    },
  };
  const backOff = countingBackOff();
  const patience = new AbortController();
  await using engine = await createEngine(bed.options([key], AT_ONCE), { ...bed.modules(ledger, faults), backOff });
  const attacking = engine.settle(await claim(ledger, attacker), ANSWER, patience.signal).catch(() => undefined);
  await eventually(`${transactions} transactions are mined, and judged`, async () => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    const isJudged = (await devRpc(bed.anvil.url, "eth_getCode", [attacker.address, "latest"])) === "0x";
    return isJudged && (await gasOf(bed, key)).length >= transactions;
  });
  for (let block = 0; block < 5; block++) await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  patience.abort();
  await attacking;
  return {
    gas: await gasOf(bed, key),
    blamed: [...backOff.blamed].map((payer) => (payer === attacker.address ? "attacker" : payer)),
  };
}

test("a payment by itself goes through the contract: an account that delegates behind it, and undelegates before it is judged, costs a transaction without its limit", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const { gas } = await undelegatedAttack(bed, 2);
  for (const used of gas) assert.ok(used <= LEFT_OUT_ALONE_GAS, `${used} gas lost`);
});

test("without the contract, an account that undelegates before it is judged burns one transaction, and is blamed", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  const { gas, blamed } = await undelegatedAttack(bed, 1);
  assert.deepEqual(blamed, ["attacker"]);
  assert.equal(gas.length, 1);
});

test("payments settle by Multicall3, at most eight in a transaction, when a re-organisation takes the contract", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key], { batchWindowMs: 0 }), bed.modules(ledger));
  await setCode(bed.anvil.url, SETTLEMENT_BATCH_ADDRESS, "0x");
  const payments = await claimMany(bed, ledger, 12);
  await mineUntil(bed, Promise.all(payments.map((payment) => engine.settle(payment, ANSWER, timeLimit()))));
  const ends = await Promise.all(payments.map((payment) => untilState(ledger, payment, "settled")));
  const sizes = new Map<string, number>();
  for (const { evidence } of ends) {
    const { to, transactionHash } = await receiptOf(bed, evidence?.transaction);
    assert.notEqual(String(to).toLowerCase(), SETTLEMENT_BATCH_ADDRESS);
    sizes.set(String(transactionHash), (sizes.get(String(transactionHash)) ?? 0) + 1);
  }
  const counts = [...sizes.values()];
  assert.ok(counts.every((count) => count <= MAX_UNLIMITED) && counts.some((count) => count > 1), counts.join());
});
