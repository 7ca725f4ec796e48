import { AppError, type ErrorCode, FaultLogThrottle, failureCode, isAppError } from "@turnpike/base";
import type { RelayerLease } from "../ledger-types.ts";
import type { Sale } from "../settler.ts";
import type { Evidence, PaymentRecord, PaymentRefusal, StoredAnswer } from "../types.ts";
import { settlementGas } from "./calls.ts";
import { createSettlementChain, type Head } from "./chain.ts";
import { type Fees, firstFees } from "./fees.ts";
import { createForeignWatch } from "./foreign.ts";
import { createGasCosts } from "./gas-costs.ts";
import { networkPolicy } from "./gas-policy.ts";
import { createKeyring, type RelayerKey } from "./keyring.ts";
import { createLane, type Lane } from "./lane.ts";
import {
  costWeiTotal,
  leasedKeysGauge,
  openBatchesGauge,
  queueGauge,
  relayerBalance,
  relayerMinBalance,
  settlementSeconds,
} from "./metrics.ts";
import type { EngineModules, EngineNetwork, EngineOptions } from "./options.ts";
import { createPacer } from "./pacer.ts";
import { createProfitGuard } from "./profit-guard.ts";
import { createSettleQueue, type QueueItem } from "./queue.ts";
import { createReconciler } from "./reconciler.ts";
import { createResender } from "./resender.ts";
import { createResolver } from "./resolver.ts";
import { type SimulatedBatch, simulateBatch } from "./simulation.ts";
import { createWaiters, pause, waitForEnd, within } from "./waiters.ts";
import { createWatcher } from "./watcher.ts";

/** The engine of one network. */
export interface NetworkEngine extends AsyncDisposable {
  settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<Evidence | undefined>;
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void>;
  missing(): readonly string[];
  refusal(sale: Sale): PaymentRefusal | undefined;
  /** A lease is lost: the key stops at once. */
  lost(relayer: string): void;
}

/** Nodes that accepted another transaction so shortly before they refused one do not refuse all. */
const SINGLED_WITHIN_MS = 30_000;
/** Pause after the chain could not say what a batch would do. */
const RETRY_MS = 250;

