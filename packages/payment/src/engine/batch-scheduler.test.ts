import assert from "node:assert/strict";
import { test } from "node:test";
import { AppError, noMetrics, type SettlementId, silentLog } from "@turnpike/base";
import { MULTICALL3_ADDRESS } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { encodeAbiParameters, parseAbiParameters } from "viem";
import { ANSWER, NETWORK, newPayer, signPayment } from "../../test/engine-fixtures.ts";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../evm/settlement-batch.ts";
import { MAX_UNLIMITED } from "./batch-contract.ts";
import { BatchScheduler } from "./batch-scheduler.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { GasCosts } from "./gas-costs.ts";
import { HeadTracker } from "./head-tracker.ts";
import { ProfitGuard } from "./profit-guard.ts";
import type { QueueItem } from "./queue.ts";
import type { RelayerAccount } from "./relayer-account.ts";

const GWEI = 1_000_000_000n;
const GAS = { perTransfer: 100_000n, perWallet: 400_000n, perDeployment: 2_000_000n };
const FEES = { maxFeePerGasWei: 10n * GWEI, priorityFeeWei: GWEI, bumpPercent: 12.5 };
/** Selector of EIP-3009 `authorizationState(address,bytes32)`. */
const AUTHORIZATION_STATE = "0xe94a0102";
const RESULTS = parseAbiParameters("(bool success, bytes returnData)[]");

