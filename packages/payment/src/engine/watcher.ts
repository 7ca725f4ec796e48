import { type Address, type Clock, type FaultPoints, isAppError, type Log, type SettlementId } from "@turnpike/base";
import { matchEvidence } from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { ChainView, Head, MinedCost, MinedTransaction, SettlementChain } from "./chain.ts";
import { isGuarded, type OpenBatch } from "./open-batch.ts";
import type { ChainRules } from "./options.ts";
import type { RelayerAccount } from "./relayer-account.ts";
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

/** Modules of a {@link Watcher}, which owns none of them. */
export interface WatcherModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly resolver: Resolver;
  readonly accounts: () => readonly RelayerAccount[];
  /** Called for a payment that a mined transaction of ours carried and did not settle by its payer's doing. */
  readonly onUnpaid: (payment: PaymentRecord) => void;
  /** Puts a payment into another batch, by itself. `isSuspect`: nodes refused a transaction that carried it. */
  readonly resend: (payment: PaymentRecord, isSuspect: boolean) => void;
  /** Called for a payment whose transaction carried no other, and nodes refused that until it was cancelled. */
  readonly onRefused: (payment: PaymentRecord, sinceMs: number) => void;
  /**
   * Called when a transaction that payments may share was mined: whether it settled all that could still be settled. One
   * that nodes refused has settled nothing.
   */
  readonly onShared: (settled: boolean) => void;
  /** Called for each mined transaction of ours: whether it settled all payments that it was first signed for. */
  readonly onCost: (batch: OpenBatch, cost: MinedCost, isWhole: boolean) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly faults: FaultPoints;
}

/** Gas of a payment that shares a transaction: the least that was measured, so that no loss is counted too low. */
const SETTLED_GAS = 40_000n;
/** Parts of four of its gas limit that no direct transfer of a plain account takes, settled or refused. */
const BURNT_QUARTERS = 3n;

/** A mined transaction that left payments unsettled. */
interface UnpaidTransaction {
  readonly head: Head;
  readonly transaction: `0x${string}`;
  readonly blockNumber: bigint;
  /** Gas that settled nothing. */
  readonly lostGas: bigint;
  /** True when it went through the contract SettlementBatch. */
  readonly wasGuarded: boolean;
  /** True when it carried one payment, and reverted with so much of its gas used as only a payer's code takes, whatever code that payer has by now. */
  readonly wasBurnt: boolean;
  /** True when its payments did not fail each other: by the contract, as the only one, or since none burnt the gas of others. */
  readonly wasSeparate: boolean;
}

/** A plain account's payment that failed by its payer's doing. `isLost`: it is not sent again. */
interface PlainLoss {
  readonly payment: PaymentRecord;
  readonly isLost: boolean;
}

/** Follows the open batches of one network to their end. Not reentrant: one look at a time. */
export class Watcher {
  readonly #rules: ChainRules;
  readonly #modules: WatcherModules;
  readonly #lostMs: number;

  constructor(rules: ChainRules, modules: WatcherModules) {
    this.#rules = rules;
    this.#modules = modules;
    this.#lostMs = Math.max(LEAST_LOST_MS, rules.blockTimeSeconds * 1_000 * (rules.confirmations + LOST_BLOCKS));
  }

  /** One look at the chain, in one exchange when nothing is to be resolved. Throws when the chain cannot be asked. */
  async look(signal: AbortSignal): Promise<ChainView> {
    const { chain, log } = this.#modules;
    const accounts = this.#modules.accounts();
    const batches = accounts.flatMap((account) => [...account.open.values()].map((batch) => ({ account, batch })));
    const hashes = batches.flatMap(({ batch }) => batch.transactions.map(({ hash }) => hash));
    const relayers: readonly Address[] = accounts.map(({ relayer }) => relayer);
    const view = await chain.poll(hashes, relayers, signal);
    await all(
      batches.map(async ({ account, batch }) => {
        try {
          await this.#follow(account, batch, view);
        } catch (error) {
          const code = isAppError(error) ? error.code : "unknown";
          log.warn({ relayer: account.relayer, nonce: batch.nonce, code }, "a settlement could not be resolved yet");
        }
      }),
    );
    await all(accounts.map((account) => account.rebroadcastOrBump(view.head)));
    return view;
  }

