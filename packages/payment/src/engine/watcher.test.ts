import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, AppError, noFaults, type SettlementId, silentLog } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { NETWORK, newKey, newPayer, signPayment } from "../../test/engine-fixtures.ts";
import { newTransaction } from "../../test/ledger-fixtures.ts";
import { addressToTopic, type EvmLog, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "../evm/logs.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { signTransaction } from "../evm/transaction.ts";
import type { JournaledTransaction, Ledger, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Head, MinedTransaction, SettlementChain } from "./chain.ts";
import { OpenBatch } from "./open-batch.ts";
import type { RelayerAccount } from "./relayer-account.ts";
import type { Resolver, Settlement, Verdict } from "./resolver.ts";
import { Watcher } from "./watcher.ts";

const RELAYER: Address = "0x0a";
const RULES = { network: NETWORK, confirmations: 3, finalityBlocks: 10, blockTimeSeconds: 1 };
const headAt = (number: bigint, timeSeconds = 1_000): Head => ({ number, hash: "0x01", timeSeconds, baseFee: 0n });

/** The logs of a transaction that settles these payments. */
const paidLogs = (payments: readonly PaymentRecord[]): readonly EvmLog[] =>
  payments.flatMap(({ key, payTo, value }, at): EvmLog[] => {
    const payer = addressToTopic(key.from);
    const data: `0x${string}` = `0x${value.toString(16).padStart(64, "0")}`;
    return [
      { address: key.asset, topics: [TOPIC_AUTHORIZATION_USED, payer, key.nonce], data: "0x", index: at * 2 },
      { address: key.asset, topics: [TOPIC_TRANSFER, payer, addressToTopic(payTo)], data, index: at * 2 + 1 },
    ];
  });

const walletOf = ({ key }: PaymentRecord): WalletSubjects => ({ payer: key.from, classes: ["code:01"] });

/** A journaled transaction of the settlement contract. */
function guardedTransaction(): JournaledTransaction {
  const fields = { chainId: 84_532, nonce: 7, gasLimit: 1n, value: 0n, maxFeePerGas: 1n, maxPriorityFeePerGas: 1n };
  const transaction = { ...fields, to: SETTLEMENT_BATCH_ADDRESS, data: "0x01" } as const;
  return { ...newTransaction(), ...signTransaction(transaction, newKey()) };
}

/** One account with one open batch of two payments, on a chain that the test moves. */
async function rig(
  kind: PaymentRecord["kind"] = "eoa",
  transaction = newTransaction(),
  {
    ids = ["a", "b"],
    gasLimit = 1_000_000n,
    alone = false,
  }: { readonly ids?: readonly string[]; readonly gasLimit?: bigint; readonly alone?: boolean } = {},
) {
  const events: string[] = [];
  const lostGas: bigint[] = [];
  const clock = virtualClock(1_000_000);
  const payments = await Promise.all(
    ids.map(async (id): Promise<PaymentRecord> => {
      const signed = await signPayment(newPayer(), { validBefore: 2_000n });
      return { ...signed, kind, id: id as SettlementId, state: "signed" };
    }),
  );
  const batch = new OpenBatch(
    { id: 1n, nonce: 7, gasLimit, transactions: [transaction], payments },
    clock.monotonicMs(),
    { alone },
  );
  const chainState = {
    head: 10n,
    timeSeconds: 1_000,
    /** Time of the block that transactions are mined in. */
    minedSeconds: 1_000,
    nonce: 7,
    mined: new Map<string, MinedTransaction>(),
  };
  const bend: { verdict: Verdict; fault?: AppError; delegate?: string } = { verdict: { kind: "open", funded: true } };
  const open = new Map([[batch.nonce, batch]]);
  const account = {
    relayer: RELAYER,
    open,
    close: (closed: OpenBatch) => void open.delete(closed.nonce),
    rebroadcastOrBump: async () => undefined,
  };
  const chain: Partial<SettlementChain> = {
    poll: async (hashes) => ({
      head: headAt(chainState.head, chainState.timeSeconds),
      mined: new Map([...chainState.mined].filter(([hash]) => hashes.includes(hash))),
      nonces: new Map([[RELAYER, chainState.nonce]]),
    }),
    wallets: async () =>
      new Map(payments.filter(({ id }) => id === bend.delegate).map((payment) => [payment.id, walletOf(payment)])),
    block: async (number) => headAt(number, chainState.minedSeconds),
  };
  const resolver: Partial<Resolver> = {
    judge: async ({ id }) => {
      events.push(`judge ${id}`);
      return bend.verdict;
    },
    settle: async ({ id }) => void events.push(`settle ${id}`),
    async settleAll(items: readonly Settlement[]) {
      if (bend.fault !== undefined) throw bend.fault;
      for (const { payment, evidence } of items) events.push(`settle ${payment.id} by log ${evidence.logIndex}`);
    },
    fail: async ({ id }, reason) => void events.push(`fail ${id}: ${reason}`),
  };
  const ledger: Partial<Ledger> = {
    async endWallet(id, _network, _wallet, { gas, isLost }) {
      events.push(`${id} ${isLost ? "lost" : "settled"} gas`);
      if (isLost) lostGas.push(gas);
    },
    async failPlain({ id }, { gas, isLost }) {
      events.push(`${id} ${isLost ? "lost gas" : "failed"}`);
      lostGas.push(gas);
    },
    closeBatch: async (id, hash) => void events.push(`close ${id} by ${hash === transaction.hash ? "ours" : "empty"}`),
  };
  const watcher = new Watcher(RULES, {
    chain: chain as SettlementChain,
    ledger: ledger as Ledger,
    resolver: resolver as Resolver,
    accounts: () => [account as unknown as RelayerAccount],
    onUnpaid: ({ id }) => void events.push(`unpaid ${id}`),
    resend: ({ id }, isSuspect) => void events.push(`resend ${id}${isSuspect ? ", suspect" : ""}`),
    onRefused: ({ id }) => void events.push(`refused ${id}`),
    onShared: (settled) => void events.push(`shared: ${settled}`),
    onCost: () => undefined,
    clock,
    log: silentLog,
    faults: noFaults,
  });
  return {
    batch,
    bend,
    chainState,
    clock,
    lostGas,
    open,
    payments,
    transaction,
    mine: ({ hash }: JournaledTransaction, logs: readonly EvmLog[], succeeded = true, gas = 160_000n): void => {
      const place = { transaction: hash, blockNumber: 10n, blockHash: "0x0b" as const };
      const cost = { gas, dataFeeWei: 0n, gasPriceWei: 1n };
      chainState.mined.set(hash, { ...place, succeeded, logs, cost });
    },
    /** Looks once; what happened by that. */
    look: async (): Promise<string[]> => {
      await watcher.look(new AbortController().signal);
      return events.splice(0);
    },
  };
}

test("a mined batch settles by its own logs once it is deep enough, and never again", async () => {
  const { look, mine, transaction, payments, chainState, open } = await rig();
  assert.deepEqual(await look(), []);
  mine(transaction, paidLogs(payments));
  assert.deepEqual(await look(), [], "one confirmation of three");
  chainState.head = 11n;
  assert.deepEqual(await look(), []);
  chainState.head = 12n;
  const ended = ["settle a by log 1", "settle b by log 3", "close 1 by ours", "shared: true"];
  assert.deepEqual(await look(), ended);
  assert.equal(open.size, 0);
  assert.deepEqual(await look(), []);
});

test("a batch stays open until the ledger has its settlements", async () => {
  const { look, mine, transaction, payments, chainState, bend, open } = await rig();
  mine(transaction, paidLogs(payments));
  chainState.head = 12n;
  bend.fault = new AppError("LEDGER_UNAVAILABLE");
  assert.deepEqual(await look(), []);
  assert.equal(open.size, 1);
  delete bend.fault;
  assert.equal((await look()).filter((event) => event.startsWith("settle")).length, 2);
});

test("payments that a mined transaction did not settle are judged by the chain: sent again if they can be paid, else failed as the payer's fault", async () => {
  const { look, mine, transaction, payments, chainState } = await rig();
  mine(transaction, paidLogs(payments.slice(1)));
  chainState.head = 12n;
  const judged = ["settle b by log 1", "judge a", "unpaid a", "a failed"];
  const partly = [...judged, "close 1 by ours", "shared: false", "resend a"];
  assert.deepEqual((await look()).toSorted(), partly.toSorted());

  const spent = await rig();
  spent.bend.verdict = { kind: "spent" };
  spent.mine(spent.transaction, paidLogs(spent.payments), false);
  spent.chainState.head = 12n;
  const events = await spent.look();
  assert.ok(events.includes("unpaid a") && events.includes("unpaid b"), "a transaction that reverted has paid nothing");
  assert.ok(events.includes("a failed") && events.includes("b failed"));
  assert.deepEqual(spent.lostGas, [80_000n, 80_000n], "in equal parts");
  assert.ok(!events.some((event) => /^(settle|resend|fail)/.test(event)), events.join());
});

test("a wallet's payment that its transaction did not settle within its window has lost gas, also when that has closed by now", async () => {
  for (const verdict of [{ kind: "closed" }, { kind: "failed", reason: "PAYMENT_EXPIRED" }] as const) {
    const { look, mine, transaction, chainState, bend } = await rig("erc1271");
    mine(transaction, [], false);
    bend.verdict = verdict;
    Object.assign(chainState, { head: 12n, timeSeconds: 2_000, minedSeconds: 1_999 });
    const events = await look();
    for (const id of ["a", "b"]) assert.ok(events.includes(`${id} lost gas`) && events.includes(`unpaid ${id}`));
  }
});

test("a wallet's payment whose transaction was mined when its window had closed has lost no gas: its code did not run", async () => {
  for (const verdict of [{ kind: "closed" }, { kind: "failed", reason: "PAYMENT_EXPIRED" }] as const) {
    const { look, mine, transaction, chainState, bend } = await rig("erc1271");
    mine(transaction, [], false);
    bend.verdict = verdict;
    Object.assign(chainState, { head: 12n, timeSeconds: 2_001, minedSeconds: 2_000 });
    const events = await look();
    assert.ok(!events.some((event) => /lost|unpaid|resend/.test(event)), events.join());
  }
});

test("an account that has code by its block has lost gas, but in a transaction of the contract: that leaves it out, and it is sent again", async () => {
  const outcomes = (events: readonly string[]): string[] =>
    events.filter((event) => !/judge|close|settle b/.test(event));
  for (const [transaction, expected] of [
    [newTransaction(), ["unpaid a", "a lost gas", "shared: false"]],
    [guardedTransaction(), ["shared: true", "resend a"]],
  ] as const) {
    const { look, mine, payments, chainState, bend } = await rig("eoa", transaction);
    mine(transaction, paidLogs(payments.slice(1)));
    bend.delegate = "a";
    chainState.head = 12n;
    assert.deepEqual(outcomes(await look()).toSorted(), expected.toSorted());
  }
});

test("a plain account whose direct transaction burnt its gas is blamed and not sent again, also when it has no code any more; shared transactions stay as large", async () => {
  for (const [gas, expected] of [
    [158_290n, ["a lost gas", "unpaid a"]],
    [62_000n, ["a failed", "resend a", "unpaid a"]],
  ] as const) {
    const { look, mine, chainState, transaction } = await rig("eoa", newTransaction(), {
      ids: ["a"],
      gasLimit: 160_000n,
    });
    mine(transaction, [], false, gas);
    chainState.head = 12n;
    assert.deepEqual((await look()).toSorted(), [...expected, "close 1 by ours", "judge a"].toSorted());
  }
});

test("an account that the contract left out is blamed when it has no code any more, and not sent again when that was so twice, whatever code it has by now", async () => {
  for (const [alone, delegate, expected] of [
    [false, undefined, ["a failed", "resend a", "shared: true", "unpaid a"]],
    [false, "a", ["resend a", "shared: true"]],
    [true, undefined, ["a lost gas", "unpaid a"]],
    [true, "a", ["a lost gas", "unpaid a"]],
  ] as const) {
    const transaction = guardedTransaction();
    const { look, mine, chainState, bend, lostGas } = await rig("eoa", transaction, { ids: ["a"], alone });
    if (delegate !== undefined) bend.delegate = delegate;
    mine(transaction, [], true, 30_300n);
    chainState.head = 12n;
    const events = (await look()).filter((event) => !/judge|close/.test(event));
    assert.deepEqual(events.toSorted(), expected, `${alone} ${delegate}`);
    assert.deepEqual(lostGas, alone || delegate === undefined ? [30_300n] : []);
  }
});

test("a transaction of the contract that reverted, or was mined outside the payment's window, blames no account", async () => {
  for (const [succeeded, minedSeconds] of [
    [false, 1_000],
    [true, 2_000],
    [true, 0],
  ] as const) {
    const { look, mine, transaction, chainState } = await rig("eoa", guardedTransaction(), { ids: ["a"], alone: true });
    mine(transaction, [], succeeded, 30_300n);
    Object.assign(chainState, { head: 12n, timeSeconds: 2_000, minedSeconds });
    assert.deepEqual(
      (await look()).filter((event) => /unpaid|lost/.test(event)),
      [],
      `${succeeded} ${minedSeconds}`,
    );
  }
});

test("an account that the contract left out for its code is not blamed when its window has closed since", async () => {
  for (const [delegate, isBlamed] of [
    ["a", false],
    [undefined, true],
  ] as const) {
    const { look, mine, payments, chainState, bend, transaction } = await rig("eoa", guardedTransaction());
    mine(transaction, paidLogs(payments.slice(1)));
    bend.verdict = { kind: "failed", reason: "PAYMENT_EXPIRED" };
    if (delegate !== undefined) bend.delegate = delegate;
    Object.assign(chainState, { head: 12n, timeSeconds: 2_000, minedSeconds: 1_999 });
    assert.equal((await look()).includes("unpaid a"), isBlamed);
  }
});

test("payments by Multicall3 that failed while none burnt the gas of others are their payers' doing; where one may have, none is blamed", async () => {
  for (const [gas, isBlamed] of [
    [500_000n, true],
    [500_001n, false],
  ] as const) {
    const { look, mine, payments, transaction, chainState } = await rig();
    mine(transaction, paidLogs(payments.slice(1)), true, gas);
    chainState.head = 12n;
    assert.equal((await look()).includes("a failed"), isBlamed);
  }
});

test("payments of one payer that failed in one transaction are one loss", async () => {
  const { look, mine, payments, batch, chainState, lostGas, transaction } = await rig("eoa", guardedTransaction());
  const [first, second] = payments;
  if (first !== undefined && second !== undefined) Object.assign(second.key, { from: first.key.from });
  mine(transaction, [], true, 60_000n);
  chainState.head = 12n;
  const events = await look();
  assert.equal(events.filter((event) => event.endsWith("failed")).length, 1, events.join());
  assert.deepEqual(lostGas, [60_000n]);
  assert.equal(batch.payments.length, 2);
});

test("what a transaction used to settle others is not the loss of the account that it did not settle", async () => {
  for (const [gas, expected] of [
    [110_000n, 70_000n],
    [30_000n, 0n],
  ] as const) {
    const { look, mine, payments, transaction, chainState, bend, lostGas } = await rig();
    mine(transaction, paidLogs(payments.slice(1)), true, gas);
    bend.delegate = "a";
    chainState.head = 12n;
    await look();
    assert.deepEqual(lostGas, [expected]);
  }
});

test("an empty transaction of the nonce settles nothing, and its payments go into others", async () => {
  const { look, mine, batch, chainState } = await rig();
  const empty = { ...newTransaction(), cancels: true };
  batch.transactions.push(empty);
  batch.rejected = true;
  // Logs that are not of our call: a cancellation carries no payment.
  mine(empty, []);
  chainState.head = 12n;
  assert.deepEqual(await look(), ["close 1 by empty", "shared: false", "resend a, suspect", "resend b, suspect"]);
});

test("a nonce that a foreign transaction used gives the batch up, but not before nodes had time to show ours", async () => {
  const { look, chainState, clock, mine, transaction, payments, open } = await rig();
  chainState.nonce = 8;
  assert.deepEqual(await look(), []);
  clock.advance(5_999);
  assert.deepEqual(await look(), []);
  mine(transaction, paidLogs(payments));
  assert.deepEqual(await look(), [], "it was ours");
  chainState.mined.clear();
  clock.advance(1_000);
  assert.deepEqual(await look(), [], "the time begins anew");
  clock.advance(6_000);
  assert.deepEqual(await look(), ["close 1 by ours"]);
  assert.equal(open.size, 0);
});

test("a payment whose window closes while its transaction waits is judged once a second, and fails only by the chain", async () => {
  const { look, bend, clock, payments, batch } = await rig();
  const late = { ...payments[0], validBefore: 1_000n } as PaymentRecord;
  batch.unresolved.set(late.id, late);
  bend.verdict = { kind: "unclear" };
  assert.deepEqual(await look(), ["judge a"]);
  assert.deepEqual(await look(), []);
  clock.advance(1_000);
  bend.verdict = { kind: "failed", reason: "PAYMENT_EXPIRED" };
  assert.deepEqual(await look(), ["judge a", "fail a: PAYMENT_EXPIRED"]);
  clock.advance(1_000);
  assert.deepEqual(await look(), [], "it has one end");
});
