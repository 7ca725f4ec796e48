import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, isAppError, noFaults, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { NETWORK, newPayer, signPayment } from "../../test/engine-fixtures.ts";
import {
  addressToTopic,
  type EvmLog,
  TOPIC_AUTHORIZATION_CANCELED,
  TOPIC_AUTHORIZATION_USED,
  TOPIC_TRANSFER,
} from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { Head, MinedTransaction, SettlementChain } from "./chain.ts";
import { Reconciler } from "./reconciler.ts";
import { Resolver } from "./resolver.ts";
import { Waiters } from "./waiters.ts";

const CONFIRMATIONS = 3;
const FINALITY = 10;
const START = 1_000;
const hashOf = (number: bigint): `0x${string}` => `0x${number.toString(16).padStart(64, "0")}`;
/** One block a second. */
const blockAt = (number: bigint): Head => ({
  number,
  hash: hashOf(number),
  timeSeconds: START + Number(number),
  baseFee: 0n,
});

/** A chain where the authorization was spent in one block, by these logs; nodes may lag behind or show no logs. */
function chainWith(bend: {
  readonly spentIn?: bigint;
  readonly logs?: readonly EvmLog[];
  readonly known?: bigint;
  readonly noLogs?: boolean;
  readonly fork?: boolean;
}): SettlementChain {
  const { spentIn, logs = [] } = bend;
  const mined: MinedTransaction | undefined =
    spentIn === undefined
      ? undefined
      : {
          transaction: hashOf(99n),
          blockNumber: spentIn,
          blockHash: bend.fork === true ? hashOf(77n) : hashOf(spentIn),
          succeeded: true,
          logs,
        };
  const stub: Partial<SettlementChain> = {
    block: async (number) => blockAt(number),
    blockHashes: async (numbers) => numbers.map(hashOf),
    async authorization(_key, at) {
      assert.equal(at.hash, hashOf(at.number));
      if (bend.known !== undefined && at.number > bend.known) throw new AppError("SETTLEMENT_UNAVAILABLE");
      return { used: spentIn !== undefined && at.number >= spentIn, balance: 0n };
    },
    logs: async (_asset, _topics, from, to) =>
      mined !== undefined && bend.noLogs !== true && from <= mined.blockNumber && mined.blockNumber <= to
        ? [mined.transaction]
        : [],
    mined: async () => mined,
  };
  return stub as SettlementChain;
}

const payer = newPayer();
async function newPayment(validBefore: bigint): Promise<PaymentRecord> {
  const signed = await signPayment(payer, { validBefore });
  return { ...signed, id: "stl_x" as PaymentRecord["id"], createdAtMs: START * 1_000 };
}

/** `clockSeconds`: the machine's clock, with which block times are compared. */
const judge = (chain: SettlementChain, payment: PaymentRecord, head: bigint, clockSeconds?: number) =>
  new Resolver(
    {
      network: NETWORK,
      confirmations: CONFIRMATIONS,
      finalityBlocks: FINALITY,
      blockTimeSeconds: 1,
      ...(clockSeconds === undefined ? {} : { maxLeadSeconds: 60 }),
    },
    {
      clock: virtualClock((clockSeconds ?? 0) * 1_000),
      chain,
      ledger: {} as Ledger,
      waiters: new Waiters(),
      log: silentLog,
      metrics: noMetrics,
      faults: noFaults,
    },
  ).judge(payment, blockAt(head));

test("an unused authorization fails when its window is over for good, and a lagging node says nothing", async () => {
  const payment = await newPayment(BigInt(START + 50));
  assert.deepEqual(await judge(chainWith({}), payment, 51n), { kind: "open", funded: false });
  // A re-organisation may bring a block of the window back: its payer must not sign anew yet.
  for (const head of [52n, 61n]) assert.deepEqual(await judge(chainWith({}), payment, head), { kind: "closed" });
  assert.deepEqual(await judge(chainWith({}), payment, 62n), { kind: "failed", reason: "PAYMENT_EXPIRED" });
  const unavailable = (error: unknown): boolean => isAppError(error, "SETTLEMENT_UNAVAILABLE");
  await assert.rejects(judge(chainWith({ spentIn: 49n, known: 48n }), payment, 52n), unavailable);
});

