import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, isRecord } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { devRpc, fundGas, LOCAL_CHAIN_ID, setTokenBalance, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { encodeFunctionData, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import {
  ANSWER,
  type Bed,
  claim,
  countingBackOff,
  NETWORK,
  newPayer,
  openBedWithoutContract,
  openOwnBed,
  PAY_TO,
  type Payer,
  PRICE,
} from "../../test/engine-fixtures.ts";
import { testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";

const server = testServer();

const PAYMENTS = 200;
/** Maximum gas of the relayer's transactions: the attacker pays about 90,000 for the transfers of each block. */
const MAX_LOST_GAS = 200_000;
/** Maximum gas without the contract: of one shared transaction, and of one payment that is sent again. */
const MAX_LOST_GAS_WITHOUT_CONTRACT = 450_000;
/** Maximum number of blocks of the attack, and reconciliations without a transaction that end it. */
const MAX_BLOCKS = 25;
const IDLE_PASSES = 20;

/** Gas of a relayer's transactions by now, in their order. */
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

/** Sends a transfer of tokens, in front of all others in its block or behind them. */
async function sendTransfer(
  url: string,
  {
    payer,
    to,
    nonce,
    value,
    isInFront,
  }: {
    readonly payer: Payer;
    readonly to: Address;
    readonly nonce: number;
    readonly value: bigint;
    readonly isInFront: boolean;
  },
): Promise<void> {
  const block = await devRpc(url, "eth_getBlockByNumber", ["latest", false]);
  assert.ok(isRecord(block));
  const fees = isInFront
    ? { maxFeePerGas: 100_000_000_000n, maxPriorityFeePerGas: 10_000_000_000n }
    : { maxFeePerGas: BigInt(String(block.baseFeePerGas)) + 1n, maxPriorityFeePerGas: 0n };
  const raw = await privateKeyToAccount(payer.privateKey).signTransaction({
    type: "eip1559",
    chainId: LOCAL_CHAIN_ID,
    nonce,
    gas: 100_000n,
    to: USDC_ADDRESS,
    data: encodeFunctionData({ abi: parseAbi(["function transfer(address,uint256)"]), args: [to, value] }),
    ...fees,
  });
  await devRpc(url, "eth_sendRawTransaction", [raw]);
}

/** The ledger, and how often a reconciliation has looked for payments to send again. */
function countingPasses(ledger: Ledger): { readonly counted: Ledger; readonly passes: () => number } {
  let passes = 0;
  const counted = new Proxy(ledger, {
    get(target, name) {
      if (name === "unresolved") passes++;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { counted, passes: () => passes };
}

/** One account presents {@link PAYMENTS} at once, and has no funds while the relayer's transactions run, in each block. */
async function attack(bed: Bed): Promise<{ readonly gas: readonly number[]; readonly pauseSeconds: number }> {
  await using ledger = await bed.openLedger();
  const { url } = bed.anvil;
  const key = await bed.relayerKey();
  const relayer = privateKeyToAddress(key);
  const funds = BigInt(PAYMENTS) * PRICE;
  const payer = await bed.payer(funds);
  const other = newPayer();
  for (const { address } of [payer, other]) await fundGas(url, address, 10n ** 18n);
  await setTokenBalance(url, { address: PAY_TO, units: PRICE });
  await devRpc(url, "anvil_mine", ["0x1"]);
  const { counted, passes } = countingPasses(ledger);
  await using engine = await createEngine(bed.options([key], { batchWindowMs: 200 }), {
    ...bed.modules(counted),
    backOff: countingBackOff(),
  });
  const patience = new AbortController();
  const payments: PaymentRecord[] = [];
  for (let count = 0; count < PAYMENTS; count++) payments.push(await claim(ledger, payer));
  const settling = payments.map((payment) => engine.settle(payment, ANSWER, patience.signal).catch(() => undefined));
  const pending = async (): Promise<number> => {
    const pool = await devRpc(url, "txpool_status", []);
    return isRecord(pool) ? Number(pool.pending) : 0;
  };
  await eventually("a transaction is sent", async () => (await pending()) > 0);
  const idleSince = { passes: passes() };
  let nonce = 0;
  while (nonce < MAX_BLOCKS && passes() - idleSince.passes < IDLE_PASSES) {
    if ((await pending()) > 0) {
      await sendTransfer(url, { payer, to: other.address, nonce, value: funds, isInFront: true });
      await sendTransfer(url, { payer: other, to: payer.address, nonce, value: funds, isInFront: false });
      nonce++;
      await devRpc(url, "anvil_mine", ["0x1"]);
      assert.equal(await bed.balance(payer.address), funds, "the funds are there before and after each block");
      await eventually("the block is judged", async () => {
        const open = await ledger.openBatches(NETWORK, relayer);
        return open.length === 0 || (await pending()) > 0;
      });
      idleSince.passes = passes();
    }
    await eventually("a reconciliation has ended", async () => passes() > idleSince.passes || (await pending()) > 0);
  }
  patience.abort();
  await Promise.all(settling);
  const pauseSeconds = await ledger.walletPauseSeconds(NETWORK, { payer: payer.address, classes: [] });
  return { gas: await gasOf(bed, key), pauseSeconds };
}

const sum = (gas: readonly number[]): number => gas.reduce((total, used) => total + used, 0);

test("attack: one account whose 200 payments fail by one transfer each block, and whose funds are back behind them, costs less than it pays", async () => {
  await using bed = await openOwnBed(server(), { noMining: true });
  const { gas, pauseSeconds } = await attack(bed);
  assert.ok(sum(gas) <= MAX_LOST_GAS, `${sum(gas)} gas lost in ${gas.length} transactions: ${gas.join()}`);
  assert.ok(pauseSeconds > 0, "it may not pay for a while");
});

test("attack: without the contract, it costs no more than one shared transaction and one of a payment by itself", async () => {
  await using bed = await openBedWithoutContract(server(), { noMining: true });
  const { gas, pauseSeconds } = await attack(bed);
  assert.ok(
    sum(gas) <= MAX_LOST_GAS_WITHOUT_CONTRACT,
    `${sum(gas)} gas lost in ${gas.length} transactions: ${gas.join()}`,
  );
  assert.ok(pauseSeconds > 0, "it may not pay for a while");
});