/** A scheduler with two accounts that settle at once, a node that simulates all payments as `chain` says, and a log of both. */
function rig({ maxBatch = 4, isUsed = true }: { readonly maxBatch?: number; readonly isUsed?: boolean } = {}) {
  const events: string[] = [];
  const clock = virtualClock(1_000_000_000_000);
  const chain = { baseFee: GWEI, timeSeconds: 1_000_000_000, simulation: "good" as "good" | "reverts" | "silent" };
  const stop = new AbortController();
  let shared = 0;
  const contract = {
    isUsed,
    limit: (max: number) => (contract.isUsed ? max : Math.min(max, MAX_UNLIMITED)),
    distrust: () => {
      contract.isUsed = false;
    },
  };
  const answer = ({ method, params }: RpcCall): RpcReply => {
    if (method === "eth_getCode") return { ok: true, result: "0x" };
    if (method === "eth_estimateGas") return { ok: true, result: "0x10000" };
    const { to, data } = params[0] as { readonly to: string; readonly data: string };
    if (data.startsWith(AUTHORIZATION_STATE)) return { ok: true, result: `0x${"0".repeat(64)}` };
    if (chain.simulation === "reverts") return { ok: false, code: 3, message: "execution reverted" };
    // A call of an account without code succeeds.
    if (to === SETTLEMENT_BATCH_ADDRESS && !contract.isUsed) return { ok: true, result: "0x" };
    const results = Array.from({ length: shared }, () => ({ success: true, returnData: "0x" as const }));
    return { ok: true, result: shared > 1 || contract.isUsed ? encodeAbiParameters(RESULTS, [results]) : "0x" };
  };
  const rpc: Partial<EvmRpc> = {
    async batch(calls) {
      if (chain.simulation === "silent") throw new AppError("SETTLEMENT_UNAVAILABLE");
      shared = calls.filter(({ method }) => method === "eth_getCode").length;
      return calls.map(answer);
    },
  };
  let onHeadRead = (): void => undefined;
  const read: Partial<SettlementChain> = {
    async head(): Promise<Head> {
      onHeadRead();
      return { number: 1n, hash: "0x01", ...chain };
    },
  };
  const account = (relayer: string) => {
    const settle = async (items: readonly QueueItem[]): Promise<readonly QueueItem[]> => {
      if (items.length > 0) events.push(`${relayer}: ${items.map(({ payment }) => payment.id).join()}`);
      return [];
    };
    return { relayer, open: new Map<number, unknown>(), openUnshared: 0, ready: () => true, settle };
  };
  const accounts = [account("first"), account("second")];
  const head = new HeadTracker({ chain: read as SettlementChain, clock, onNewBlock: () => undefined });
  const net = { network: NETWORK, multicall3: MULTICALL3_ADDRESS, blockTimeSeconds: 2, minRelayerBalanceWei: 0n };
  const bounds = { maxBatch, batchWindowMs: 1_000, bumpAfterMs: 1, maxOpenBatches: 4 };
  const policy = { fees: FEES, gas: GAS, ...bounds };
  const costs = new GasCosts(GAS, () => 0);
  const guard = new ProfitGuard(
    {
      net: {
        ...net,
        ...bounds,
        ...FEES,
        gasPerTransfer: GAS.perTransfer,
        gasPerWallet: GAS.perWallet,
        gasPerDeployment: GAS.perDeployment,
        confirmations: 1,
        finalityBlocks: 1,
        relayerKeys: [],
        holdMs: 0,
        holdReserveMs: 0,
      },
      fees: FEES,
      maxBatch: () => maxBatch,
    },
    { costs, head: () => head.seen, clock, log: silentLog, metrics: noMetrics },
  );
  const scheduler = new BatchScheduler(
    { net, policy, chainTimeoutMs: 60_000, maxQueueMs: 10_000 },
    {
      rpc: rpc as EvmRpc,
      places: { ask: async () => ({ admission: "admitted" }) },
      ledger: { failingPayers: async () => new Set() },
      head,
      guard,
      contract,
      clock,
      log: silentLog,
      signal: stop.signal,
      accounts: () => accounts as unknown as readonly RelayerAccount[],
      track: () => undefined,
    },
  );
  const push = async (id: string, validBefore = 2_000_000_000n): Promise<QueueItem> => {
    const payment = { ...(await signPayment(newPayer(), { validBefore })), id: id as SettlementId };
    const item: QueueItem = {
      payment,
      answer: ANSWER,
      queuedAtMs: clock.monotonicMs(),
      alone: false,
      commit: () => undefined,
      reject: ({ code }) => void events.push(`reject ${id}: ${code}`),
    };
    scheduler.push(item);
    return item;
  };
  const seen = async (...expected: string[]): Promise<void> => {
    await eventually(`events: ${expected.join()}`, () => events.length >= expected.length);
    assert.deepEqual(events.splice(0), expected);
  };
  const close = (): void => {
    stop.abort();
    scheduler.close();
  };
  /** Runs this whenever a batch that was begun reads the newest block. */
  const whenHeadIsRead = (run: () => void): void => {
    onHeadRead = run;
  };
  return {
    scheduler,
    accounts,
    clock,
    chain,
    contract,
    events,
    push,
    seen,
    whenHeadIsRead,
    [Symbol.dispose]: close,
  };
}

test("payments of one turn share a batch, and the accounts take batches in turn", async () => {
  using bed = rig();
  await bed.push("a");
  await bed.push("b");
  bed.scheduler.scheduleAfterTurn();
  await bed.seen("first: a,b");
  await bed.push("c");
  bed.scheduler.schedule();
  await bed.seen("second: c");
});

test("while a batch is open, the next one waits until it is full or its window is over", async () => {
  using bed = rig();
  bed.accounts[0]?.open.set(1, {});
  await bed.push("a");
  bed.scheduler.schedule();
  await bed.seen();
  bed.clock.advance(1_000);
  bed.scheduler.schedule();
  await bed.seen("first: a");
  for (const id of ["b", "c", "d", "e"]) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen("second: b,c,d,e");
});

test("a payment whose window ends before the next block is rejected, and the others are settled", async () => {
  using bed = rig();
  await bed.push("late", BigInt(bed.chain.timeSeconds + 2));
  await bed.push("a");
  bed.scheduler.schedule();
  await bed.seen("reject late: PAYMENT_EXPIRED", "first: a");
});

test("nothing is settled while the base fee is over the cap", async () => {
  using bed = rig();
  bed.chain.baseFee = FEES.maxFeePerGasWei;
  await bed.push("a");
  bed.scheduler.schedule();
  await bed.seen("reject a: SETTLEMENT_UNAVAILABLE");
});

