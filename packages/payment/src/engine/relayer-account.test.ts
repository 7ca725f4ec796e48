import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, noFaults, noMetrics, type SettlementId, silentLog } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { MULTICALL3_ADDRESS } from "@turnpike/localnet";
import { virtualClock } from "@turnpike/testkit";
import { ANSWER, NETWORK, newKey, newPayer, signPayment } from "../../test/engine-fixtures.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { transactionTarget } from "../evm/transaction.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Broadcast, Head, SettlementChain } from "./chain.ts";
import type { QueueItem } from "./queue.ts";
import { RelayerAccount } from "./relayer-account.ts";

const GWEI = 1_000_000_000n;
const FEES = { maxFeePerGas: 2n * GWEI, maxPriorityFeePerGas: GWEI };
const HEAD: Head = { number: 1n, hash: "0x01", timeSeconds: 0, baseFee: GWEI };
const FORM = { gasLimit: 240_000n, isGuarded: false };
const BUMP_MS = 10_000;
const CANCEL_MS = 500;

/** An account whose ledger and node write down what they are asked; both answer as the test says. */
function rig() {
  const events: string[] = [];
  const clock = virtualClock(1_000_000);
  const privateKey = newKey();
  const node = { answer: "sent" as Broadcast };
  const refusals: AppError[] = [];
  const ledger: Partial<Ledger> = {
    async journal({ nonce, items }) {
      events.push(`journal ${nonce}: ${items.map(({ id }) => id).join()}`);
      const refusal = refusals.shift();
      if (refusal !== undefined) throw refusal;
      return { batchId: BigInt(nonce) };
    },
    async journalReplacement(_lease, id, { cancels }) {
      events.push(`journal ${cancels ? "cancellation" : "replacement"} of ${id}`);
    },
  };
  const chain: Partial<SettlementChain> = {
    async send() {
      events.push(`send: ${node.answer}`);
      return { kind: node.answer, message: "" };
    },
  };
  const account = new RelayerAccount(
    {
      chainId: 84_532,
      multicall3: MULTICALL3_ADDRESS,
      fees: { maxFeePerGasWei: 100n * GWEI, priorityFeeWei: GWEI, bumpPercent: 12.5 },
      gas: { perTransfer: 100_000n, perWallet: 400_000n, perDeployment: 2_000_000n },
      bumpAfterMs: BUMP_MS,
      cancelAfterMs: CANCEL_MS,
      rebroadcastAfterMs: 2_000,
      maxOpenBatches: 4,
      sendTimeoutMs: 60_000,
    },
    {
      lease: { network: NETWORK, relayer: privateKeyToAddress(privateKey), epoch: 1n, nextNonce: 7 },
      privateKey,
      ledger: ledger as Ledger,
      chain: chain as SettlementChain,
      clock,
      log: silentLog,
      metrics: noMetrics,
      faults: noFaults,
      signal: AbortSignal.timeout(60_000),
      onSent: () => undefined,
      onAccepted: () => undefined,
      onNoGas: () => undefined,
    },
  );
  account.balance = 10n ** 18n;
  const item = async (id: string): Promise<QueueItem> => {
    const payment = { ...(await signPayment(newPayer())), id: id as SettlementId };
    const commit = (): void => void events.push(`commit ${id}`);
    const reject = ({ code }: AppError): void => void events.push(`reject ${id}: ${code}`);
    return { payment, answer: ANSWER, queuedAtMs: 0, alone: false, commit, reject };
  };
  /** What happened since it was asked last. */
  const taken = async (): Promise<string[]> => {
    await nextTurn();
    return events.splice(0);
  };
  return { account, clock, node, refusals, item, taken };
}

test("a batch is journaled, then committed to its callers, then sent; the next one has the next nonce", async () => {
  const { account, item, taken } = rig();
  assert.deepEqual(await account.settle([await item("a"), await item("b")], FORM, FEES), []);
  assert.deepEqual(await taken(), ["journal 7: a,b", "commit a", "commit b", "send: sent"]);
  await account.settle([await item("c")], { ...FORM, gasLimit: 140_000n }, FEES);
  assert.deepEqual(await taken(), ["journal 8: c", "commit c", "send: sent"]);
  assert.deepEqual([...account.open.keys()], [7, 8]);
});

