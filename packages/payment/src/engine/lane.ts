import {
  type Address,
  AppError,
  type Clock,
  type FaultPoints,
  isAppError,
  type Log,
  type Metrics,
  type SettlementId,
} from "@turnpike/base";
import { signTransaction } from "../evm/transaction.ts";
import type { BatchRecord, JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { settlementCall } from "./calls.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { bumpFees, type FeePolicy, type Fees } from "./fees.ts";
import { journalBatch } from "./journal.ts";
import { batchSize, broadcastsTotal } from "./metrics.ts";
import type { QueueItem } from "./queue.ts";

/** A journaled batch that is not mined yet. */
export interface OpenBatch {
  readonly id: bigint;
  readonly nonce: number;
  readonly gasLimit: bigint;
  /** Oldest first; the last one is what is sent again. */
  readonly transactions: JournaledTransaction[];
  /** All payments that the transaction carries. */
  readonly payments: readonly PaymentRecord[];
  /** Those of them that are not resolved. */
  readonly unresolved: Map<SettlementId, PaymentRecord>;
  /** Monotonic milliseconds of the last attempt to send. */
  sentAtMs: number;
  /** Monotonic milliseconds since when its fees could have got it mined. */
  waitingSinceMs: number;
  /** Monotonic milliseconds since when its nonce is used up and none of its transactions is seen as mined. */
  usedSinceMs: number | undefined;
}

/** Options of {@link createLane}. */
export interface LaneOptions {
  readonly chainId: number;
  readonly multicall3: Address;
  readonly fees: FeePolicy;
  readonly bumpAfterMs: number;
  readonly rebroadcastAfterMs: number;
  readonly maxOpenBatches: number;
  readonly sendTimeoutMs: number;
}

/** What {@link createLane} works with. */
export interface LaneModules {
  readonly lease: RelayerLease;
  readonly privateKey: Uint8Array;
  readonly ledger: Ledger;
  readonly chain: SettlementChain;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  readonly signal: AbortSignal;
  /** Called after a transaction was sent: its receipt may be there at once. */
  readonly onSent: () => void;
  /** Called when a node refuses a transaction because the relayer cannot pay its gas. */
  readonly onNoGas: () => void;
}

/** One relayer key that this process holds: the only place that gives its nonces out. */
export interface Lane {
  readonly relayer: Address;
  /** By nonce. */
  readonly open: ReadonlyMap<number, OpenBatch>;
  readonly nextNonce: number;
  /** Native balance in wei when it was read last. */
  balance: bigint;
  /** False when its lease is lost or it was stopped. */
  readonly held: boolean;
  /** True when it can take a batch now. */
  ready(minBalance: bigint): boolean;
  /** True when its balance is below this, or below what a node wanted for the batches that it refused to take. */
  outOfGas(minBalance: bigint): boolean;
  /** Open batches of contract wallets. */
  readonly openWallets: number;
  /** Signs, journals and sends one batch. Items that could not be committed are given back or rejected. */
  settle(
    items: readonly QueueItem[],
    gasLimit: (payments: readonly PaymentRecord[]) => bigint,
    fees: Fees,
  ): Promise<readonly QueueItem[]>;
  /** Adds batches that the ledger knows to be open and this lane does not; sends them. */
  adopt(batches: readonly BatchRecord[]): void;
  /** The batch's nonce is used up. */
  close(batch: OpenBatch): void;
  /** Sends again or with higher fees what has waited too long. */
  tend(head: Head): Promise<void>;
  /** The chain, or the ledger, has used up all nonces below this one. */
  skipTo(nonce: number): void;
  /** Uses up nonces that the chain waits for and no open batch has. */
  fillGap(chainNonce: number, head: Head): Promise<void>;
  stop(): void;
}

/** Refusals of one batch in a row after which it waits for another turn. */
const MAX_REFUSALS = 5;

/** Creates the lane of a leased relayer key. */
export function createLane(opts: LaneOptions, modules: LaneModules): Lane {
  const { lease, privateKey, ledger, chain, clock, log, metrics, faults, signal } = modules;
  const { relayer, network } = lease;
  const open = new Map<number, OpenBatch>();
  let nextNonce = lease.nextNonce;
  let busy = false;
  let held = true;
  let balance = 0n;
  let lastSend: Promise<void> = Promise.resolve();
  let sending = 0;
  /** A node said that the balance does not cover what is open. */
  let refusedForGas = false;

  const sign = (
    payments: readonly PaymentRecord[],
    nonce: number,
    gasLimit: bigint,
    fees: Fees,
  ): JournaledTransaction => {
    const call = settlementCall(payments, opts.multicall3, relayer);
    const { chainId } = opts;
    const signed = signTransaction({ chainId, nonce, gasLimit, value: 0n, ...fees, ...call }, privateKey);
    return { ...fees, ...signed };
  };

  /** In nonce order, one after another: a node may drop what comes before its turn. */
  const send = (batch: OpenBatch, kind: "first" | "again" | "bumped"): Promise<void> => {
    batch.sentAtMs = clock.monotonicMs();
    sending++;
    lastSend = lastSend.then(async () => {
      const transaction = batch.transactions.at(-1);
      try {
        if (transaction === undefined || signal.aborted || !held) return;
        await faults.reach("engine.broadcast.before");
        metrics.count(broadcastsTotal, { network, kind });
        const reply = await chain.send(
          transaction.raw,
          AbortSignal.any([signal, AbortSignal.timeout(opts.sendTimeoutMs)]),
        );
        if (reply.kind === "no-gas") {
          balance = 0n;
          refusedForGas = true;
          modules.onNoGas();
        }
        if (reply.kind === "refused" || reply.kind === "no-gas") {
          log.warn({ relayer, nonce: batch.nonce, answer: reply.message }, "the node refuses a settlement");
        }
        await faults.reach("engine.broadcast.after");
      } catch (error) {
        log.warn({ relayer, nonce: batch.nonce, code: codeOf(error) }, "a settlement could not be sent yet");
      } finally {
        sending--;
      }
      modules.onSent();
    });
    return lastSend;
  };

  const lose = (): void => {
    if (held) log.warn({ relayer }, "the lease of a relayer key is lost");
    held = false;
  };

  const add = (
    record: Omit<BatchRecord, "network" | "relayer" | "createdAtMs" | "state">,
    waitingSinceMs: number,
  ): OpenBatch => {
    const batch: OpenBatch = {
      id: record.id,
      nonce: record.nonce,
      gasLimit: record.gasLimit,
      transactions: [...record.transactions],
      payments: record.payments,
      unresolved: new Map(record.payments.filter(isPending).map((payment) => [payment.id, payment])),
      sentAtMs: waitingSinceMs,
      waitingSinceMs,
      usedSinceMs: undefined,
    };
    open.set(batch.nonce, batch);
    return batch;
  };

  const oldest = (): OpenBatch | undefined => {
    let first: OpenBatch | undefined;
    for (const batch of open.values()) if (first === undefined || batch.nonce < first.nonce) first = batch;
    return first;
  };

  /** Nodes count all transactions of an account that are not mined. */
  const openCost = (): bigint =>
    [...open.values()].reduce(
      (sum, { gasLimit, transactions }) => sum + gasLimit * (transactions.at(-1)?.maxFeePerGas ?? 0n),
      0n,
    );

  const outOfGas = (minBalance: bigint): boolean => {
    if (refusedForGas && balance > 0n && balance >= openCost()) refusedForGas = false;
    return refusedForGas || balance < minBalance;
  };

  const adopt = (batches: readonly BatchRecord[]): void => {
    for (const record of [...batches].sort((a, b) => a.nonce - b.nonce)) {
      if (open.has(record.nonce)) continue;
      nextNonce = Math.max(nextNonce, record.nonce + 1);
      void send(add(record, clock.monotonicMs()), "again");
    }
  };

  return {
    relayer,
    open,
    get nextNonce() {
      return nextNonce;
    },
    get held() {
      return held;
    },
    get balance() {
      return balance;
    },
    set balance(wei) {
      balance = wei;
    },
    get openWallets() {
      return [...open.values()].filter(({ payments }) => payments.some(({ kind }) => kind !== "eoa")).length;
    },
    ready: (minBalance) => held && !busy && open.size < opts.maxOpenBatches && !outOfGas(minBalance),
    outOfGas,

    async settle(all, gasLimitOf, fees) {
      busy = true;
      let items = all;
      let refusals = 0;
      try {
        while (items.length > 0) {
          const nonce = nextNonce;
          const payments = items.map(({ payment }) => payment);
          const gasLimit = gasLimitOf(payments);
          const transaction = sign(payments, nonce, gasLimit, fees);
          await faults.reach("engine.journal.before");
          const result = await journalBatch({ lease, nonce, gasLimit, transaction, items }, { ledger, log, signal });
          if (result.kind === "refused") {
            if (result.leaseLost) lose();
            else nextNonce = result.freeNonce ?? nonce;
            for (const item of items) if (result.lost.has(item.payment.id)) item.reject(new AppError("LEDGER_FENCED"));
            items = items.filter((item) => !result.lost.has(item.payment.id));
            if (!held || ++refusals >= MAX_REFUSALS) return items;
            continue;
          }
          if (result.kind === "error") {
            for (const item of items) item.reject(result.error);
            return [];
          }
          nextNonce = nonce + 1;
          const batch = add(
            { id: result.batchId, nonce, gasLimit, transactions: [transaction], payments: payments.map(asSigned) },
            clock.monotonicMs(),
          );
          metrics.observe(batchSize, payments.length, { network });
          for (const item of items) item.commit();
          items = [];
          await faults.reach("engine.journal.after");
          void send(batch, "first");
        }
        return [];
      } finally {
        busy = false;
      }
    },

    adopt,

    close(batch) {
      open.delete(batch.nonce);
      const next = oldest();
      // What was behind it could not be mined before: its time starts now.
      if (next !== undefined && next.nonce > batch.nonce) next.waitingSinceMs = clock.monotonicMs();
    },

    async tend(head) {
      const first = oldest();
      if (first === undefined || !held) return;
      const nowMs = clock.monotonicMs();
      const last = first.transactions.at(-1);
      if (last !== undefined && nowMs - first.waitingSinceMs >= opts.bumpAfterMs) {
        const fees = bumpFees(last, head.baseFee, opts.fees);
        if (fees !== undefined) {
          const replacement = sign(first.payments, first.nonce, first.gasLimit, fees);
          try {
            await ledger.journalReplacement(lease, first.id, replacement);
            first.transactions.push(replacement);
            first.waitingSinceMs = nowMs;
            void send(first, "bumped");
          } catch (error) {
            if (isAppError(error, "LEDGER_FENCED") && error.detail.lease === true) lose();
            else log.warn({ relayer, code: codeOf(error) }, "a replacement could not be journaled");
          }
        }
      }
      // A node that does not answer must not pile up attempts.
      if (sending > 0) return;
      for (const batch of [...open.values()].sort((a, b) => a.nonce - b.nonce)) {
        if (nowMs - batch.sentAtMs >= opts.rebroadcastAfterMs) void send(batch, "again");
      }
    },

    skipTo(nonce) {
      if (!busy && nonce > nextNonce) nextNonce = nonce;
    },

    async fillGap(chainNonce, head) {
      const first = oldest();
      if (first === undefined || !held || chainNonce >= first.nonce) return;
      const tip = { maxFeePerGas: opts.fees.maxFeePerGasWei, maxPriorityFeePerGas: opts.fees.priorityFeeWei };
      const fees = head.baseFee >= opts.fees.maxFeePerGasWei ? undefined : tip;
      if (fees === undefined) return;
      const end = Math.min(first.nonce, chainNonce + opts.maxOpenBatches);
      log.warn({ relayer, from: chainNonce, to: end - 1 }, "filling nonces that the chain has lost");
      for (let nonce = chainNonce; nonce < end; nonce++) {
        metrics.count(broadcastsTotal, { network, kind: "filler" });
        await chain.send(sign([], nonce, 40_000n, fees).raw, signal);
      }
    },

    stop() {
      held = false;
    },
  };
}

function isPending({ state }: PaymentRecord): boolean {
  return state === "signed" || state === "submitted" || state === "claimed";
}

function asSigned(payment: PaymentRecord): PaymentRecord {
  return { ...payment, state: "signed" };
}

function codeOf(error: unknown): string {
  return isAppError(error) ? error.code : "unknown";
}
