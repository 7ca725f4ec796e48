import { type Address, type Clock, type FaultPoints, isAppError, type Log } from "@turnpike/base";
import { matchEvidence } from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { ChainView, Head, MinedTransaction, SettlementChain } from "./chain.ts";
import type { MinedCost } from "./gas-costs.ts";
import type { Lane, OpenBatch } from "./lane.ts";
import type { ChainRules } from "./options.ts";
import type { Resolver, Settlement, Verdict } from "./resolver.ts";
import { evidenceAt, wantedOf } from "./search.ts";

/**
 * Block times for which a nonce must be used up without a receipt of ours before it counts as taken by a foreign
 * transaction. Nodes lag behind each other; to be wrong here costs the gas of a second transaction, never a payment.
 */
const LOST_BLOCKS = 3;
const LEAST_LOST_MS = 2_000;
/** Payments whose window is closed are judged no more often: until it is closed for good the chain gives no verdict. */
const JUDGE_EVERY_MS = 1_000;

/** What {@link createWatcher} works with. */
export interface WatcherModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly resolver: Resolver;
  readonly lanes: () => readonly Lane[];
  /** Called for a payment that a mined transaction of ours carried and did not settle by its payer's doing. */
  readonly onUnpaid?: (payment: PaymentRecord) => void;
  /**
   * Puts a payment into another batch, by itself; without it the reconciler finds it. `isSuspect`: nodes refused a
   * transaction that carried it.
   */
  readonly resend?: (payment: PaymentRecord, isSuspect: boolean) => void;
  /** Called for a payment whose transaction carried no other, and nodes refused that until it was cancelled. */
  readonly onRefused?: (payment: PaymentRecord, sinceMs: number) => void;
  /**
   * Called when a transaction that payments may share was mined: whether it settled all that could still be settled. One
   * that nodes refused has settled nothing.
   */
  readonly onShared?: (settled: boolean) => void;
  /** Called for each mined transaction of ours: whether it settled all payments that it was first signed for. */
  readonly onCost?: (batch: OpenBatch, cost: MinedCost, isWhole: boolean) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly faults: FaultPoints;
}

/** Follows open batches to their end. */
export interface Watcher {
  /** One look at the chain, in one exchange when nothing is to be resolved. Throws when the chain cannot be asked. */
  look(signal: AbortSignal): Promise<ChainView>;
}