test("what the ledger says is lost is rejected, and the rest is journaled again with the nonce that it names", async () => {
  const { account, refusals, item, taken } = rig();
  refusals.push(new AppError("LEDGER_FENCED", { detail: { lost: ["a"], nextNonce: 9 } }));
  assert.deepEqual(await account.settle([await item("a"), await item("b")], FORM, FEES), []);
  assert.deepEqual(await taken(), [
    "journal 7: a,b",
    "reject a: LEDGER_FENCED",
    "journal 9: b",
    "commit b",
    "send: sent",
  ]);
});

test("without the lease nothing is sent, and the payments are returned for another account", async () => {
  const { account, refusals, item, taken } = rig();
  refusals.push(new AppError("LEDGER_FENCED", { detail: { lease: true } }));
  const items = [await item("a")];
  assert.deepEqual(await account.settle(items, { ...FORM, gasLimit: 140_000n }, FEES), items);
  assert.deepEqual(await taken(), ["journal 7: a"]);
  assert.equal(account.held, false);
  assert.equal(account.ready(0n), false);
});

test("a late batch is replaced with higher fees, which are journaled before they are sent", async () => {
  const { account, clock, item, taken } = rig();
  await account.settle([await item("a")], { ...FORM, gasLimit: 140_000n }, FEES);
  await taken();
  await account.rebroadcastOrBump(HEAD);
  assert.deepEqual(await taken(), [], "too early");
  clock.advance(BUMP_MS);
  await account.rebroadcastOrBump(HEAD);
  assert.deepEqual(await taken(), ["journal replacement of 7", "send: sent"]);
  const [first, second] = account.open.get(7)?.transactions ?? [];
  assert.deepEqual(
    [first?.maxFeePerGas, second?.maxFeePerGas],
    [2n * GWEI, 3n * GWEI],
    "at least what a first one would offer",
  );
});

test("what replaces a transaction of the settlement contract goes through it, too, also after a restart", async () => {
  const { account, clock, item } = rig();
  await account.settle([await item("a"), await item("b")], { ...FORM, isGuarded: true }, FEES);
  const batch = account.open.get(7);
  assert.ok(batch !== undefined);
  // As it is read from the ledger.
  account.close(batch);
  const { id, nonce, gasLimit, transactions } = batch;
  const payments = batch.payments.map((payment): PaymentRecord => ({ ...payment, state: "signed" }));
  const place = { network: NETWORK, relayer: account.relayer, state: "open", createdAtMs: 0 } as const;
  account.adopt([{ ...place, id, nonce, gasLimit, transactions, payments, cancelRequested: false, reopened: false }]);
  clock.advance(BUMP_MS);
  await account.rebroadcastOrBump(HEAD);
  const targets = account.open.get(7)?.transactions.map(({ raw }) => transactionTarget(raw));
  assert.deepEqual(targets, [SETTLEMENT_BATCH_ADDRESS, SETTLEMENT_BATCH_ADDRESS]);
});

test("a batch that nodes keep refusing blocks the account, and is cancelled when they have refused it long enough", async () => {
  const { account, clock, node, item, taken } = rig();
  node.answer = "refused";
  await account.settle([await item("a")], { ...FORM, gasLimit: 140_000n }, FEES);
  await taken();
  assert.equal(account.ready(0n), false, "what is behind it could not be mined");
  clock.advance(CANCEL_MS);
  await account.rebroadcastOrBump(HEAD);
  assert.deepEqual(await taken(), ["send: refused"], "a node may refuse once by mistake");
  node.answer = "sent";
  await account.rebroadcastOrBump(HEAD);
  assert.deepEqual(await taken(), ["journal cancellation of 7", "send: sent"]);
  assert.equal(account.open.get(7)?.rejected, true);
  assert.equal(account.ready(0n), true);
});

test("a node that wants more gas money stops the account until its balance covers what is open", async () => {
  const { account, node, item, taken } = rig();
  node.answer = "no-gas";
  await account.settle([await item("a")], { ...FORM, gasLimit: 140_000n }, FEES);
  await taken();
  assert.equal(account.balance, 0n);
  account.balance = 140_000n * FEES.maxFeePerGas - 1n;
  assert.equal(account.outOfGas(0n), true);
  account.balance++;
  assert.equal(account.outOfGas(0n), false);
});
