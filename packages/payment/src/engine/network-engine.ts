import { AppError, FaultLogThrottle, failureCode, type Log } from "@turnpike/base";
import type { EvmRpc } from "../evm/rpc.ts";
import type { RelayerLease } from "../ledger-types.ts";
import type { Sale } from "../settler.ts";
import type { Evidence, PaymentRecord, PaymentRefusal, StoredAnswer } from "../types.ts";
import { isFarAhead } from "../verify/chain-time.ts";
import { BatchContract } from "./batch-contract.ts";
import { BatchScheduler } from "./batch-scheduler.ts";
import { type Head, type MinedCost, RpcSettlementChain, type SettlementChain } from "./chain.ts";
import { firstFees } from "./fees.ts";
import { ForeignPaymentWatch } from "./foreign-payments.ts";
import { GasCosts } from "./gas-costs.ts";
import { type NetworkPolicy, networkPolicy } from "./gas-policy.ts";
import { HeadTracker } from "./head-tracker.ts";
import { Keyring, type RelayerKey } from "./keyring.ts";
import {
  settlementCostWeiTotal,
  settlementDurationSeconds,
  settlementLeasedKeys,
  settlementOpenBatches,
  settlementQueue,
  settlementRelayerBalanceWei,
  settlementRelayerMinBalanceWei,
} from "./metrics.ts";
import type { OpenBatch } from "./open-batch.ts";
import type { EngineModules, EngineNetwork, EngineOptions } from "./options.ts";
import { PollPacer } from "./pacer.ts";
import { ProfitGuard } from "./profit-guard.ts";
import type { QueueItem } from "./queue.ts";
import { Reconciler } from "./reconciler.ts";
import { RelayerAccount } from "./relayer-account.ts";
import { Resender } from "./resender.ts";
import { Resolver } from "./resolver.ts";
import { pause, Waiters, waitForEnd, within } from "./waiters.ts";
import { WalletPlaces } from "./wallet-places.ts";
import { Watcher } from "./watcher.ts";

/** Nodes that accepted another transaction so shortly before they refused one do not refuse all. */
const SINGLED_WITHIN_MS = 30_000;
/** Looks in a row that show a gap between the chain's nonce and the oldest open batch, before it is filled. */
const GAP_LOOKS = 3;

/**
 * The settlement engine of one network. A payment goes through these parts: {@link BatchScheduler} (its queue),
 * {@link RelayerAccount} (sign, journal, send), {@link Watcher} (is it mined?), `Resolver` (writes the ledger), and
 * {@link Reconciler} for what a crash or a re-organisation left open.
 */
export class NetworkEngine implements AsyncDisposable {
  readonly #net: EngineNetwork;
  readonly #modules: EngineModules;
  readonly #log: Log;
  readonly #rpc: EvmRpc;
  readonly #policy: NetworkPolicy;
  readonly #cancelAfterMs: number;
  readonly #chainTimeoutMs: number;
  readonly #graceMs: number;
  readonly #idleMs: number;
  readonly #maxQueue: number;
  readonly #reconcileMs: number;
  readonly #chain: SettlementChain;
  readonly #contract: BatchContract;
  readonly #costs: GasCosts;
  readonly #guard: ProfitGuard;
  readonly #head: HeadTracker;
  readonly #keyring: Keyring;
  readonly #pacer: PollPacer;
  readonly #reconciler: Reconciler;
  readonly #places: WalletPlaces;
  readonly #resender: Resender;
  readonly #scheduler: BatchScheduler;
  readonly #watcher: Watcher;
  readonly #waiters = new Waiters();
  readonly #stopping = new AbortController();
  readonly #jobs = new Set<Promise<unknown>>();
  readonly #faultLogs;
  /** Next nonce by relayer, as the chain said last. */
  #nonces: ReadonlyMap<string, number> = new Map();
  /** How many looks in a row showed a gap, by relayer. */
  #gaps = new Map<string, number>();
  /** When a node accepted a transaction with payments; monotonic milliseconds. */
  #acceptedAtMs = Number.NEGATIVE_INFINITY;