test("a shared transaction that would fail as a whole is not sent: its payments go by themselves", async () => {
  using bed = rig();
  bed.chain.simulation = "reverts";
  await bed.push("a");
  await bed.push("b");
  bed.scheduler.schedule();
  // Alone, the first finds that the contract does not answer, and both go without it.
  await eventually("it is not used any more", () => {
    bed.scheduler.schedule();
    return !bed.contract.isUsed;
  });
  bed.clock.advance(250);
  await eventually("both are tried", () => {
    bed.scheduler.schedule();
    return bed.events.length === 2;
  });
  assert.deepEqual(bed.events.toSorted(), [
    "reject a: PAYMENT_SIMULATION_FAILED",
    "reject b: PAYMENT_SIMULATION_FAILED",
  ]);
});

test("a batch that the chain cannot simulate waits, is tried again, and is rejected when its time is over", async () => {
  using bed = rig();
  bed.chain.simulation = "silent";
  await bed.push("a");
  bed.scheduler.schedule();
  await eventually(
    "it waits again",
    () =>
      bed.scheduler.size === 1 && bed.accounts.every((one) => bed.scheduler.isIdle(one as unknown as RelayerAccount)),
  );
  await bed.seen();
  bed.chain.simulation = "good";
  bed.clock.advance(250);
  bed.scheduler.schedule();
  await bed.seen("second: a");
  bed.chain.simulation = "silent";
  await bed.push("b");
  bed.clock.advance(10_001);
  bed.scheduler.rejectStale();
  await bed.seen("reject b: SETTLEMENT_UNAVAILABLE");
});

test("payments that were spoiled in a shared transaction share smaller ones, and larger ones again by and by", async () => {
  using bed = rig();
  bed.scheduler.onShared(false);
  for (const id of ["a", "b", "c"]) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen("first: a,b", "second: c");
  bed.scheduler.onShared(true);
  for (const id of ["d", "e", "f", "g"]) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen("first: d,e,f,g");
});

test("without the contract, three spoiled transactions of eight leave one payment to each, whatever the maximum", async () => {
  using bed = rig({ maxBatch: 50, isUsed: false });
  const ids = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
  for (const id of ids(8, "a")) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen(`first: ${ids(8, "a").join()}`);
  for (let loss = 0; loss < 3; loss++) bed.scheduler.onShared(false);
  for (const id of ids(2, "b")) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen("second: b0", "first: b1");
  for (let success = 0; success < 9; success++) bed.scheduler.onShared(true);
  for (const id of ids(9, "c")) await bed.push(id);
  bed.scheduler.schedule();
  await bed.seen(`second: ${ids(8, "c").join()}`, "first: c8");
});

test("a batch that was begun for the contract does not go by Multicall3 when that is not used any more: no more than eight do", async () => {
  using bed = rig({ maxBatch: 50 });
  bed.whenHeadIsRead(() => bed.contract.distrust());
  const ids = Array.from({ length: MAX_UNLIMITED + 4 }, (_, at) => `a${at}`);
  for (const id of ids) await bed.push(id);
  bed.scheduler.schedule();
  await eventually("they wait again, or are settled", () => bed.scheduler.size === ids.length || bed.events.length > 0);
  bed.clock.advance(250);
  bed.scheduler.schedule();
  await bed.seen(`second: ${ids.slice(0, MAX_UNLIMITED).join()}`, `first: ${ids.slice(MAX_UNLIMITED).join()}`);
});

test("a payment whose caller has left is not queued again, and close rejects what waits", async () => {
  using bed = rig();
  bed.chain.simulation = "silent";
  const left = await bed.push("left");
  await bed.push("a");
  left.isLeft = true;
  bed.scheduler.schedule();
  await bed.seen("reject left: SETTLEMENT_UNAVAILABLE");
  bed.scheduler.close();
  await bed.seen("reject a: SHUTTING_DOWN");
});
