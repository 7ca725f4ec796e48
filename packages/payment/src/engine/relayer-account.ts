import {
  type Address,
  AppError,
  type Clock,
  type FaultPoints,
  failureCode,
  isAppError,
  type Log,
  type Metrics,
} from "@turnpike/base";
import { signTransaction } from "../evm/transaction.ts";
import type { BatchRecord, JournaledTransaction, Ledger, RelayerLease } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { type GasPolicy, settlementCall, settlementGas } from "./calls.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { bumpFees, type FeePolicy, type Fees } from "./fees.ts";
import { type Journaled, journalBatch } from "./journal.ts";
import { settlementBatchPayments, settlementBroadcastsTotal } from "./metrics.ts";
import { OpenBatch } from "./open-batch.ts";
import type { QueueItem } from "./queue.ts";

/** Bounds of a {@link RelayerAccount}'s transactions. */
export interface RelayerAccountOptions {
  readonly chainId: number;
  readonly multicall3: Address;
  readonly fees: FeePolicy;
  readonly gas: GasPolicy;
  /** Age of the oldest open batch at which it is replaced with higher fees. */
  readonly bumpAfterMs: number;
  /** How long nodes may refuse the oldest batch until it is cancelled. */
  readonly cancelAfterMs: number;
  readonly rebroadcastAfterMs: number;
  readonly maxOpenBatches: number;
  readonly sendTimeoutMs: number;
}

/** Modules of a {@link RelayerAccount}, which owns none of them. */
export interface RelayerAccountModules {
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

/** Form of a settlement transaction. */
export interface TransactionForm {
  readonly gasLimit: bigint;
  /** True when it goes through the contract SettlementBatch. */
  readonly isGuarded: boolean;
}

/** Why a transaction is sent: label `kind` of the broadcast metric. */
type BroadcastKind = "first" | "again" | "bumped" | "cancel";

/** Refusals of one batch by the ledger in a row after which its payments wait for another account. */
const MAX_REFUSALS = 5;
/** Gas limit of an empty transaction; some chains count the cost of publishing it as gas. */
const CANCEL: TransactionForm = { gasLimit: 40_000n, isGuarded: false };

/**
 * One relayer key that this process has leased: the only place that assigns its nonces. Every transaction is journaled
 * before it is sent, and is sent in nonce order.
 */
export class RelayerAccount {
  readonly relayer: Address;
  /** Native balance in wei when it was read last. */
  balance = 0n;
  readonly #opts: RelayerAccountOptions;
  readonly #modules: RelayerAccountModules;
  readonly #open = new Map<number, OpenBatch>();
  #nextNonce: number;
  #held = true;
  /** A batch is being journaled. */
  #busy = false;
  #lastSend: Promise<void> = Promise.resolve();
  #sending = 0;
  /** A node said that the balance does not cover what is open. */
  #refusedForGas = false;

  constructor(opts: RelayerAccountOptions, modules: RelayerAccountModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.relayer = modules.lease.relayer;
    this.#nextNonce = modules.lease.nextNonce;
  }

  /** Open batches by nonce. */
  get open(): ReadonlyMap<number, OpenBatch> {
    return this.#open;
  }

  get nextNonce(): number {
    return this.#nextNonce;
  }

  /** False when its lease is lost or it was stopped. */
  get held(): boolean {
    return this.#held;
  }

  /** True when nodes keep refusing its oldest batch, longer than a cancellation of it takes. */
  get stuck(): boolean {
    return this.#oldest()?.isStuck(this.#modules.clock.monotonicMs(), this.#opts.cancelAfterMs) === true;
  }