/** Starts the engine of one network: leases keys, picks up what is open, then serves. */
export async function createNetworkEngine(
  opts: EngineOptions,
  net: EngineNetwork,
  modules: EngineModules,
): Promise<NetworkEngine> {
  const { ledger, clock, metrics, faults } = modules;
  const { network } = net;
  const log = modules.log.child({ network });
  const rpc = modules.rpc.get(network);
  if (rpc === undefined) throw new AppError("CONFIG_INVALID", { message: `There is no RPC for ${network}.` });
  const chain = createSettlementChain(rpc);
  const stopping = new AbortController();
  const waiters = createWaiters();
  const queue = createSettleQueue();
  /** Those that a batch is being made for. */
  const taken = new Set<Lane>();
  const resolver = createResolver(net, { chain, ledger, waiters, log, metrics, faults });
  const resender = createResender({
    ledger,
    clock,
    push(item) {
      queue.push(item);
      pump();
    },
  });
  const watcher = createWatcher(net, {
    chain,
    ledger,
    resolver,
    lanes: () => keyring.held(),
    clock,
    log,
    faults,
    onUnpaid: (payment) => modules.backOff?.failed(payment),
    resend: (payment, isSuspect) => resender.resend(payment, isSuspect),
    onRefused(payment, sinceMs) {
      const isSingled = acceptedAtMs >= sinceMs - SINGLED_WITHIN_MS;
      if (isSingled) modules.backOff?.failed(payment);
      resender.postpone(payment, isSingled);
    },
    // While somebody spoils shared transactions, fewer payments share one; by and by more again.
    onShared(settled) {
      shared = settled ? Math.min(maxBatch, shared * 2) : Math.max(1, Math.floor(shared / 2));
    },
    onCost(batch, cost, isWhole) {
      metrics.count(costWeiTotal, { network }, Number(cost.gas * cost.gasPriceWei + cost.dataFeeWei));
      if (isWhole) costs.learn(batch, cost);
    },
  });
  const reconciler = createReconciler(net, {
    chain,
    ledger,
    resolver,
    log,
    metrics,
    resend: (payment) => resender.resend(payment),
  });
  const policy = networkPolicy(opts, net);
  const { fees, gas, maxBatch } = policy;
  /** Most payments that share a transaction now. */
  let shared = maxBatch;
  const costs = createGasCosts(gas, () => clock.monotonicMs());
  const guard = createProfitGuard(
    { net, fees, maxBatch },
    { costs, head: () => head && { head, atMs: headAtMs }, clock, log, metrics },
  );
  const slowestMs = Math.max(20, Math.min(opts.pollMs, net.blockTimeSeconds * 250));
  const idleMs = Math.max(slowestMs, 2_000);
  const pacer = createPacer(slowestMs, idleMs);
  const reconcileMs = opts.reconcileMs ?? 5_000;
  const chainTimeoutMs = opts.chainTimeoutMs ?? 5_000;
  const graceMs = opts.graceMs ?? 2_000;
  /** Payers' code may hold up their batches, so some places are left to the others. */
  const maxOpenLoners = Math.max(1, Math.floor(policy.maxOpenBatchesPerKey / 2));
  const faultLogs = {
    chain: new FaultLogThrottle(clock),
    reconcile: new FaultLogThrottle(clock),
    baseFee: new FaultLogThrottle(clock),
  };
  const maxQueueMs = opts.maxQueueMs ?? 10_000;
  const jobs = new Set<Promise<unknown>>();
  let head: Head | undefined;
  let headAtMs = Number.NEGATIVE_INFINITY;
  let nonces: ReadonlyMap<string, number> = new Map();
  let gaps = new Map<string, number>();
  /** When a node accepted a transaction with payments; monotonic milliseconds. */
  let acceptedAtMs = Number.NEGATIVE_INFINITY;
  let turn = 0;
  let committing = 0;
  let windowTimer: NodeJS.Timeout | undefined;
  let pumpTurn: NodeJS.Immediate | undefined;
  /** No batch is begun before; monotonic milliseconds. */
  let notBeforeMs = Number.NEGATIVE_INFINITY;

  const track = (job: Promise<unknown>): void => {
    jobs.add(job);
    void job.finally(() => jobs.delete(job)).catch(() => undefined);
  };

  const openLane = (lease: RelayerLease, key: RelayerKey): Lane => {
    return createLane(
      {
        chainId: Number(network.slice("eip155:".length)),
        multicall3: net.multicall3,
        fees,
        gas,
        bumpAfterMs: policy.bumpAfterMs,
        cancelAfterMs: opts.cancelAfterMs ?? 500,
        rebroadcastAfterMs: Math.max(2_000, net.blockTimeSeconds * 2_000),
        maxOpenBatches: policy.maxOpenBatchesPerKey,
        sendTimeoutMs: chainTimeoutMs,
      },
      {
        lease,
        privateKey: key.privateKey,
        ledger,
        chain,
        clock,
        log,
        metrics,
        faults,
        signal: stopping.signal,
        onSent: () => pacer.poke(),
        onAccepted() {
          acceptedAtMs = clock.monotonicMs();
        },
        onNoGas: () => track(keyring.readBalances()),
      },
    );
  };

  const keyring = createKeyring(net, {
    ledger,
    chain,
    clock,
    log,
    signal: stopping.signal,
    open: openLane,
    isIdle: (lane) => !taken.has(lane),
  });
  const held = (): readonly Lane[] => keyring.held();

  const saw = (newest: Head): void => {
    const isNew = head?.hash !== newest.hash;
    head = newest;
    headAtMs = clock.monotonicMs();
    if (isNew) track(keyring.readBalances());
  };

  /** What the next transaction takes at least. A key that has less settles nothing new. */
  const leastBalance = (): bigint => {
    const next = head && firstFees(head.baseFee, fees);
    const cost = (settlementGas([], gas) + gas.perTransfer) * (next?.maxFeePerGas ?? 0n);
    return cost > net.minRelayerBalanceWei ? cost : net.minRelayerBalanceWei;
  };

  const freshHead = async (): Promise<Head> => {
    if (head !== undefined && clock.monotonicMs() - headAtMs < Math.min(1_000, net.blockTimeSeconds * 1_000))
      return head;
    const newest = await chain.head(AbortSignal.any([stopping.signal, AbortSignal.timeout(chainTimeoutMs)]));
    saw(newest);
    return newest;
  };

  /** Of a payment that was claimed again, both claims would be in one transaction, and fail each other's simulation. */
  const putBack = (items: readonly QueueItem[]): void => {
    for (const item of items) if (item.isLeft === true) item.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
    queue.unshift(items.filter(({ isLeft }) => isLeft !== true));
  };

  /** Undefined when the chain did not say: then they wait for another try, as long as payments may wait for a batch. */
  const trySimulation = async (
    { relayer }: Lane,
    items: readonly QueueItem[],
    first: Fees,
    newest: Head,
  ): Promise<SimulatedBatch | undefined> => {
    const transaction = { multicall3: net.multicall3, relayer, gas, fees: first, head: newest };
    try {
      const found = await simulateBatch(
        items,
        { ...transaction, timeoutMs: chainTimeoutMs },
        { rpc, signal: stopping.signal },
      );
      if (found.alone.length > 0)
        log.warn({ relayer, payments: found.alone.length }, "payments are settled by themselves");
      return found;
    } catch (error) {
      if (!isAppError(error, "SETTLEMENT_UNAVAILABLE")) throw error;
      log.warn({ relayer, reason: error.detail.reason }, "a batch could not be simulated yet");
      putBack(items);
      notBeforeMs = clock.monotonicMs() + RETRY_MS;
      return undefined;
    }
  };

  const sendItems = async (lane: Lane, items: readonly QueueItem[]): Promise<void> => {
    const reject = (rejected: readonly QueueItem[], code: ErrorCode): void => {
      for (const item of rejected) item.reject(new AppError(code));
    };
    try {
      const newest = await freshHead();
      // The block that it gets into is at least one block time away.
      const soonest = BigInt(newest.timeSeconds + Math.ceil(net.blockTimeSeconds));
      const late = items.filter(({ payment }) => soonest >= payment.validBefore);
      reject(late, "PAYMENT_EXPIRED");
      const inTime = items.filter((item) => !late.includes(item));
      const first = firstFees(newest.baseFee, fees);
      if (first === undefined) {
        if (faultLogs.baseFee.onFailure()) {
          log.error({ baseFee: newest.baseFee.toString() }, "the chain's base fee is over the cap: nothing is settled");
        }
        return reject(inTime, "SETTLEMENT_UNAVAILABLE");
      }
      faultLogs.baseFee.onRecovery();
      const simulated = await trySimulation(lane, inTime, first, newest);
      if (simulated === undefined) return;
      const { good, alone, failing, gasLimit } = simulated;
      reject(failing, "PAYMENT_SIMULATION_FAILED");
      for (const { payment } of failing) {
        // One that is sent again was counted when its transaction was mined in vain.
        if (payment.state === "claimed") modules.backOff?.failed(payment);
      }
      for (const item of alone) item.alone = true;
      guard.settling(good);
      putBack([...alone, ...(await lane.settle(good, gasLimit, first))]);
    } catch (error) {
      log.warn({ relayer: lane.relayer, code: failureCode(error) }, "a batch was not committed");
      // When the ledger cannot say, neither can we: the callers' own time limits end their wait.
      if (isAppError(error) && error.detail.unknown === true) return;
      reject(items, "SETTLEMENT_UNAVAILABLE");
    }
  };

  const pump = (): void => {
    clearTimeout(windowTimer);
    clearImmediate(pumpTurn);
    windowTimer = undefined;
    pumpTurn = undefined;
    for (;;) {
      const ready = held().filter((lane) => !taken.has(lane) && lane.ready(leastBalance()));
      const roomy = ready.filter((lane) => lane.openLoners < maxOpenLoners);
      // Without a ready key all wait, and their time is that of the oldest of all.
      const loners = ready.length === 0 || roomy.length > 0;
      const oldestMs = queue.oldestMs(loners);
      if (oldestMs === undefined || stopping.signal.aborted) return;
      const busy = committing > 0 || held().some((lane) => lane.open.size > 0);
      const windowMs = busy ? policy.batchWindowMs : 0;
      const nowMs = clock.monotonicMs();
      const isFull = queue.takeable(shared, loners) >= shared;
      const windowLeftMs = isFull ? 0 : windowMs - (nowMs - oldestMs);
      const holdMs = isFull ? 0 : guard.holdMs(queue.peek(shared, loners));
      const waitMs = Math.max(windowLeftMs, holdMs, notBeforeMs - nowMs);
      if (waitMs > 0) {
        windowTimer = setTimeout(pump, Math.ceil(waitMs));
        return;
      }
      const able = roomy.length > 0 ? roomy : ready;
      const lane = able[turn % able.length];
      if (lane === undefined) return;
      turn++;
      committing++;
      taken.add(lane);
      const sent = sendItems(lane, queue.take(shared, loners)).finally(() => {
        committing--;
        taken.delete(lane);
        pump();
      });
      track(sent);
    }
  };

  /** While nothing is under way a payment waits for none but those of its own turn of the event loop, which share it. */
  const pumpAfterTurn = (): void => {
    pumpTurn ??= setImmediate(pump);
  };

  /** Refuses what no key could take in time. */
  const dropStale = (): void => {
    for (const item of queue.takeBefore(clock.monotonicMs() - maxQueueMs - guard.longestHoldMs())) {
      item.reject(new AppError("SETTLEMENT_UNAVAILABLE"));
    }
  };

  const watch = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        const view = await watcher.look(stopping.signal);
        saw(view.head);
        if (faultLogs.chain.onRecovery()) log.info({}, "the chain answers again");
        nonces = view.nonces;
      } catch (error) {
        if (!stopping.signal.aborted && faultLogs.chain.onFailure()) {
          log.warn({ code: failureCode(error) }, "the chain could not be asked");
        }
      }
      dropStale();
      pump();
      const open = held().reduce((sum, lane) => sum + lane.open.size, 0);
      metrics.set(openBatchesGauge, open, { network });
      metrics.set(queueGauge, queue.size, { network });
      guard.measure();
      await pacer.next(open > 0 || queue.size > 0, stopping.signal);
    }
  };

  const closeGaps = async (newest: Head): Promise<void> => {
    const seen = new Map<string, number>();
    for (const lane of held()) {
      const chainNonce = nonces.get(lane.relayer);
      const lowest = Math.min(...lane.open.keys());
      if (chainNonce === undefined || !(chainNonce < lowest) || !Number.isFinite(lowest)) continue;
      const passes = (gaps.get(lane.relayer) ?? 0) + 1;
      seen.set(lane.relayer, passes);
      if (passes >= 3) await lane.fillGap(chainNonce, newest);
    }
    gaps = seen;
  };

  /** Something else used the key: the ledger has to know before the next batch. */
  const skipForeign = async (lane: Lane, signal: AbortSignal): Promise<void> => {
    if ((nonces.get(lane.relayer) ?? 0) <= lane.nextNonce) return;
    const chainNonce = await chain.pendingNonce(lane.relayer, signal);
    const again = await ledger.leaseRelayer(network, lane.relayer, chainNonce);
    if (again === undefined) lane.stop();
    else lane.skipTo(again.nextNonce);
  };

  const reconcile = async (): Promise<void> => {
    const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(60_000)]);
    await keyring.leaseShare();
    pump();
    const mine = held();
    metrics.set(leasedKeysGauge, mine.length, { network });
    metrics.set(relayerMinBalance, Number(net.minRelayerBalanceWei), { network });
    const balances = await chain.balances(
      mine.map(({ relayer }) => relayer),
      signal,
    );
    for (const [at, lane] of mine.entries()) {
      lane.balance = balances[at] ?? 0n;
      metrics.set(relayerBalance, Number(lane.balance), { network, relayer: lane.relayer });
    }
    const newest = await chain.head(signal);
    saw(newest);
    await reconciler.checkFinality(newest, signal);
    for (const lane of mine) {
      await skipForeign(lane, signal);
      lane.adopt(await ledger.openBatches(network, lane.relayer));
    }
    await closeGaps(newest);
    await reconciler.resolve(newest, signal);
    await reconciler.sweep(newest, signal);
  };

  const reconcileForever = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await pause(reconcileMs, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        await reconcile();
        faultLogs.reconcile.onRecovery();
      } catch (error) {
        if (faultLogs.reconcile.onFailure()) log.warn({ code: failureCode(error) }, "a reconciliation did not end");
      }
    }
  };

  try {
    saw(await chain.head(AbortSignal.timeout(chainTimeoutMs)));
  } catch (error) {
    log.warn({ code: failureCode(error) }, "the chain could not be asked");
  }
  await keyring.leaseShare();
  pump();
  track(watch());
  track(reconcileForever());
  const foreign = createForeignWatch(net, { nodes: rpc.nodes, ledger, clock, log, metrics });
  track(foreign.run(reconcileMs, stopping.signal));

  return {
    async settle(payment, answer, signal) {
      if (stopping.signal.aborted) throw new AppError("SHUTTING_DOWN");
      if (signal.aborted) throw new AppError("SETTLEMENT_UNAVAILABLE");
      if (queue.size >= (opts.maxQueue ?? 10_000)) throw new AppError("OVERLOADED");
      const startedMs = clock.monotonicMs();
      const either = AbortSignal.any([signal, stopping.signal]);
      const { promise: committed, resolve, reject } = Promise.withResolvers<void>();
      let givenUp = false;
      const item: QueueItem = {
        payment,
        answer,
        queuedAtMs: startedMs,
        alone: payment.kind !== "eoa",
        commit: resolve,
        reject(error) {
          reject(error);
          // The caller was told that the outcome is open; nobody else would let go of the claim.
          if (givenUp) track(ledger.release(payment.id, error.code).catch(() => undefined));
        },
      };
      const leave = (): void => {
        item.isLeft = true;
        if (queue.remove(item)) reject(new AppError("SETTLEMENT_UNAVAILABLE"));
      };
      const resolved = waiters.wait(payment.id, either);
      await faults.reach("engine.settle.queued");
      queue.push(item);
      either.addEventListener("abort", leave, { once: true });
      if (either.aborted) leave();
      pumpAfterTurn();
      try {
        givenUp = !(await within(committed, either, graceMs));
      } finally {
        either.removeEventListener("abort", leave);
      }
      const evidence = await resolved;
      if (!either.aborted) {
        metrics.observe(settlementSeconds, (clock.monotonicMs() - startedMs) / 1_000, { network });
      }
      return evidence;
    },

    wait: (payment, signal) =>
      waitForEnd(payment, AbortSignal.any([signal, stopping.signal]), { ledger, waiters, log }),

    missing() {
      const missing: string[] = [];
      const mine = held();
      if (clock.monotonicMs() - headAtMs > idleMs * 3 + chainTimeoutMs) missing.push(`chain unreachable (${network})`);
      if (head !== undefined && firstFees(head.baseFee, fees) === undefined) {
        missing.push(`base fee over the cap (${network})`);
      }
      const least = leastBalance();
      if (mine.length === 0) missing.push(`relayer key (${network})`);
      else if (mine.every((lane) => lane.outOfGas(least))) missing.push(`relayer gas (${network})`);
      else if (mine.every((lane) => lane.stuck)) missing.push(`settlement transactions refused (${network})`);
      return missing;
    },

    refusal: (sale) => guard.refusal(sale),

    lost: (relayer) => keyring.lost(relayer),

    async [Symbol.asyncDispose]() {
      clearTimeout(windowTimer);
      clearImmediate(pumpTurn);
      for (let items = queue.take(10_000); items.length > 0; items = queue.take(10_000)) {
        for (const item of items) item.reject(new AppError("SHUTTING_DOWN"));
      }
      stopping.abort();
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, graceMs);
      });
      await Promise.race([Promise.allSettled(jobs), late]);
      clearTimeout(timer);
    },
  };
}