test("attack: a block far ahead of the machine's clock ends no payment", async () => {
  const payment = await newPayment(BigInt(START + 50));
  const later = 3_600n;
  assert.deepEqual(await judge(chainWith({}), payment, later, START + 40), { kind: "unclear" });
  assert.deepEqual(await judge(chainWith({ spentIn: 40n, noLogs: true }), payment, later, START + 40), {
    kind: "unclear",
  });
  assert.deepEqual(await judge(chainWith({}), payment, 40n, START + 40), { kind: "open", funded: false });
  const failed = { kind: "failed", reason: "PAYMENT_EXPIRED" };
  assert.deepEqual(await judge(chainWith({}), payment, later, START + 3_600), failed);
});

test("attack: a failed payment is looked at once more, after blocks take to be final, before it is looked at no more", async () => {
  const clock = virtualClock(1_000_000);
  const payment = { ...(await newPayment(1_000n)), state: "failed" as const, updatedAtMs: clock.nowMs() };
  const swept: unknown[] = [];
  const ledger = { unswept: async () => [payment], swept: async (ids: unknown) => void swept.push(ids) };
  const rules = { network: NETWORK, confirmations: CONFIRMATIONS, finalityBlocks: FINALITY, blockTimeSeconds: 1 };
  const modules = {
    chain: chainWith({}),
    ledger: ledger as Partial<Ledger> as Ledger,
    log: silentLog,
    metrics: noMetrics,
    clock,
  };
  const resolver = new Resolver(rules, { ...modules, waiters: new Waiters(), faults: noFaults });
  const sweep = () => new Reconciler(rules, { ...modules, resolver }).sweep(blockAt(60n), new AbortController().signal);
  await sweep();
  assert.deepEqual(swept, []);
  clock.advance(FINALITY * 1_000);
  await sweep();
  assert.deepEqual(swept, [[payment.id]]);
});

test("a used one ends by a log deep enough: paid; or, when its block is final, cancelled or used for something else", async () => {
  const payment = await newPayment(BigInt(START + 500));
  const { asset, from, nonce } = payment.key;
  const log = (index: number, topics: EvmLog["topics"], data: EvmLog["data"] = "0x"): EvmLog => ({
    address: asset,
    topics,
    data,
    index,
  });
  const used = log(4, [TOPIC_AUTHORIZATION_USED, addressToTopic(from), nonce]);
  const data: `0x${string}` = `0x${payment.value.toString(16).padStart(64, "0")}`;
  const moved = log(5, [TOPIC_TRANSFER, addressToTopic(from), addressToTopic(payment.payTo)], data);
  const paid = chainWith({ spentIn: 50n, logs: [used, moved] });
  assert.equal((await judge(paid, payment, 51n)).kind, "open", "not deep enough");
  assert.deepEqual(await judge(paid, payment, 52n), {
    kind: "settled",
    evidence: { transaction: hashOf(99n), blockNumber: 50n, blockHash: hashOf(50n), logIndex: 5 },
  });
  const failed = { kind: "failed", reason: "PAYMENT_NONCE_USED" } as const;
  const spent = { kind: "spent" } as const;
  const cancelled = log(4, [TOPIC_AUTHORIZATION_CANCELED, addressToTopic(from), nonce]);
  for (const logs of [[cancelled], [used]]) {
    // A re-organisation may take the block of the use: its payer must not sign anew yet.
    for (const head of [52n, 59n]) {
      assert.deepEqual(await judge(chainWith({ spentIn: 50n, logs }), payment, head), spent);
    }
    assert.deepEqual(await judge(chainWith({ spentIn: 50n, logs }), payment, 60n), failed);
  }
  // Cancelled after its window had closed for good: nothing can settle it any more.
  const late = await newPayment(BigInt(START + 40));
  assert.deepEqual(await judge(chainWith({ spentIn: 50n, logs: [cancelled] }), late, 52n), failed);
  // A receipt without the event, or of another fork, is no verdict.
  assert.deepEqual(await judge(chainWith({ spentIn: 50n, logs: [moved] }), payment, 52n), { kind: "unclear" });
  const fork = chainWith({ spentIn: 50n, logs: [used], fork: true });
  assert.deepEqual(await judge(fork, payment, 52n), { kind: "unclear" });
});

