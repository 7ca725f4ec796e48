import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, type FaultPoints, isRecord } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, LOCAL_CHAIN_ID, setCode, setTokenBalance } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { delegateCode, deployGasBurner, deploySwitchWallet, sendFromNewAccount } from "@turnpike/testkit/servers";
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
import {
  SETTLEMENT_BATCH_ADDRESS,
  SETTLEMENT_BATCH_CODE,
  SETTLEMENT_BATCH_DEPLOYMENT,
} from "../evm/settlement-batch.ts";
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
/** Maximum gas limit of a direct transfer to a receiver without a balance. */
const DIRECT_GAS = 110_000;

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

/** Prices of a transaction that put it in front of a settlement in its block, and behind it. */
const IN_FRONT = { maxFeePerGas: 100_000_000_000n, maxPriorityFeePerGas: 10_000_000_000n };
const behind = (baseFee: bigint) => ({ maxFeePerGas: baseFee + 1n, maxPriorityFeePerGas: 0n });
const NO_CONTRACT: Address = `0x${"0".repeat(40)}`;

/** Sends a transaction that delegates a payer's code (EIP-7702); {@link NO_CONTRACT} ends that. */
async function sendDelegation(
  { anvil: { url } }: Bed,
  payer: Payer,
  contractAddress: Address,
  { nonce, fees }: { readonly nonce: number; readonly fees: typeof IN_FRONT } = { nonce: 0, fees: IN_FRONT },
): Promise<void> {
  const sponsor = privateKeyToAccount(newPayer().privateKey);
  await fundGas(url, sponsor.address, 10n ** 18n);
  const authority = { contractAddress, chainId: LOCAL_CHAIN_ID, nonce };
  const authorization = await privateKeyToAccount(payer.privateKey).signAuthorization(authority);
  const raw = await sponsor.signTransaction({
    type: "eip7702",
    chainId: LOCAL_CHAIN_ID,
    nonce: 0,
    gas: 200_000n,
    to: sponsor.address,
    ...fees,
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

/** Waits until a payment is not sent again, since its transactions did not settle it. */
async function givenUp(ledger: Ledger, { id, key }: PaymentRecord): Promise<void> {
  await eventually("the payment is given up", async () => {
    return (await ledger.admitWallet(id, NETWORK, { payer: key.from, classes: [] })) === "lost";
  });
}

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
  const attack = await claim(ledger, attacker);
  const attacking = engine.settle(attack, ANSWER, patience.signal).catch(() => undefined);
  await eventually(`${transactions} transactions are mined, and judged`, async () => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    const isJudged = (await devRpc(bed.anvil.url, "eth_getCode", [attacker.address, "latest"])) === "0x";
    return isJudged && (await gasOf(bed, key)).length >= transactions;
  });
  await givenUp(ledger, attack);
  for (let block = 0; block < 5; block++) await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  patience.abort();
  await attacking;
  return {
    gas: await gasOf(bed, key),
    blamed: [...backOff.blamed].map((payer) => (payer === attacker.address ? "attacker" : payer)),
  };
}

test("attack: an account that delegates behind each signed transaction, and undelegates before it is judged, costs two without their limit, is blamed, and is not sent again", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const { gas, blamed } = await undelegatedAttack(bed, 2);
  for (const used of gas) assert.ok(used <= LEFT_OUT_ALONE_GAS, `${used} gas lost`);
  assert.deepEqual(blamed, ["attacker"]);
  assert.equal(gas.length, 2, gas.join());
});

