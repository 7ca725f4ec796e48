import {
  AppError,
  type Clock,
  type ErrorCode,
  FaultLogThrottle,
  failureCode,
  isAppError,
  type Log,
} from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import type { Ledger } from "../ledger-types.ts";
import type { BackOff } from "../verify/back-off.ts";
import type { BatchContract } from "./batch-contract.ts";
import { settlementGas } from "./calls.ts";
import type { Head } from "./chain.ts";
import { type Fees, firstFees } from "./fees.ts";
import type { NetworkPolicy } from "./gas-policy.ts";
import type { HeadTracker } from "./head-tracker.ts";
import type { EngineNetwork } from "./options.ts";
import type { ProfitGuard } from "./profit-guard.ts";
import { type QueueItem, SettleQueue } from "./queue.ts";
import type { RelayerAccount } from "./relayer-account.ts";
import { type SimulatedBatch, type SimulationOptions, simulateBatch } from "./simulation.ts";
import { restMs, type WalletPlaces } from "./wallet-places.ts";

/** Bounds of a {@link BatchScheduler}. */
export interface BatchSchedulerOptions {
  readonly net: Pick<EngineNetwork, "network" | "multicall3" | "blockTimeSeconds" | "minRelayerBalanceWei">;
  readonly policy: NetworkPolicy;
  /** Longest wait for one answer of the chain. */
  readonly chainTimeoutMs: number;
  /** Longest wait of a payment for a batch, beside the time for which the profit rule holds it. */
  readonly maxQueueMs: number;
}

/** Modules of a {@link BatchScheduler}, which owns none of them. */
export interface BatchSchedulerModules {
  readonly rpc: EvmRpc;
  readonly places: Pick<WalletPlaces, "ask">;
  readonly ledger: Pick<Ledger, "failingPayers">;
  readonly head: HeadTracker;
  readonly guard: ProfitGuard;
  readonly contract: Pick<BatchContract, "isUsed" | "limit" | "distrust">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The accounts that this process has leased now. */
  readonly accounts: () => readonly RelayerAccount[];
  /** Waits for a batch that is being made when the engine ends. */
  readonly track: (job: Promise<unknown>) => void;
  readonly backOff?: Pick<BackOff, "failed"> | undefined;
}

/** Pause after the chain could not say what a batch would do. */
const RETRY_MS = 250;
const MAX_HEAD_AGE_MS = 1_000;
/** Maximum number of questions at once. */
const MAX_ASKING = 8;

/** The queue of one network: groups its payments into batches, and gives each to a relayer account that is ready. */
export class BatchScheduler {
  readonly #opts: BatchSchedulerOptions;
  readonly #modules: BatchSchedulerModules;
  readonly #queue = new SettleQueue();
  /** Accounts that a batch is being made for. */
  readonly #busy = new Set<RelayerAccount>();
  /** Payers' code may hold up their batches, so some places are left to the others. */
  readonly #maxOpenUnshared: number;
  readonly #baseFeeFaults: FaultLogThrottle;
  readonly #run = (): void => this.schedule();
  /** Maximum number of payments that share a transaction now; less without the contract. */
  #maxShared: number;
  /** No batch is begun before; monotonic milliseconds. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #nextAccount = 0;
  #windowTimer: NodeJS.Timeout | undefined;
  #afterTurn: NodeJS.Immediate | undefined;
  /** Payments that the ledger has admitted, held ones that it is asked about now, and when others are asked about again. */
  readonly #admitted = new WeakSet<QueueItem>();
  readonly #asking = new Set<QueueItem>();
  readonly #askAgainMs = new WeakMap<QueueItem, number>();
  #restTimer: NodeJS.Timeout | undefined;

  constructor(opts: BatchSchedulerOptions, modules: BatchSchedulerModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#maxShared = opts.policy.maxBatch;
    this.#maxOpenUnshared = Math.max(1, Math.floor(opts.policy.maxOpenBatches / 2));
    this.#baseFeeFaults = new FaultLogThrottle(modules.clock);
  }

  /** Payments that wait for a batch. */
  get size(): number {
    return this.#queue.size;
  }

  /** True when no batch is being made for this account. */
  isIdle(account: RelayerAccount): boolean {
    return !this.#busy.has(account);
  }