  async #follow(account: RelayerAccount, batch: OpenBatch, view: ChainView): Promise<void> {
    const { head } = view;
    const mined = batch.transactions.map(({ hash }) => view.mined.get(hash)).find((found) => found !== undefined);
    if (mined === undefined) return this.#followUnmined(account, batch, view);
    batch.usedSinceMs = undefined;
    if (head.number - mined.blockNumber + 1n >= BigInt(this.#rules.confirmations)) {
      await this.#conclude(account, batch, mined, head);
    }
  }

  /** Judges payments whose window has closed, and gives the batch up when its nonce was used by a foreign transaction. */
  async #followUnmined(account: RelayerAccount, batch: OpenBatch, { head, nonces }: ChainView): Promise<void> {
    const { clock, log } = this.#modules;
    const isUsed = (nonces.get(account.relayer) ?? 0) > batch.nonce;
    const nowMs = clock.monotonicMs();
    batch.usedSinceMs = isUsed ? (batch.usedSinceMs ?? nowMs) : undefined;
    const isDue = nowMs - batch.judgedAtMs >= JUDGE_EVERY_MS;
    const late = [...batch.unresolved.values()].filter(
      ({ validBefore }) => isDue && BigInt(head.timeSeconds) >= validBefore,
    );
    if (late.length > 0) batch.judgedAtMs = nowMs;
    await all(late.map(async (payment) => void (await this.#judge(batch, payment, head))));
    const { newest } = batch;
    if (batch.usedSinceMs !== undefined && nowMs - batch.usedSinceMs >= this.#lostMs && newest !== undefined) {
      log.error({ relayer: account.relayer, nonce: batch.nonce }, "a foreign transaction used a relayer's nonce");
      await this.#close(account, batch, newest.hash);
    }
  }

  /** A transaction of the batch is mined deep enough: settles what it paid, judges the rest, and closes the batch. */
  async #conclude(account: RelayerAccount, batch: OpenBatch, mined: MinedTransaction, head: Head): Promise<void> {
    const { faults, onCost, onShared } = this.#modules;
    await faults.reach("engine.receipt.seen");
    const isCancelled = batch.transactions.some(({ hash, cancels }) => cancels && hash === mined.transaction);
    const { paid, unpaid } = sortPayments(batch, mined);
    const ours = batch.transactions.find(({ hash }) => hash === mined.transaction);
    const wasGuarded = ours !== undefined && isGuarded(ours);
    const gas = mined.cost?.gas ?? batch.gasLimit;
    let open: readonly PaymentRecord[] = isCancelled ? unpaid : [];
    let lost: ReadonlySet<SettlementId> = new Set();
    const judgeRest = async (): Promise<void> => {
      if (isCancelled || unpaid.length === 0) return;
      const { blockNumber } = mined;
      const lostGas = lostOf(gas, paid.length);
      // A shared transaction may revert as a whole for the gas that one of its payers burnt: that says nothing of the others.
      const isDirect = !wasGuarded && batch.payments.length === 1;
      const wasBurnt = isDirect && !mined.succeeded && gas * 4n >= batch.gasLimit * BURNT_QUARTERS;
      const wasShared = mined.succeeded && (wasGuarded || gas * 2n <= batch.gasLimit);
      const wasSeparate = isDirect || wasShared;
      const { transaction } = mined;
      const unpaidTransaction = { head, transaction, blockNumber, lostGas, wasGuarded, wasBurnt, wasSeparate };
      ({ open, lost } = await this.#judgeUnpaid(batch, unpaid, unpaidTransaction));
    };
    await all([this.#settlePaid(batch, paid, gas), judgeRest()]);
    await this.#close(account, batch, mined.transaction);
    if (mined.cost !== undefined) onCost(batch, mined.cost, paid.length === batch.payments.length);
    const isRejected = isCancelled && batch.rejected;
    // The contract lets none of its payments fail another, and one by itself has failed no other: a smaller batch would save
    // nothing.
    const isSettled = open.length === 0 || (wasGuarded && !isCancelled);
    const isShared = !batch.alone && (isSettled || batch.payments.length > 1);
    if ((!isCancelled || isRejected) && isShared) onShared(isSettled);
    // Code that was simulated in every block that may come, and refused in this one, would do so again.
    const sendable = open.filter(({ id }) => !lost.has(id));
    this.#resendOpen(batch, sendable, isRejected);
  }

  async #settlePaid(batch: OpenBatch, paid: readonly Settlement[], gas: bigint): Promise<void> {
    if (paid.length === 0) return;
    const { ledger, resolver } = this.#modules;
    await resolver.settleAll(paid);
    const [only, ...others] = batch.payments;
    if (batch.alone && only !== undefined && others.length === 0) {
      const wallet = { payer: only.key.from, classes: [] };
      await ledger.endWallet(only.id, this.#rules.network, wallet, { gas, isLost: false });
    }
    for (const { payment } of paid) batch.unresolved.delete(payment.id);
  }

  /**
   * Payments that a mined transaction did not settle. Returns those that could still be settled, and those that are not sent
   * again, since their code ran, or has left them out twice: what the transaction used beside the payments that it settled is
   * their loss, in equal parts.
   */
  async #judgeUnpaid(
    batch: OpenBatch,
    payments: readonly PaymentRecord[],
    { head, transaction, blockNumber, lostGas, wasGuarded, wasBurnt, wasSeparate }: UnpaidTransaction,
  ): Promise<{ readonly open: readonly PaymentRecord[]; readonly lost: ReadonlySet<SettlementId> }> {
    const { chain, ledger, onUnpaid } = this.#modules;
    const wallets = await chain.wallets(payments);
    const isOutside = await this.#outsideWindowAt(blockNumber);
    const ranCode = (payment: PaymentRecord): boolean =>
      !wasGuarded && !isOutside(payment) && (payment.kind !== "eoa" || wasBurnt || wallets.has(payment.id));
    const isLeftOut = ({ id }: PaymentRecord): boolean => wasGuarded && wallets.has(id);
    // It was good right before, and is now. An honest account that got code still has it, and goes as a wallet's after that.
    const hasToggled = (payment: PaymentRecord): boolean =>
      wasSeparate && payment.kind === "eoa" && !isOutside(payment) && (batch.alone || !wallets.has(payment.id));
    const burning = payments.filter(ranCode).length;
    const open: PaymentRecord[] = [];
    const lost = new Set<SettlementId>();
    const plainLosses: PlainLoss[] = [];
    const one = async (payment: PaymentRecord): Promise<void> => {
      const verdict = await this.#judge(batch, payment, head);
      const isPayable = verdict.kind === "open" && verdict.funded;
      if (isPayable) open.push(payment);
      // What runs its payer's code was simulated as it was sent. A plain account is to blame only for what it used or spent
      // elsewhere, or could pay before and after its transaction alone; not for one that was mined outside its window, or that left it
      // out for its code.
      const isSpent =
        verdict.kind === "spent" ||
        (verdict.kind === "failed" &&
          (verdict.reason !== "PAYMENT_EXPIRED" || !(isOutside(payment) || isLeftOut(payment)))) ||
        (verdict.kind === "open" && !verdict.funded);
      // A node that lags says nothing of the payer's code.
      if (verdict.kind === "settled" || verdict.kind === "unclear") return;
      const isToggled = isPayable && hasToggled(payment);
      if (ranCode(payment) || isSpent || isToggled) onUnpaid(payment);
      if (!ranCode(payment)) {
        if (!isSpent && !isToggled) return;
        const isLost = isToggled && batch.alone;
        if (isLost) lost.add(payment.id);
        plainLosses.push({ payment, isLost });
        return;
      }
      lost.add(payment.id);
      const subjects = wallets.get(payment.id) ?? { payer: payment.key.from, classes: [] };
      const gas = lostGas / BigInt(burning);
      await ledger.endWallet(payment.id, this.#rules.network, subjects, { gas, isLost: true });
    };
    await all(payments.map(one));
    // Gas that code burns is not the others' loss.
    const plainGas = burning === 0 ? lostGas : 0n;
    await this.#countLosses(plainLosses, { transaction, lostGas: plainGas });
    return { open, lost };
  }

  /** Counts what plain accounts' failed payments lost, in parts by their number: one loss for each payer. */
  async #countLosses(
    losses: readonly PlainLoss[],
    { transaction, lostGas }: { readonly transaction: `0x${string}`; readonly lostGas: bigint },
  ): Promise<void> {
    const byPayer = Map.groupBy(losses, ({ payment }) => payment.key.from);
    const one = async (ofPayer: readonly PlainLoss[]): Promise<void> => {
      const [loss] = ofPayer.toSorted((a, b) => Number(b.isLost) - Number(a.isLost));
      if (loss === undefined) return;
      const gas = (lostGas * BigInt(ofPayer.length)) / BigInt(losses.length);
      await this.#modules.ledger.failPlain(loss.payment, { transaction, gas, isLost: loss.isLost });
    };
    await all([...byPayer.values()].map(one));
  }

  /** Returns which payments' windows did not contain the time of a block: the token refuses those before anything else. */
  async #outsideWindowAt(blockNumber: bigint): Promise<(payment: PaymentRecord) => boolean> {
    const block = await this.#modules.chain.block(blockNumber);
    // A block that is not there any more has burnt nothing.
    if (block === undefined) return () => true;
    const time = BigInt(block.timeSeconds);
    return ({ validAfter, validBefore }) => time <= validAfter || time >= validBefore;
  }

  /** Ends one payment for which our own transaction is no evidence, if the chain says how. */
  async #judge(batch: OpenBatch, payment: PaymentRecord, head: Head): Promise<Verdict> {
    const { resolver } = this.#modules;
    const verdict = await resolver.judge(payment, head);
    if (verdict.kind === "settled") await resolver.settle(payment, verdict.evidence);
    else if (verdict.kind === "failed") await resolver.fail(payment, verdict.reason);
    else return verdict;
    batch.unresolved.delete(payment.id);
    return verdict;
  }

  /**
   * The batch's nonce is used up. What it has not settled goes into other batches while it can be settled; beside that the
   * reconciler judges it until its window closes.
   */
  async #close(account: RelayerAccount, batch: OpenBatch, hash: `0x${string}`): Promise<void> {
    await this.#modules.ledger.closeBatch(batch.id, hash);
    account.close(batch);
  }