test("attack: so does one that delegates in front of each transaction and undelegates behind it in the same block (EIP-7702), which has code in no block's state", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const { url } = bed.anvil;
  const key = await bed.relayerKey();
  const burner = await deployGasBurner(url);
  const attacker = await bed.payer(PRICE);
  let nonce = 0;
  const faults: FaultPoints = {
    async reach(name) {
      if (name !== "engine.journal.after") return;
      const block = await devRpc(url, "eth_getBlockByNumber", ["latest", false]);
      assert.ok(isRecord(block));
      await sendDelegation(bed, attacker, burner, { nonce: nonce++, fees: IN_FRONT });
      const fees = behind(BigInt(String(block.baseFeePerGas)));
      await sendDelegation(bed, attacker, NO_CONTRACT, { nonce: nonce++, fees });
    },
  };
  const backOff = countingBackOff();
  const patience = new AbortController();
  await using engine = await createEngine(bed.options([key], AT_ONCE), { ...bed.modules(ledger, faults), backOff });
  const attack = await claim(ledger, attacker);
  const attacking = engine.settle(attack, ANSWER, patience.signal).catch(() => undefined);
  for (const round of ["first", "second"]) {
    await eventually(`the ${round} transaction waits between its payer's two`, async () => {
      const pool = await devRpc(url, "txpool_status", []);
      return isRecord(pool) && Number(pool.pending) === 3;
    });
    await devRpc(url, "anvil_mine", ["0x1"]);
    assert.equal(await devRpc(url, "eth_getCode", [attacker.address, "latest"]), "0x");
  }
  await givenUp(ledger, attack);
  patience.abort();
  await attacking;
  const gas = await gasOf(bed, key);
  assert.equal(gas.length, 2, gas.join());
  for (const used of gas) assert.ok(used <= LEFT_OUT_ALONE_GAS, `${used} gas lost`);
  assert.deepEqual([...backOff.blamed], [attacker.address.toLowerCase()]);
  assert.equal((await stateOf(ledger, attack)).state, "signed");
});

test("without the contract, an account that undelegates before it is judged burns one transaction little above what a transfer takes, and is blamed", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  const { gas, blamed } = await undelegatedAttack(bed, 1);
  assert.deepEqual(blamed, ["attacker"]);
  assert.equal(gas.length, 1);
  assert.ok(Number(gas[0]) <= DIRECT_GAS, `${gas[0]} gas lost`);
});

test("without the contract, a payment settles whose receiver spent all that it had behind the signed transaction", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const receiver = newPayer().address;
  const setBalance = (units: bigint): Promise<void> => setTokenBalance(bed.anvil.url, { address: receiver, units });
  await setBalance(PRICE);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
  const faults = behindFirst(() => setBalance(0n));
  const key = await bed.relayerKey();
  await using engine = await createEngine(bed.options([key], AT_ONCE), bed.modules(ledger, faults));
  const payment = await claim(ledger, await bed.payer(PRICE), { to: receiver });
  await mineUntil(bed, engine.settle(payment, ANSWER, timeLimit()));
  assert.equal(await bed.balance(receiver), PRICE);
  assert.equal((await gasOf(bed, key)).length, 1);
});

test("a contract whose deployment a re-organisation takes behind the signed transaction is not called: that would succeed, and settle nothing", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  await using ledger = await bed.openLedger();
  const { url } = bed.anvil;
  const [key, payer] = [await bed.relayerKey(), await bed.payer(PRICE)];
  await devRpc(url, "anvil_mine", ["0x5"]);
  await sendFromNewAccount(url, { ...SETTLEMENT_BATCH_DEPLOYMENT, gas: "0x80000" });
  await devRpc(url, "anvil_mine", ["0x1"]);
  const codeNow = (): Promise<unknown> => devRpc(url, "eth_getCode", [SETTLEMENT_BATCH_ADDRESS, "latest"]);
  assert.equal(await codeNow(), SETTLEMENT_BATCH_CODE);
  const reorganisation = Promise.withResolvers<void>();
  const faults = behindFirst(async () => {
    await devRpc(url, "anvil_rollback", [1]);
    reorganisation.resolve();
  });
  await using engine = await createEngine(bed.options([key], AT_ONCE), bed.modules(ledger, faults));
  const settling = engine.settle(await claim(ledger, payer), ANSWER, timeLimit());
  await Promise.race([reorganisation.promise, settling]);
  await mineUntil(bed, settling);
  assert.equal(await codeNow(), "0x", "it is taken");
  assert.equal((await gasOf(bed, key)).length, 1, "transactions of the relayer");
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