test("a used one of which no node shows a log fails when its window is closed for good, and not before", async () => {
  const payment = await newPayment(BigInt(START + 50));
  const silent = chainWith({ spentIn: 40n, noLogs: true });
  for (let look = 0; look < 20; look++) assert.equal((await judge(silent, payment, 59n)).kind, "unclear");
  assert.deepEqual(await judge(silent, payment, 60n), { kind: "failed", reason: "PAYMENT_NONCE_USED" });
});

test("a sweep lets what was not used be deleted, and keeps what was used by something that no node shows", async () => {
  const released: PaymentRecord = { ...(await newPayment(BigInt(START + 50))), state: "released" };
  const sweep = async (bend: Parameters<typeof chainWith>[0], head: bigint): Promise<readonly unknown[]> => {
    const calls: unknown[] = [];
    const stub: Partial<Ledger> = {
      unswept: async () => [released],
      swept: async (ids, isKept = false) => void calls.push([ids, isKept]),
    };
    const chain = chainWith(bend);
    const ledger = stub as Ledger;
    const rules = { network: NETWORK, confirmations: CONFIRMATIONS, finalityBlocks: FINALITY, blockTimeSeconds: 1 };
    const modules = { chain, ledger, log: silentLog, metrics: noMetrics, clock: systemClock };
    const resolver = new Resolver(rules, { ...modules, waiters: new Waiters(), faults: noFaults });
    await new Reconciler(rules, { ...modules, resolver }).sweep(blockAt(head), AbortSignal.timeout(60_000));
    return calls;
  };
  const ids = [released.id];
  assert.deepEqual(await sweep({}, 60n), [[ids, false]]);
  assert.deepEqual(await sweep({ spentIn: 40n, noLogs: true }, 60n), [], "it is looked at again");
  // The second call finds nothing: it was swept by the first.
  assert.deepEqual(await sweep({ spentIn: 40n, noLogs: true }, 3_660n), [
    [ids, true],
    [ids, false],
  ]);
});

test("attack: only what this process has committed is evidence to those who wait for a settlement", async () => {
  const payment = await newPayment(2_000n);
  const evidence = { transaction: hashOf(99n), blockNumber: 5n, blockHash: hashOf(5n), logIndex: 1 };
  const refuse = (): Promise<never> => Promise.reject(new AppError("INTERNAL"));
  const cases: readonly [string, Partial<Ledger>, unknown][] = [
    ["committed", { settledAll: async () => {} }, evidence],
    ["committed by itself", { settledAll: refuse, settled: async () => {} }, evidence],
    [
      "ended otherwise by another process",
      { settledAll: refuse, settled: refuse, get: async () => ({ ...payment, state: "disputed" }) },
      undefined,
    ],
    ["claimed anew under another id", { settledAll: refuse, settled: refuse, get: async () => undefined }, "waits"],
    [
      "not known to be committed",
      { settledAll: () => Promise.reject(new AppError("LEDGER_UNAVAILABLE", { detail: { unknown: true } })) },
      "waits",
    ],
  ];
  for (const [name, ledger, told] of cases) {
    const waiters = new Waiters();
    const resolver = new Resolver(
      { network: NETWORK, confirmations: CONFIRMATIONS, finalityBlocks: FINALITY, blockTimeSeconds: 1 },
      {
        clock: systemClock,
        chain: chainWith({}),
        ledger: ledger as Ledger,
        waiters,
        log: silentLog,
        metrics: noMetrics,
        faults: noFaults,
      },
    );
    const end = new AbortController();
    let heard: unknown = "waits";
    const waiting = waiters.wait(payment.id, end.signal).then((found) => {
      heard = found;
    });
    await resolver.settle(payment, evidence).catch(() => undefined);
    if (told === "waits") assert.equal(heard, "waits", name);
    else {
      await waiting;
      assert.deepEqual(heard, told, name);
    }
    end.abort();
    await waiting;
  }
});