  /** @throws AppError CONFIG_INVALID when there is no RPC for the network. */
  constructor(opts: EngineOptions, net: EngineNetwork, modules: EngineModules) {
    const { network } = net;
    const { ledger, clock, metrics, faults, backOff } = modules;
    const rpc = modules.rpc.get(network);
    if (rpc === undefined) throw new AppError("CONFIG_INVALID", { message: `There is no RPC for ${network}.` });
    this.#net = net;
    this.#modules = modules;
    this.#rpc = rpc;
    const log = modules.log.child({ network });
    this.#log = log;
    this.#policy = networkPolicy(net);
    const { fees, gas, maxBatch } = this.#policy;
    this.#cancelAfterMs = opts.cancelAfterMs ?? 500;
    this.#chainTimeoutMs = opts.chainTimeoutMs ?? 5_000;
    this.#graceMs = opts.graceMs ?? 2_000;
    this.#maxQueue = opts.maxQueue ?? 10_000;
    this.#reconcileMs = opts.reconcileMs;
    const slowestMs = Math.max(20, Math.min(opts.pollMs, net.blockTimeSeconds * 250));
    this.#idleMs = Math.max(slowestMs, 2_000);
    this.#pacer = new PollPacer(slowestMs, this.#idleMs);
    const nowMs = (): number => clock.monotonicMs();
    this.#faultLogs = { chain: new FaultLogThrottle(clock), reconcile: new FaultLogThrottle(clock) };
    const { signal } = this.#stopping;
    const track = (job: Promise<unknown>): void => this.#track(job);
    const accounts = (): readonly RelayerAccount[] => this.#keyring.held();

    const chain = new RpcSettlementChain(rpc, net);
    this.#chain = chain;
    const onNewBlock = (): void => track(this.#keyring.readBalances());
    this.#head = new HeadTracker({ chain, clock, onNewBlock });
    this.#contract = new BatchContract(net, { rpc, clock, log });
    const contract = this.#contract;
    this.#costs = new GasCosts(gas, nowMs);
    this.#guard = new ProfitGuard(
      { net, fees, maxBatch: () => contract.limit(maxBatch) },
      { costs: this.#costs, head: () => this.#head.seen, clock, log, metrics },
    );
    const maxQueueMs = opts.maxQueueMs ?? 10_000;
    this.#places = new WalletPlaces(
      { network, chainTimeoutMs: this.#chainTimeoutMs, maxWaitMs: maxQueueMs },
      { rpc, ledger, clock, log, signal },
    );
    this.#scheduler = new BatchScheduler(
      { net, policy: this.#policy, chainTimeoutMs: this.#chainTimeoutMs, maxQueueMs },
      {
        rpc,
        places: this.#places,
        ledger,
        head: this.#head,
        guard: this.#guard,
        contract,
        clock,
        log,
        signal,
        accounts,
        track,
        backOff,
      },
    );
    this.#keyring = new Keyring(net, {
      ledger,
      chain,
      clock,
      log,
      signal,
      open: (lease, key) => this.#openAccount(lease, key),
      isIdle: (account) => this.#scheduler.isIdle(account),
    });
    this.#resender = new Resender({
      ledger,
      clock,
      push: (item) => {
        this.#scheduler.push(item);
        this.#scheduler.schedule();
      },
    });
    const resolver = new Resolver(net, { chain, ledger, waiters: this.#waiters, clock, log, metrics, faults });
    this.#reconciler = new Reconciler(net, {
      chain,
      ledger,
      resolver,
      clock,
      log,
      metrics,
      resend: (payment) => this.#resender.resend(payment),
    });
    this.#watcher = new Watcher(net, {
      chain,
      ledger,
      resolver,
      accounts,
      clock,
      log,
      faults,
      onUnpaid: (payment) => backOff?.failed(payment),
      resend: (payment, isSuspect) => this.#resender.resend(payment, isSuspect),
      onRefused: (payment, sinceMs) => this.#onRefused(payment, sinceMs),
      onShared: (settled) => this.#scheduler.onShared(settled),
      onCost: (batch, cost, isWhole) => this.#onCost(batch, cost, isWhole),
    });
  }

  /** Leases keys and picks up what is open; returns when payments can be settled. A chain that does not answer is no error. */
  async start(): Promise<void> {
    const { ledger, clock, metrics } = this.#modules;
    const log = this.#log;
    const { signal } = this.#stopping;
    try {
      this.#head.saw(await this.#chain.head(AbortSignal.timeout(this.#chainTimeoutMs)));
    } catch (error) {
      log.warn({ code: failureCode(error) }, "the chain could not be asked");
    }
    await this.#contract.refresh(AbortSignal.timeout(this.#chainTimeoutMs));
    await this.#keyring.leaseShare();
    this.#scheduler.schedule();
    this.#track(this.#watchForever());
    this.#track(this.#reconcileForever());
    const foreign = new ForeignPaymentWatch(this.#net, { nodes: this.#rpc.nodes, ledger, clock, log, metrics });
    this.#track(foreign.run(this.#reconcileMs, signal));
  }

  /** See {@link Settler.reserve}. */
  reserve(...claim: Parameters<WalletPlaces["reserve"]>): Promise<PaymentRefusal | undefined> {
    return this.#places.reserve(...claim);
  }

  /** See {@link Settler.settle}: rejects only when the answer was not committed. */
  async settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<Evidence | undefined> {
    const { clock, metrics, faults, ledger } = this.#modules;
    const stop = this.#stopping.signal;
    const scheduler = this.#scheduler;
    if (stop.aborted) throw new AppError("SHUTTING_DOWN");
    if (signal.aborted) throw new AppError("SETTLEMENT_UNAVAILABLE");
    if (scheduler.size >= this.#maxQueue) throw new AppError("OVERLOADED");
    const startedMs = clock.monotonicMs();
    const either = AbortSignal.any([signal, stop]);
    const { promise: committed, resolve, reject } = Promise.withResolvers<void>();
    let hasLeft = false;
    const item: QueueItem = {
      payment,
      answer,
      queuedAtMs: startedMs,
      alone: payment.kind !== "eoa",
      commit: resolve,
      reject: (error) => {
        reject(error);
        // The caller was answered that the outcome is open, so it does not release the claim.
        if (hasLeft) this.#track(ledger.release(payment.id, error.code).catch(() => undefined));
      },
    };
    const leave = (): void => {
      item.isLeft = true;
      if (scheduler.remove(item)) reject(new AppError("SETTLEMENT_UNAVAILABLE"));
    };
    const resolved = this.#waiters.wait(payment.id, either);
    await faults.reach("engine.settle.queued");
    scheduler.push(item);
    either.addEventListener("abort", leave, { once: true });
    if (either.aborted) leave();
    scheduler.scheduleAfterTurn();
    try {
      hasLeft = !(await within(committed, either, this.#graceMs));
    } finally {
      either.removeEventListener("abort", leave);
    }
    const evidence = await resolved;
    if (!either.aborted) {
      const seconds = (clock.monotonicMs() - startedMs) / 1_000;
      metrics.observe(settlementDurationSeconds, seconds, { network: this.#net.network });
    }
    return evidence;
  }

  /** Resolves when a payment that was committed earlier is resolved, or `signal` fires. */
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#stopping.signal]);
    return waitForEnd(payment, either, { ledger: this.#modules.ledger, waiters: this.#waiters, log: this.#log });
  }

  /** What is missing before payments can be settled, for `/ready`; empty when nothing is. */
  missing(): readonly string[] {
    const { network } = this.#net;
    const missing: string[] = [];
    const head = this.#head.seen?.head;
    if (this.#head.ageMs > this.#idleMs * 3 + this.#chainTimeoutMs) missing.push(`chain unreachable (${network})`);
    if (head !== undefined && isFarAhead(head.timeSeconds, this.#modules.clock)) {
      missing.push(`blocks ahead of this machine's clock (${network})`);
    }
    if (head !== undefined && firstFees(head.baseFee, this.#policy.fees) === undefined) {
      missing.push(`base fee over the cap (${network})`);
    }
    const accounts = this.#keyring.held();
    const least = this.#scheduler.leastBalance();
    if (accounts.length === 0) missing.push(`relayer key (${network})`);
    else if (accounts.every((account) => account.outOfGas(least))) missing.push(`relayer gas (${network})`);
    else if (accounts.every(({ stuck }) => stuck)) missing.push(`settlement transactions refused (${network})`);
    return missing;
  }

  /** Why this sale should not be begun, by the operator's profit rule; undefined when it may. */
  refusal(sale: Sale): PaymentRefusal | undefined {
    return this.#guard.refusal(sale);
  }

  /** A lease is lost: the key stops at once. */
  lost(relayer: string): void {
    this.#keyring.lost(relayer);
  }

  /** Rejects what waits for a batch, and waits for what is under way, but no longer than the grace time. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#scheduler.close();
    this.#stopping.abort();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#graceMs);
    });
    await Promise.race([Promise.allSettled(this.#jobs), late]);
    clearTimeout(timer);
  }

  #track(job: Promise<unknown>): void {
    this.#jobs.add(job);
    void job.finally(() => this.#jobs.delete(job)).catch(() => undefined);
  }

  #openAccount(lease: RelayerLease, { privateKey }: RelayerKey): RelayerAccount {
    const { ledger, clock, metrics, faults } = this.#modules;
    const { network, multicall3, blockTimeSeconds } = this.#net;
    const { fees, gas, bumpAfterMs, maxOpenBatches } = this.#policy;
    return new RelayerAccount(
      {
        chainId: Number(network.slice("eip155:".length)),
        multicall3,
        fees,
        gas,
        bumpAfterMs,
        cancelAfterMs: this.#cancelAfterMs,
        rebroadcastAfterMs: Math.max(2_000, blockTimeSeconds * 2_000),
        maxOpenBatches,
        sendTimeoutMs: this.#chainTimeoutMs,
      },
      {
        lease,
        privateKey,
        ledger,
        chain: this.#chain,
        clock,
        log: this.#log,
        metrics,
        faults,
        signal: this.#stopping.signal,
        onSent: () => this.#pacer.wake(),
        onAccepted: () => {
          this.#acceptedAtMs = clock.monotonicMs();
        },
        onNoGas: () => this.#track(this.#keyring.readBalances()),
      },
    );
  }

  /** Nodes refused the payment's own transaction since `sinceMs`, until it was cancelled. */
  #onRefused(payment: PaymentRecord, sinceMs: number): void {
    const isSingled = this.#acceptedAtMs >= sinceMs - SINGLED_WITHIN_MS;
    if (isSingled) this.#modules.backOff?.failed(payment);
    this.#resender.postpone(payment, isSingled);
  }

  #onCost(batch: OpenBatch, cost: MinedCost, isWhole: boolean): void {
    const wei = Number(cost.gas * cost.gasPriceWei + cost.dataFeeWei);
    this.#modules.metrics.count(settlementCostWeiTotal, { network: this.#net.network }, wei);
    if (isWhole) this.#costs.learn(batch, cost);
    else this.#costs.learnLoss(batch, cost);
  }

  /** Polls the chain for receipts of open batches, and begins batches that became due. */
  async #watchForever(): Promise<void> {
    const { metrics } = this.#modules;
    const { network } = this.#net;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#look(signal);
      this.#scheduler.rejectStale();
      this.#scheduler.schedule();
      const open = this.#keyring.held().reduce((sum, account) => sum + account.open.size, 0);
      metrics.set(settlementOpenBatches, open, { network });
      metrics.set(settlementQueue, this.#scheduler.size, { network });
      this.#guard.measure();
      await this.#pacer.next(open > 0 || this.#scheduler.size > 0, signal);
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    try {
      const view = await this.#watcher.look(signal);
      this.#head.saw(view.head);
      if (this.#faultLogs.chain.onRecovery()) this.#log.info({}, "the chain answers again");
      this.#nonces = view.nonces;
    } catch (error) {
      if (!signal.aborted && this.#faultLogs.chain.onFailure()) {
        this.#log.warn({ code: failureCode(error) }, "the chain could not be asked");
      }
    }
  }

  async #reconcileForever(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await pause(this.#reconcileMs, signal);
      if (signal.aborted) return;
      try {
        await this.#reconcile();
        this.#faultLogs.reconcile.onRecovery();
      } catch (error) {
        if (this.#faultLogs.reconcile.onFailure()) {
          this.#log.warn({ code: failureCode(error) }, "a reconciliation did not end");
        }
      }
    }
  }

  /** Compares leases, balances, nonces and payments with the ledger and the chain. */
  async #reconcile(): Promise<void> {
    const { ledger } = this.#modules;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(60_000)]);
    await this.#contract.refresh(signal);
    await this.#keyring.leaseShare();
    this.#scheduler.schedule();
    const accounts = this.#keyring.held();
    await this.#readBalances(accounts, signal);
    const head = await this.#chain.head(signal);
    this.#head.saw(head);
    await this.#reconciler.checkFinality(head, signal);
    for (const account of accounts) {
      await this.#skipForeignNonces(account, signal);
      account.adopt(await ledger.openBatches(this.#net.network, account.relayer));
    }
    await this.#fillGaps(head);
    await this.#reconciler.resolve(head, signal);
    await this.#reconciler.sweep(head, signal);
  }

  async #readBalances(accounts: readonly RelayerAccount[], signal: AbortSignal): Promise<void> {
    const { metrics } = this.#modules;
    const { network, minRelayerBalanceWei } = this.#net;
    metrics.set(settlementLeasedKeys, accounts.length, { network });
    metrics.set(settlementRelayerMinBalanceWei, Number(minRelayerBalanceWei), { network });
    const relayers = accounts.map(({ relayer }) => relayer);
    const balances = await this.#chain.balances(relayers, signal);
    for (const [at, account] of accounts.entries()) {
      account.balance = balances[at] ?? 0n;
      metrics.set(settlementRelayerBalanceWei, Number(account.balance), { network, relayer: account.relayer });
    }
  }

  async #skipForeignNonces(account: RelayerAccount, signal: AbortSignal): Promise<void> {
    const { relayer } = account;
    if ((this.#nonces.get(relayer) ?? 0) <= account.nextNonce) return;
    await this.#keyring.skipTo(account, await this.#chain.pendingNonce(relayer, signal));
  }

  /** Fills nonces that the chain waits for and that no open batch has, once several looks in a row have shown them. */
  async #fillGaps(head: Head): Promise<void> {
    const seen = new Map<string, number>();
    for (const account of this.#keyring.held()) {
      const chainNonce = this.#nonces.get(account.relayer);
      const lowest = Math.min(...account.open.keys());
      if (chainNonce === undefined || !(chainNonce < lowest) || !Number.isFinite(lowest)) continue;
      const looks = (this.#gaps.get(account.relayer) ?? 0) + 1;
      seen.set(account.relayer, looks);
      if (looks >= GAP_LOOKS) await account.fillGap(chainNonce, head);
    }
    this.#gaps = seen;
  }
}