  #resendOpen(batch: OpenBatch, open: readonly PaymentRecord[], isRejected: boolean): void {
    const { onRefused, resend } = this.#modules;
    for (const payment of open) {
      if (isRejected && batch.payments.length === 1) onRefused(payment, batch.refusedSinceMs);
      else resend(payment, isRejected);
    }
  }
}

/** The unresolved payments of a batch, by whether a mined transaction of it shows that they were paid. */
function sortPayments(
  { payments, unresolved }: OpenBatch,
  mined: MinedTransaction,
): { readonly paid: readonly Settlement[]; readonly unpaid: readonly PaymentRecord[] } {
  const matches = mined.succeeded ? matchEvidence(mined.logs, payments.map(wantedOf)) : [];
  const paid: Settlement[] = [];
  const unpaid: PaymentRecord[] = [];
  for (const [at, { id }] of payments.entries()) {
    const payment = unresolved.get(id);
    if (payment === undefined) continue;
    const logIndex = matches[at];
    if (logIndex === undefined) unpaid.push(payment);
    else paid.push({ payment, evidence: evidenceAt(mined, logIndex) });
  }
  return { paid, unpaid };
}

/** Gas of a transaction beside what so many payments take that it settled. */
function lostOf(gas: bigint, settledPayments: number): bigint {
  const settledGas = SETTLED_GAS * BigInt(settledPayments);
  return gas > settledGas ? gas - settledGas : 0n;
}

/** Waits for all, then throws the first error: one that fails must not leave others running unseen. */
async function all(jobs: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(jobs)) if (result.status === "rejected") throw result.reason;
}