  push(item: QueueItem): void {
    this.#hold(item);
    this.#queue.push(item);
  }

  /** True when it was still waiting. */
  remove(item: QueueItem): boolean {
    return this.#queue.remove(item);
  }

  /** While nothing is under way a payment waits only for those of its own turn of the event loop, which share its batch. */
  scheduleAfterTurn(): void {
    this.#afterTurn ??= setImmediate(this.#run);
  }

  /** Begins all batches that are due, and sets a timer for the next one. */
  schedule(): void {
    this.#clearTimers();
    this.#admitHeld();
    let begun = true;
    while (begun) begun = this.#beginBatch();
  }

  /** While third parties spoil shared transactions, fewer payments share one; by and by more again. */
  onShared(settled: boolean): void {
    const max = this.#modules.contract.limit(this.#opts.policy.maxBatch);
    const current = this.#maxTaken;
    this.#maxShared = settled ? Math.min(max, current * 2) : Math.max(1, Math.floor(current / 2));
  }

  /** Rejects what no account could take in time. */
  rejectStale(): void {
    const { clock, guard } = this.#modules;
    const stale = this.#queue.takeBefore(clock.monotonicMs() - this.#opts.maxQueueMs - guard.longestHoldMs());
    // For want of a place it is its payer that has too many in flight.
    const isPayers = (item: QueueItem): boolean => item.payment.waits === true && item.isHeld === true;
    rejectAll(stale.filter(isPayers), "PAYMENT_RATE_LIMITED");
    rejectAll(
      stale.filter((item) => !isPayers(item)),
      "SETTLEMENT_UNAVAILABLE",
    );
  }