/** Creates the watcher of one network. Not reentrant: one look at a time. */
export function createWatcher(rules: ChainRules, modules: WatcherModules): Watcher {
  const { chain, ledger, resolver, clock, log, faults } = modules;
  const lostMs = Math.max(LEAST_LOST_MS, rules.blockTimeSeconds * 1_000 * (rules.confirmations + LOST_BLOCKS));

  /**
   * The batch's nonce is used up. What it has not settled goes into other batches while it can be settled; beside that the
   * reconciler judges it until its window closes.
   */
  const end = async (lane: Lane, batch: OpenBatch, hash: `0x${string}`): Promise<void> => {
    await ledger.closeBatch(batch.id, hash);
    lane.close(batch);
  };

  /** Ends one payment for which our own transaction is no evidence, if the chain says how. */
  const judge = async (batch: OpenBatch, payment: PaymentRecord, head: Head): Promise<Verdict> => {
    const verdict = await resolver.judge(payment, head);
    if (verdict.kind === "settled") await resolver.settle(payment, verdict.evidence);
    else if (verdict.kind === "failed") await resolver.fail(payment, verdict.reason);
    else return verdict;
    batch.unresolved.delete(payment.id);
    return verdict;
  };

  /** Payments that a mined transaction carried in vain. Those that could still be settled are sent again. */
  const onVain = async (batch: OpenBatch, payments: readonly PaymentRecord[], head: Head): Promise<PaymentRecord[]> => {
    const plain = payments.filter(({ kind }) => kind === "eoa").map(({ key }) => key.from);
    const delegated = plain.length === 0 ? new Set() : await chain.withCode([...new Set(plain)]);
    const open: PaymentRecord[] = [];
    const one = async (payment: PaymentRecord): Promise<void> => {
      const verdict = await judge(batch, payment, head);
      const isOpen = verdict.kind === "open" && verdict.funded;
      if (isOpen) open.push(payment);
      // What runs its payer's code was simulated as it was sent. A plain account is to blame only for what it used or spent
      // elsewhere, not for what it could still pay, nor for a transaction that was mined too late.
      const runsCode = payment.kind !== "eoa" || delegated.has(payment.key.from);
      const isSpent =
        verdict.kind === "failed" || verdict.kind === "spent" || (verdict.kind === "open" && !verdict.funded);
      if (verdict.kind !== "settled" && (runsCode || isSpent)) modules.onUnpaid?.(payment);
    };
    await all(payments.map(one));
    return open;
  };

  const onMined = async (lane: Lane, batch: OpenBatch, mined: MinedTransaction, head: Head): Promise<void> => {
    await faults.reach("engine.receipt.seen");
    const isCancelled = batch.transactions.some(({ hash, cancels }) => cancels && hash === mined.transaction);
    const matches = mined.succeeded ? matchEvidence(mined.logs, batch.payments.map(wantedOf)) : [];
    const paid: Settlement[] = [];
    const unpaid: PaymentRecord[] = [];
    for (const [at, { id }] of batch.payments.entries()) {
      const payment = batch.unresolved.get(id);
      if (payment === undefined) continue;
      const logIndex = matches[at];
      if (logIndex === undefined) unpaid.push(payment);
      else paid.push({ payment, evidence: evidenceAt(mined, logIndex) });
    }
    const settle = async (): Promise<void> => {
      if (paid.length === 0) return;
      await resolver.settleAll(paid);
      for (const { payment } of paid) batch.unresolved.delete(payment.id);
    };
    let open: readonly PaymentRecord[] = [];
    const rest = async (): Promise<void> => {
      if (isCancelled) open = unpaid;
      else if (unpaid.length > 0) open = await onVain(batch, unpaid, head);
    };
    await all([settle(), rest()]);
    await end(lane, batch, mined.transaction);
    if (mined.cost !== undefined) modules.onCost?.(batch, mined.cost, paid.length === batch.payments.length);
    const isRejected = isCancelled && batch.rejected;
    if ((!isCancelled || isRejected) && !batch.alone) modules.onShared?.(open.length === 0);
    for (const payment of open) {
      if (isRejected && batch.payments.length === 1) modules.onRefused?.(payment, batch.refusedSinceMs);
      else modules.resend?.(payment, isRejected);
    }
  };

  const follow = async (lane: Lane, batch: OpenBatch, view: ChainView): Promise<void> => {
    const { head } = view;
    const mined = batch.transactions.map(({ hash }) => view.mined.get(hash)).find((found) => found !== undefined);
    if (mined !== undefined) {
      batch.usedSinceMs = undefined;
      if (head.number - mined.blockNumber + 1n >= BigInt(rules.confirmations)) await onMined(lane, batch, mined, head);
      return;
    }
    const used = (view.nonces.get(lane.relayer) ?? 0) > batch.nonce;
    const nowMs = clock.monotonicMs();
    batch.usedSinceMs = used ? (batch.usedSinceMs ?? nowMs) : undefined;
    const isDue = nowMs - batch.judgedAtMs >= JUDGE_EVERY_MS;
    const late = [...batch.unresolved.values()].filter(
      ({ validBefore }) => isDue && BigInt(head.timeSeconds) >= validBefore,
    );
    if (late.length > 0) batch.judgedAtMs = nowMs;
    await all(late.map(async (payment) => void (await judge(batch, payment, head))));
    const last = batch.transactions.at(-1);
    if (batch.usedSinceMs !== undefined && nowMs - batch.usedSinceMs >= lostMs && last !== undefined) {
      log.error({ relayer: lane.relayer, nonce: batch.nonce }, "a foreign transaction used a relayer's nonce");
      await end(lane, batch, last.hash);
    }
  };

  return {
    async look(signal) {
      const lanes = modules.lanes();
      const batches = lanes.flatMap((lane) => [...lane.open.values()].map((batch) => ({ lane, batch })));
      const hashes = batches.flatMap(({ batch }) => batch.transactions.map(({ hash }) => hash));
      const relayers: readonly Address[] = lanes.map(({ relayer }) => relayer);
      const view = await chain.poll(hashes, relayers, signal);
      await all(
        batches.map(async ({ lane, batch }) => {
          try {
            await follow(lane, batch, view);
          } catch (error) {
            const code = isAppError(error) ? error.code : "unknown";
            log.warn({ relayer: lane.relayer, nonce: batch.nonce, code }, "a settlement could not be resolved yet");
          }
        }),
      );
      await all(lanes.map((lane) => lane.tend(view.head)));
      return view;
    },
  };
}

/** Waits for all, then throws the first error: one that fails must not leave others unseen behind. */
async function all(works: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(works)) if (result.status === "rejected") throw result.reason;
}