  /** Open batches of payments that may not share a transaction. */
  get openUnshared(): number {
    return [...this.#open.values()].filter(({ alone }) => alone).length;
  }

  /** True when it can take a batch now. What is behind a batch that nodes refuse could not be mined. */
  ready(minBalance: bigint): boolean {
    if (!this.#held || this.#busy || this.#open.size >= this.#opts.maxOpenBatches) return false;
    return ![...this.#open.values()].some(({ isBlocking }) => isBlocking) && !this.outOfGas(minBalance);
  }

  /** True when its balance is below this, or below what a node wanted for the batches that it refused to take. */
  outOfGas(minBalance: bigint): boolean {
    if (this.#refusedForGas && this.balance > 0n) {
      // Nodes count all transactions of an account that are not mined.
      const openCost = [...this.#open.values()].reduce((sum, { maxCost }) => sum + maxCost, 0n);
      if (this.balance >= openCost) this.#refusedForGas = false;
    }
    return this.#refusedForGas || this.balance < minBalance;
  }

  /** Signs, journals and sends one batch. Returns the items that wait for another account; the others are committed or rejected. */
  async settle(
    all: readonly QueueItem[],
    { gasLimit, isGuarded }: TransactionForm,
    fees: Fees,
  ): Promise<readonly QueueItem[]> {
    const { lease, ledger, log, signal, faults } = this.#modules;
    let items = all;
    let refusals = 0;
    this.#busy = true;
    try {
      while (items.length > 0) {
        const nonce = this.#nextNonce;
        const payments = items.map(({ payment }) => payment);
        const transaction = this.#sign(payments, nonce, { gasLimit, isGuarded }, fees);
        await faults.reach("engine.journal.before");
        const result = await journalBatch({ lease, nonce, gasLimit, transaction, items }, { ledger, log, signal });
        if (result.kind === "refused") {
          items = this.#withoutLost(items, nonce, result);
          if (!this.#held || ++refusals >= MAX_REFUSALS) return items;
          continue;
        }
        if (result.kind === "error") {
          for (const item of items) item.reject(result.error);
          return [];
        }
        const batch = this.#commit(items, { id: result.batchId, nonce, gasLimit, transaction });
        await faults.reach("engine.journal.after");
        void this.#send(batch, "first");
        return [];
      }
      return [];
    } finally {
      this.#busy = false;
    }
  }

  /** Adds batches that the ledger knows to be open and this account does not; sends them. */
  adopt(batches: readonly BatchRecord[]): void {
    for (const record of [...batches].sort((a, b) => a.nonce - b.nonce)) {
      const known = this.#open.get(record.nonce);
      if (known !== undefined) {
        known.cancelRequested = record.cancelRequested;
        continue;
      }
      this.#nextNonce = Math.max(this.#nextNonce, record.nonce + 1);
      const alone = record.payments.some(({ kind }) => kind !== "eoa");
      const batch = new OpenBatch(record, this.#modules.clock.monotonicMs(), { alone, reopened: record.reopened });
      batch.cancelRequested = record.cancelRequested;
      this.#open.set(batch.nonce, batch);
      // A cancellation that came too late is replaced first.
      if (!batch.isRevivable) void this.#send(batch, "again");
    }
  }

  /** The batch's nonce is used up. */
  close(batch: OpenBatch): void {
    this.#open.delete(batch.nonce);
    const next = this.#oldest();
    if (next !== undefined && next.nonce > batch.nonce) next.becomeOldest(this.#modules.clock.monotonicMs());
  }

  /** Sends again, or with higher fees, what has waited too long; cancels what nodes refuse or an operator wants cancelled. */
  async rebroadcastOrBump(head: Head): Promise<void> {
    const first = this.#oldest();
    if (first === undefined || !this.#held) return;
    for (const batch of this.#open.values()) {
      // One that is not the oldest cannot be mined yet: its first cancellation is enough.
      if (batch !== first && !(batch.cancelRequested && batch.newest?.cancels === false)) continue;
      const next = this.#replacement(batch, head);
      if (next !== undefined) await this.#replace(batch, next);
    }
    const nowMs = this.#modules.clock.monotonicMs();
    // A node that does not answer must not pile up attempts.
    if (this.#sending > 0) return;
    for (const batch of [...this.#open.values()].sort((a, b) => a.nonce - b.nonce)) {
      if (batch.isDue(nowMs, this.#opts.rebroadcastAfterMs)) void this.#send(batch, "again");
    }
  }

  /** The chain, or the ledger, has used up all nonces below this one. */
  skipTo(nonce: number): void {
    if (!this.#busy && nonce > this.#nextNonce) this.#nextNonce = nonce;
  }

  /** Uses up nonces that the chain waits for and no open batch has. */
  async fillGap(chainNonce: number, head: Head): Promise<void> {
    const { lease, chain, log, metrics, signal } = this.#modules;
    const { fees, maxOpenBatches } = this.#opts;
    const first = this.#oldest();
    if (first === undefined || !this.#held || chainNonce >= first.nonce) return;
    if (head.baseFee >= fees.maxFeePerGasWei) return;
    const tip = { maxFeePerGas: fees.maxFeePerGasWei, maxPriorityFeePerGas: fees.priorityFeeWei };
    const end = Math.min(first.nonce, chainNonce + maxOpenBatches);
    log.warn({ relayer: this.relayer, from: chainNonce, to: end - 1 }, "filling nonces that the chain has lost");
    for (let nonce = chainNonce; nonce < end; nonce++) {
      metrics.count(settlementBroadcastsTotal, { network: lease.network, kind: "filler" });
      await chain.send(this.#sign([], nonce, CANCEL, tip).raw, signal);
    }
  }

  /** Settles nothing more with this key. What is open stays open, for the next process that leases the key. */
  stop(): void {
    this.#held = false;
  }

  #oldest(): OpenBatch | undefined {
    let first: OpenBatch | undefined;
    for (const batch of this.#open.values()) if (first === undefined || batch.nonce < first.nonce) first = batch;
    return first;
  }

  #lose(): void {
    if (this.#held) this.#modules.log.warn({ relayer: this.relayer }, "the lease of a relayer key is lost");
    this.#held = false;
  }

  #sign(
    payments: readonly PaymentRecord[],
    nonce: number,
    { gasLimit, isGuarded }: TransactionForm,
    fees: Fees,
  ): JournaledTransaction {
    const { chainId, multicall3, gas } = this.#opts;
    const gasEach = isGuarded ? gas.perTransfer : undefined;
    const call = settlementCall(payments, { relayer: this.relayer, multicall3, gasEach });
    const transaction = { chainId, nonce, gasLimit, value: 0n, ...fees, ...call };
    return { ...fees, ...signTransaction(transaction, this.#modules.privateKey), cancels: payments.length === 0 };
  }

  /** Rejects what the ledger says is not ours any more; returns the rest, which may be journaled with the next nonce. */
  #withoutLost(
    items: readonly QueueItem[],
    nonce: number,
    { lost, leaseLost, freeNonce }: Extract<Journaled, { kind: "refused" }>,
  ): readonly QueueItem[] {
    if (leaseLost) this.#lose();
    else this.#nextNonce = freeNonce ?? nonce;
    for (const item of items) if (lost.has(item.payment.id)) item.reject(new AppError("LEDGER_FENCED"));
    return items.filter((item) => !lost.has(item.payment.id));
  }

  /** The batch is on disk: it is open from now on, and its callers may say so. */
  #commit(
    items: readonly QueueItem[],
    journaled: Pick<OpenBatch, "id" | "nonce" | "gasLimit"> & { readonly transaction: JournaledTransaction },
  ): OpenBatch {
    const { lease, clock, metrics } = this.#modules;
    this.#nextNonce = journaled.nonce + 1;
    const payments = items.map(({ payment }): PaymentRecord => ({ ...payment, state: "signed" }));
    const batch = new OpenBatch(
      { ...journaled, transactions: [journaled.transaction], payments },
      clock.monotonicMs(),
      { alone: items.some(({ alone }) => alone), suspect: items.some(({ suspect }) => suspect === true) },
    );
    this.#open.set(batch.nonce, batch);
    metrics.observe(settlementBatchPayments, payments.length, { network: lease.network });
    for (const item of items) item.commit();
    return batch;
  }

  /** In nonce order, one after another: a node may drop what comes before its turn. */
  #send(batch: OpenBatch, kind: BroadcastKind): Promise<void> {
    batch.sentAtMs = this.#modules.clock.monotonicMs();
    this.#sending++;
    this.#lastSend = this.#lastSend.then(() => this.#broadcast(batch, kind));
    return this.#lastSend;
  }

  async #broadcast(batch: OpenBatch, kind: BroadcastKind): Promise<void> {
    const { lease, chain, clock, log, metrics, faults, signal } = this.#modules;
    const { relayer } = this;
    const { nonce, newest } = batch;
    try {
      if (newest === undefined || signal.aborted || !this.#held) return;
      await faults.reach("engine.broadcast.before");
      metrics.count(settlementBroadcastsTotal, { network: lease.network, kind });
      const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#opts.sendTimeoutMs)]);
      const reply = await chain.send(newest.raw, limit);
      if (reply.kind === "no-gas") {
        this.balance = 0n;
        this.#refusedForGas = true;
        this.#modules.onNoGas();
      }
      if (reply.kind === "refused" || reply.kind === "no-gas" || reply.kind === "busy") {
        log.warn({ relayer, nonce, answer: reply.message }, "the node refuses a settlement");
      }
      batch.recordBroadcast(reply.kind, clock.monotonicMs());
      if (reply.kind === "sent" && !newest.cancels) this.#modules.onAccepted();
      await faults.reach("engine.broadcast.after");
    } catch (error) {
      log.warn({ relayer, nonce, code: failureCode(error) }, "a settlement could not be sent yet");
    } finally {
      this.#sending--;
    }
    this.#modules.onSent();
  }

  /** What replaces a batch's newest transaction now; undefined when that goes on as it is. */
  #replacement(batch: OpenBatch, head: Head): JournaledTransaction | undefined {
    const { fees: policy, gas, bumpAfterMs, cancelAfterMs } = this.#opts;
    const { newest, isRevivable } = batch;
    if (newest === undefined) return undefined;
    const nowMs = this.#modules.clock.monotonicMs();
    const isRejected = batch.isRejected(nowMs, cancelAfterMs);
    const isLate = nowMs - batch.waitingSinceMs >= bumpAfterMs;
    const cancels = (newest.cancels && !isRevivable) || isRejected || batch.cancelRequested;
    if (!isLate && !isRevivable && (newest.cancels || !cancels)) return undefined;
    // A payment past its window would be mined without being settled.
    const isOpen = ({ validBefore }: PaymentRecord): boolean => validBefore > BigInt(head.timeSeconds);
    const unresolved = [...Map.groupBy(batch.unresolved.values(), ({ key }) => key.from).values()].flat();
    const payments = cancels ? [] : unresolved.filter(isOpen);
    if (payments.length === 0 && newest.cancels && !isLate) return undefined;
    if (payments.length === 0) {
      // It costs little gas, and what is behind it waits: it may offer twice of what a settlement may.
      if (isRejected) batch.rejected = true;
      const fees = bumpFees(newest, head.baseFee, { ...policy, maxFeePerGasWei: policy.maxFeePerGasWei * 2n });
      return fees && this.#sign([], batch.nonce, CANCEL, fees);
    }
    const fees = bumpFees(newest, head.baseFee, policy);
    const kinds = payments.map(({ kind }) => kind);
    const { isGuarded } = batch;
    const isShared = payments.length > 1 || isGuarded;
    const gasLimit = payments.length < batch.payments.length ? settlementGas(kinds, gas, isShared) : batch.gasLimit;
    return fees && this.#sign(payments, batch.nonce, { gasLimit, isGuarded }, fees);
  }

  /** Journals a replacement, then sends it. */
  async #replace(batch: OpenBatch, transaction: JournaledTransaction): Promise<void> {
    const { lease, ledger, clock, log } = this.#modules;
    const { relayer } = this;
    try {
      await ledger.journalReplacement(lease, batch.id, transaction);
    } catch (error) {
      if (isAppError(error, "LEDGER_FENCED") && error.detail.lease === true) this.#lose();
      else log.warn({ relayer, code: failureCode(error) }, "a replacement could not be journaled");
      return;
    }
    batch.transactions.push(transaction);
    batch.waitingSinceMs = clock.monotonicMs();
    if (transaction.cancels) log.warn({ relayer, nonce: batch.nonce }, "cancelling a settlement transaction");
    void this.#send(batch, transaction.cancels ? "cancel" : "bumped");
  }
}
