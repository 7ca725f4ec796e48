import {
  type Address,
  AppError,
  type Clock,
  type FaultPoints,
  failureCode,
  isAppError,
  type Log,
  type Metrics,
  type SettlementId,
} from "@turnpike/base";
import { signTransaction } from "../evm/transaction.ts";
import type { BatchRecord, JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { type GasPolicy, settlementCall, settlementGas } from "./calls.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { bumpFees, type FeePolicy, type Fees } from "./fees.ts";
import { journalBatch } from "./journal.ts";
import { batchSize, broadcastsTotal } from "./metrics.ts";
import type { QueueItem } from "./queue.ts";

/**
 * A journaled batch whose nonce is not used up yet. It ends in one of three ways: a transaction with payments is mined;
 * an empty one is, which cancels it; or a foreign transaction took the nonce. What it has not settled by then is judged by
 * the chain, and goes into further batches by itself while it can still be settled.
 */
export interface OpenBatch {
  readonly id: bigint;
  readonly nonce: number;
  readonly gasLimit: bigint;
  /** Oldest first; the last one is what is sent again. */
  readonly transactions: JournaledTransaction[];
  /** All payments that its first transaction carries; replacements leave out those that are resolved by then. */
  readonly payments: readonly PaymentRecord[];
  /** True when it has one payment, that may not share a transaction. */
  readonly alone: boolean;
  /** Those of them that are not resolved. */
  readonly unresolved: Map<SettlementId, PaymentRecord>;
  /** Monotonic milliseconds of the last attempt to send. */
  sentAtMs: number;
  /** Monotonic milliseconds since when its fees could have got it mined. */
  waitingSinceMs: number;
  /** Monotonic milliseconds since when its nonce is used up and none of its transactions is seen as mined. */
  usedSinceMs: number | undefined;
  /** How often in a row nodes refused its newest transaction, and since when (monotonic milliseconds). */
  refusals: number;
  refusedSinceMs: number;
  /** It is cancelled since nodes refuse it. */
  rejected: boolean;
  /** Nodes refused an earlier transaction of its payment, so that it is cancelled as soon as they refuse this one. */
  readonly suspect: boolean;
  /** A node has accepted a transaction of it. */
  accepted: boolean;
  /** An operator wants it cancelled. */
  cancelRequested: boolean;
  /** A re-organisation has taken its block: what was settled by it must settle again. */
  readonly reopened: boolean;
  /** Monotonic milliseconds when payments of it were judged whose window is closed. */
  judgedAtMs: number;
}

/** Options of {@link createLane}. */
export interface LaneOptions {
  readonly chainId: number;
  readonly multicall3: Address;
  readonly fees: FeePolicy;
  readonly gas: GasPolicy;
  readonly bumpAfterMs: number;
  /** How long nodes may refuse the oldest batch until it is cancelled. */
  readonly cancelAfterMs: number;
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
  /** Called when a node accepts a transaction with payments. */
  readonly onAccepted: () => void;
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
  /** True when nodes keep refusing its oldest batch, longer than a cancellation of it takes. */
  readonly stuck: boolean;
  /** Open batches of payments that may not share a transaction. */
  readonly openLoners: number;
  /** Signs, journals and sends one batch. Items that could not be committed are given back or rejected. */
  settle(items: readonly QueueItem[], gasLimit: bigint, fees: Fees): Promise<readonly QueueItem[]>;
  /** Adds batches that the ledger knows to be open and this lane does not; sends them. */
  adopt(batches: readonly BatchRecord[]): void;
  /** The batch's nonce is used up. */
  close(batch: OpenBatch): void;
  /** Sends again, or with higher fees, what has waited too long, and cancels what nodes refuse or nothing waits for. */
  tend(head: Head): Promise<void>;
  /** The chain, or the ledger, has used up all nonces below this one. */
  skipTo(nonce: number): void;
  /** Uses up nonces that the chain waits for and no open batch has. */
  fillGap(chainNonce: number, head: Head): Promise<void>;
  stop(): void;
}

/** Refusals of one batch in a row after which it waits for another turn. */
const MAX_REFUSALS = 5;
/** A node may refuse once by mistake, or while it is overloaded. */
const STUCK_REFUSALS = 2;
/** Pause after the first refusal; what is behind the batch waits. Each further pause is twice as long. */
const REFUSED_PAUSE_MS = 500;
/** A cancellation that nodes accept is mined by then, and until then payments may wait for it. */
const CANCELLED_WITHIN_MS = 8_000;
/** Gas limit of an empty transaction; some chains count the cost of publishing it as gas. */
const CANCEL_GAS = 40_000n;

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
    return { ...fees, ...signed, cancels: payments.length === 0 };
  };

  /** In nonce order, one after another: a node may drop what comes before its turn. */
  const send = (batch: OpenBatch, kind: "first" | "again" | "bumped" | "cancel"): Promise<void> => {
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
        if (reply.kind === "refused" || reply.kind === "no-gas" || reply.kind === "busy") {
          log.warn({ relayer, nonce: batch.nonce, answer: reply.message }, "the node refuses a settlement");
        }
        if (reply.kind === "refused") {
          if (batch.refusals === 0) batch.refusedSinceMs = clock.monotonicMs();
          batch.refusals++;
        } else if (reply.kind !== "no-gas" && reply.kind !== "busy") batch.refusals = 0;
        if (reply.kind === "sent") {
          batch.accepted = true;
          if (!transaction.cancels) modules.onAccepted();
        }
        await faults.reach("engine.broadcast.after");
      } catch (error) {
        log.warn({ relayer, nonce: batch.nonce, code: failureCode(error) }, "a settlement could not be sent yet");
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
    record: Omit<BatchRecord, "network" | "relayer" | "createdAtMs" | "state" | "cancelRequested" | "reopened">,
    waitingSinceMs: number,
    how: { readonly alone: boolean; readonly reopened?: boolean; readonly suspect?: boolean },
  ): OpenBatch => {
    const { alone, reopened = false, suspect = false } = how;
    const batch: OpenBatch = {
      id: record.id,
      nonce: record.nonce,
      gasLimit: record.gasLimit,
      transactions: [...record.transactions],
      payments: record.payments,
      alone,
      unresolved: new Map(record.payments.filter(isPending).map((payment) => [payment.id, payment])),
      sentAtMs: waitingSinceMs,
      waitingSinceMs,
      usedSinceMs: undefined,
      refusals: 0,
      refusedSinceMs: 0,
      rejected: false,
      suspect,
      accepted: false,
      cancelRequested: false,
      reopened,
      judgedAtMs: Number.NEGATIVE_INFINITY,
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

  /** What is behind a batch that nodes refuse could not be mined, so the lane takes no other. */
  const isBlocked = (): boolean =>
    [...open.values()].some(({ refusals, suspect, accepted }) => refusals > 0 || (suspect && !accepted));

  /** True when nodes have refused a batch often and long enough. */
  const isRejected = ({ refusals, suspect, refusedSinceMs }: OpenBatch, nowMs: number): boolean =>
    suspect ? refusals > 0 : refusals >= STUCK_REFUSALS && nowMs - refusedSinceMs >= opts.cancelAfterMs;

  const isStuck = (): boolean => {
    const first = oldest();
    if (first === undefined || first.refusals < STUCK_REFUSALS) return false;
    return clock.monotonicMs() - first.refusedSinceMs >= opts.cancelAfterMs + CANCELLED_WITHIN_MS;
  };

  const isDue = (batch: OpenBatch, nowMs: number): boolean => {
    const pauseMs = batch.refusals === 0 ? opts.rebroadcastAfterMs : REFUSED_PAUSE_MS * 2 ** (batch.refusals - 1);
    return nowMs - batch.sentAtMs >= Math.min(pauseMs, opts.rebroadcastAfterMs);
  };

  /** What replaces a batch's newest transaction now; undefined when that goes on as it is. */
  const replacement = (batch: OpenBatch, head: Head): JournaledTransaction | undefined => {
    const last = batch.transactions.at(-1);
    if (last === undefined) return undefined;
    const nowMs = clock.monotonicMs();
    const isRefused = isRejected(batch, nowMs);
    const isLate = nowMs - batch.waitingSinceMs >= opts.bumpAfterMs;
    const isRevived = isRevivable(batch);
    const cancels = (last.cancels && !isRevived) || isRefused || batch.cancelRequested;
    if (!isLate && !isRevived && (last.cancels || !cancels)) return undefined;
    // What is past its window would be mined in vain.
    const isOpen = ({ validBefore }: PaymentRecord): boolean => validBefore > BigInt(head.timeSeconds);
    const payments = cancels ? [] : [...batch.unresolved.values()].filter(isOpen);
    if (payments.length === 0 && last.cancels && !isLate) return undefined;
    if (payments.length === 0) {
      // It costs little gas, and what is behind it waits: it may offer twice of what a settlement may.
      if (isRefused) batch.rejected = true;
      const fees = bumpFees(last, head.baseFee, { ...opts.fees, maxFeePerGasWei: opts.fees.maxFeePerGasWei * 2n });
      return fees && sign([], batch.nonce, CANCEL_GAS, fees);
    }
    const fees = bumpFees(last, head.baseFee, opts.fees);
    const kinds = payments.map(({ kind }) => kind);
    const gasLimit = payments.length < batch.payments.length ? settlementGas(kinds, opts.gas) : batch.gasLimit;
    return fees && sign(payments, batch.nonce, gasLimit, fees);
  };

  const replace = async (batch: OpenBatch, transaction: JournaledTransaction): Promise<void> => {
    try {
      await ledger.journalReplacement(lease, batch.id, transaction);
    } catch (error) {
      if (isAppError(error, "LEDGER_FENCED") && error.detail.lease === true) lose();
      else log.warn({ relayer, code: failureCode(error) }, "a replacement could not be journaled");
      return;
    }
    batch.transactions.push(transaction);
    batch.waitingSinceMs = clock.monotonicMs();
    if (transaction.cancels) log.warn({ relayer, nonce: batch.nonce }, "cancelling a settlement transaction");
    void send(batch, transaction.cancels ? "cancel" : "bumped");
  };

  const adopt = (batches: readonly BatchRecord[]): void => {
    for (const record of [...batches].sort((a, b) => a.nonce - b.nonce)) {
      const known = open.get(record.nonce);
      if (known !== undefined) {
        known.cancelRequested = record.cancelRequested;
        continue;
      }
      nextNonce = Math.max(nextNonce, record.nonce + 1);
      const alone = record.payments.some(({ kind }) => kind !== "eoa");
      const batch = add(record, clock.monotonicMs(), { alone, reopened: record.reopened });
      batch.cancelRequested = record.cancelRequested;
      // A cancellation that came too late is replaced first.
      if (!isRevivable(batch)) void send(batch, "again");
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
    get stuck() {
      return isStuck();
    },
    get openLoners() {
      return [...open.values()].filter(({ alone }) => alone).length;
    },
    ready: (minBalance) => held && !busy && open.size < opts.maxOpenBatches && !isBlocked() && !outOfGas(minBalance),
    outOfGas,

    async settle(all, gasLimit, fees) {
      busy = true;
      let items = all;
      let refusals = 0;
      try {
        while (items.length > 0) {
          const nonce = nextNonce;
          const payments = items.map(({ payment }) => payment);
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
            { alone: items.some(({ alone }) => alone), suspect: items.some(({ suspect }) => suspect === true) },
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
      // What was behind it could not be mined before: its time starts now, and what nodes refused may be taken now.
      if (next !== undefined && next.nonce > batch.nonce) {
        next.waitingSinceMs = clock.monotonicMs();
        if (next.refusals > 0) next.sentAtMs = Number.NEGATIVE_INFINITY;
        next.refusals = 0;
      }
    },

    async tend(head) {
      const first = oldest();
      if (first === undefined || !held) return;
      for (const batch of open.values()) {
        // One that is not the oldest cannot be mined yet: its first cancellation is enough.
        if (batch !== first && !(batch.cancelRequested && batch.transactions.at(-1)?.cancels === false)) continue;
        const next = replacement(batch, head);
        if (next !== undefined) await replace(batch, next);
      }
      const nowMs = clock.monotonicMs();
      // A node that does not answer must not pile up attempts.
      if (sending > 0) return;
      for (const batch of [...open.values()].sort((a, b) => a.nonce - b.nonce)) {
        if (isDue(batch, nowMs)) void send(batch, "again");
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
        await chain.send(sign([], nonce, CANCEL_GAS, fees).raw, signal);
      }
    },

    stop() {
      held = false;
    },
  };
}

/** A re-organisation gave it back, and what was journaled last was to cancel it: its payments were settled, and are again. */
function isRevivable({ transactions, reopened, cancelRequested }: OpenBatch): boolean {
  return reopened && !cancelRequested && transactions.at(-1)?.cancels === true;
}

function isPending({ state }: PaymentRecord): boolean {
  return state === "signed" || state === "submitted" || state === "claimed";
}

function asSigned(payment: PaymentRecord): PaymentRecord {
  return { ...payment, state: "signed" };
}