  /** What the next transaction takes at least, in wei. An account that has less settles nothing new. */
  leastBalance(): bigint {
    const { net, policy } = this.#opts;
    const head = this.#modules.head.seen?.head;
    const fees = head && firstFees(head.baseFee, policy.fees);
    const gas = settlementGas(["eoa"], policy.gas, this.#modules.contract.isUsed);
    const cost = gas * (fees?.maxFeePerGas ?? 0n);
    return cost > net.minRelayerBalanceWei ? cost : net.minRelayerBalanceWei;
  }

  /** Begins no further batch, and rejects what waits for one. */
  close(): void {
    this.#clearTimers();
    clearTimeout(this.#restTimer);
    rejectAll(this.#queue.takeBefore(Number.POSITIVE_INFINITY), "SHUTTING_DOWN");
  }

  #clearTimers(): void {
    clearTimeout(this.#windowTimer);
    clearImmediate(this.#afterTurn);
    this.#windowTimer = undefined;
    this.#afterTurn = undefined;
  }

  /** False when no batch is due, or no account can take it. */
  #beginBatch(): boolean {
    const { accounts, signal, track } = this.#modules;
    const least = this.leastBalance();
    const ready = accounts().filter((account) => !this.#busy.has(account) && account.ready(least));
    const roomy = ready.filter(({ openUnshared }) => openUnshared < this.#maxOpenUnshared);
    // Without a ready account all wait, and their time is that of the oldest of all.
    const unshared = ready.length === 0 || roomy.length > 0;
    const oldestMs = this.#queue.oldestMs(unshared);
    if (oldestMs === undefined || signal.aborted) return false;
    const waitMs = this.#waitMs(oldestMs, unshared);
    if (waitMs > 0) {
      this.#windowTimer = setTimeout(this.#run, Math.ceil(waitMs));
      return false;
    }
    const able = roomy.length > 0 ? roomy : ready;
    const account = able[this.#nextAccount % able.length];
    if (account === undefined) return false;
    this.#nextAccount++;
    this.#busy.add(account);
    // The number of payments is bound to this: while their chain is asked, the contract may fall out of use.
    const mayGuard = this.#modules.contract.isUsed;
    const made = this.#settleBatch(account, this.#queue.take(this.#maxTaken, unshared), mayGuard).finally(() => {
      this.#busy.delete(account);
      this.schedule();
    });
    track(made);
    return true;
  }

  /** Maximum number of payments of the next transaction. */
  get #maxTaken(): number {
    return this.#modules.contract.limit(this.#maxShared);
  }

  /** How long the next batch still waits to become fuller. */
  #waitMs(oldestMs: number, unshared: boolean): number {
    const { accounts, guard, clock } = this.#modules;
    const isBusy = this.#busy.size > 0 || accounts().some(({ open }) => open.size > 0);
    const windowMs = isBusy ? this.#opts.policy.batchWindowMs : 0;
    const nowMs = clock.monotonicMs();
    const max = this.#maxTaken;
    const isFull = this.#queue.takeable(max, unshared) >= max;
    const windowLeftMs = isFull ? 0 : windowMs - (nowMs - oldestMs);
    const holdMs = isFull ? 0 : guard.holdMs(this.#queue.peek(max, unshared));
    return Math.max(windowLeftMs, holdMs, this.#notBeforeMs - nowMs);
  }

  /** Simulates a batch and settles what would succeed. Never rejects: each item is committed, rejected or queued again. */
  async #settleBatch(account: RelayerAccount, items: readonly QueueItem[], mayGuard: boolean): Promise<void> {
    const { log, guard, backOff } = this.#modules;
    try {
      const [head, sendable] = await Promise.all([this.#freshHead(), this.#withoutFailing(items)]);
      const inTime = groupByPayer(this.#rejectLate(sendable, head));
      const fees = this.#firstFees(head);
      if (fees === undefined) return rejectAll(inTime, "SETTLEMENT_UNAVAILABLE");
      const simulated = await this.#simulate(account, inTime, { fees, head, mayGuard });
      if (simulated === undefined) return;
      const { good, alone, failing } = simulated;
      rejectAll(failing, "PAYMENT_SIMULATION_FAILED");
      // Also one that is sent again: the contract left it out, which counted nothing, or it has spent its funds since.
      for (const { payment } of failing) backOff?.failed(payment);
      for (const item of alone) item.alone = true;
      guard.settling(good);
      this.#requeue([...alone, ...(await account.settle(good, simulated, fees))]);
    } catch (error) {
      log.warn({ relayer: account.relayer, code: failureCode(error) }, "a batch was not committed");
      // When the ledger cannot say, neither can we: the callers' own time limits end their wait.
      if (isAppError(error) && error.detail.unknown === true) return;
      rejectAll(items, "SETTLEMENT_UNAVAILABLE");
    }
  }

  /** Asks the ledger about held payments, some at once and the longest due first, and no account waits for that. */
  #admitHeld(): void {
    const nowMs = this.#modules.clock.monotonicMs();
    const heldItems = this.#queue.held();
    const dueMs = (item: QueueItem): number => this.#askAgainMs.get(item) ?? item.queuedAtMs;
    const due = heldItems.filter((item) => !this.#asking.has(item) && dueMs(item) <= nowMs);
    due.sort((a, b) => dueMs(a) - dueMs(b));
    for (const item of due.slice(0, MAX_ASKING - this.#asking.size)) {
      this.#asking.add(item);
      this.#modules.track(this.#admit(item));
    }
    if (heldItems.length > 0) this.#restTimer ??= setTimeout(() => this.#endRest(), restMs(0));
  }

  /** Never rejects: the payment is admitted, rejected, or asked about again after a pause. */
  async #admit(item: QueueItem): Promise<void> {
    const { places, log } = this.#modules;
    const { payment } = item;
    try {
      const { admission, wallet } = await places.ask(payment, !item.alone);
      if (admission === "admitted") {
        this.#admitted.add(item);
        item.isHeld = false;
      } else if (admission === "wait") {
        this.#askAgainMs.set(item, this.#modules.clock.monotonicMs() + restMs(this.#queue.held().length));
      } else if (this.#queue.remove(item)) {
        log.warn({ settlementId: payment.id, ...wallet, admission }, "payment got no place to be settled");
        // A payment that is signed is not sent again; its window ends it.
        item.reject(new AppError(admission === "lost" ? "LEDGER_FENCED" : "PAYMENT_SIMULATION_FAILED"));
      }
    } catch (error) {
      log.warn({ settlementId: payment.id, code: failureCode(error) }, "payment not admitted");
      // Nothing of it was signed.
      if (this.#queue.remove(item)) item.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
    } finally {
      this.#asking.delete(item);
    }
    this.schedule();
  }

  #endRest(): void {
    this.#restTimer = undefined;
    this.schedule();
  }

  #hold(item: QueueItem): void {
    if ((item.alone || item.payment.waits === true) && !this.#admitted.has(item)) item.isHeld = true;
  }

  #freshHead(): Promise<Head> {
    const { head, signal } = this.#modules;
    const { net, chainTimeoutMs } = this.#opts;
    return head.fresh(Math.min(MAX_HEAD_AGE_MS, net.blockTimeSeconds * 1_000), () =>
      AbortSignal.any([signal, AbortSignal.timeout(chainTimeoutMs)]),
    );
  }

  /** Rejects payments whose window ends before the next block, which is at least one block time away; returns the others. */
  #rejectLate(items: readonly QueueItem[], head: Head): readonly QueueItem[] {
    const soonest = BigInt(head.timeSeconds + Math.ceil(this.#opts.net.blockTimeSeconds));
    const late = items.filter(({ payment }) => soonest >= payment.validBefore);
    rejectAll(late, "PAYMENT_EXPIRED");
    return items.filter((item) => !late.includes(item));
  }

  /**
   * Holds plain payments whose payers have failed and settled nothing since, which the ledger then admits one at a time; returns
   * the others. Their places are of a time before that.
   */
  async #withoutFailing(items: readonly QueueItem[]): Promise<readonly QueueItem[]> {
    const shared = items.filter(({ alone }) => !alone);
    if (shared.length === 0) return items;
    const payers = new Set(shared.map(({ payment }) => payment.key.from));
    const failing = await this.#modules.ledger.failingPayers(this.#opts.net.network, [...payers]);
    if (failing.size === 0) return items;
    const held = shared.filter(({ payment }) => failing.has(payment.key.from));
    for (const item of held) {
      item.alone = true;
      this.#admitted.delete(item);
    }
    this.#requeue(held);
    return items.filter((item) => !held.includes(item));
  }

  /** Undefined while the base fee is over the cap. */
  #firstFees(head: Head): Fees | undefined {
    const fees = firstFees(head.baseFee, this.#opts.policy.fees);
    if (fees !== undefined) this.#baseFeeFaults.onRecovery();
    else if (this.#baseFeeFaults.onFailure()) {
      const baseFee = head.baseFee.toString();
      this.#modules.log.error({ baseFee }, "the chain's base fee is over the cap: nothing is settled");
    }
    return fees;
  }

  /** Undefined when the chain did not say: then they wait for another try, as long as payments may wait for a batch. */
  async #simulate(
    { relayer }: RelayerAccount,
    items: readonly QueueItem[],
    plan: Pick<SimulationOptions, "fees" | "head" | "mayGuard">,
  ): Promise<SimulatedBatch | undefined> {
    const { rpc, clock, contract, log, signal } = this.#modules;
    const { net, policy, chainTimeoutMs } = this.#opts;
    const transaction = { ...plan, multicall3: net.multicall3, relayer, gas: policy.gas, contract };
    try {
      const found = await simulateBatch(items, { ...transaction, timeoutMs: chainTimeoutMs }, { rpc, signal });
      if (found.alone.length > 0)
        log.warn({ relayer, payments: found.alone.length }, "payments are settled by themselves");
      return found;
    } catch (error) {
      if (!isAppError(error, "SETTLEMENT_UNAVAILABLE")) throw error;
      log.warn({ relayer, reason: error.detail.reason }, "a batch could not be simulated yet");
      this.#requeue(items);
      this.#notBeforeMs = clock.monotonicMs() + RETRY_MS;
      return undefined;
    }
  }

  /** Of a payment that was claimed again, both claims would be in one transaction, and fail each other's simulation. */
  #requeue(items: readonly QueueItem[]): void {
    for (const item of items) if (item.isLeft === true) item.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
    for (const item of items) this.#hold(item);
    this.#queue.unshift(items.filter(({ isLeft }) => isLeft !== true));
  }
}

/** Items of one payer behind each other, at the place of the first: SettlementBatch leaves a payer's out behind a failed one. */
function groupByPayer(items: readonly QueueItem[]): readonly QueueItem[] {
  return [...Map.groupBy(items, ({ payment }) => payment.key.from).values()].flat();
}

function rejectAll(items: readonly QueueItem[], code: ErrorCode): void {
  for (const item of items) item.reject(new AppError(code));
}
