import { type Address, type FaultPoints, isAppError, type Log } from "@turnpike/base";
import { matchEvidence } from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import type { ChainView, Head, MinedTransaction, SettlementChain } from "./chain.ts";
import type { Lane, OpenBatch } from "./lane.ts";
import type { ChainRules } from "./options.ts";
import type { Resolver } from "./resolver.ts";
import { wantedOf } from "./search.ts";

/** Polls in a row after which a used-up nonce without a receipt of ours counts as taken by a foreign transaction. */
const LOST_POLLS = 8;

/** What {@link createWatcher} works with. */
export interface WatcherModules {
  readonly chain: SettlementChain;
  readonly ledger: Ledger;
  readonly resolver: Resolver;
  readonly lanes: () => readonly Lane[];
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
  const { chain, ledger, resolver, log, faults } = modules;

  const end = async (lane: Lane, batch: OpenBatch, hash: `0x${string}`): Promise<void> => {
    if (batch.unresolved.size > 0) return;
    await ledger.closeBatch(batch.id, hash);
    lane.close(batch);
  };

  /** Ends one payment for which our own transaction is no evidence. */
  const judge = async (batch: OpenBatch, payment: PaymentRecord, head: Head, dead: boolean): Promise<void> => {
    const verdict = await resolver.judge(payment, head);
    if (verdict.kind === "unclear" || (verdict.kind === "open" && !dead)) return;
    if (verdict.kind === "settled") await resolver.settle(payment, verdict.evidence);
    else if (verdict.kind === "failed") await resolver.fail(payment, verdict.reason);
    else await resolver.fail(payment, verdict.funded ? "PAYMENT_SETTLEMENT_FAILED" : "PAYMENT_INSUFFICIENT_FUNDS");
    batch.unresolved.delete(payment.id);
  };

  const onMined = async (lane: Lane, batch: OpenBatch, mined: MinedTransaction, head: Head): Promise<void> => {
    await faults.reach("engine.receipt.seen");
    const { transaction, blockNumber, blockHash } = mined;
    const matches = mined.succeeded ? matchEvidence(mined.logs, batch.payments.map(wantedOf)) : [];
    await all(
      batch.payments.map(async ({ id }, at) => {
        const payment = batch.unresolved.get(id);
        if (payment === undefined) return;
        if (matches[at] !== true) return judge(batch, payment, head, true);
        await resolver.settle(payment, { transaction, blockNumber, blockHash });
        batch.unresolved.delete(id);
      }),
    );
    await end(lane, batch, transaction);
  };

  const follow = async (lane: Lane, batch: OpenBatch, view: ChainView): Promise<void> => {
    const { head } = view;
    const mined = batch.transactions.map(({ hash }) => view.mined.get(hash)).find((found) => found !== undefined);
    if (mined !== undefined) {
      batch.lostPolls = 0;
      if (head.number - mined.blockNumber + 1n >= BigInt(rules.confirmations)) await onMined(lane, batch, mined, head);
      return;
    }
    const used = (view.nonces.get(lane.relayer) ?? 0) > batch.nonce;
    batch.lostPolls = used ? batch.lostPolls + 1 : 0;
    const dead = batch.lostPolls >= LOST_POLLS;
    const late = [...batch.unresolved.values()].filter(({ validBefore }) => BigInt(head.timeSeconds) >= validBefore);
    await all((dead ? [...batch.unresolved.values()] : late).map((payment) => judge(batch, payment, head, dead)));
    const last = batch.transactions.at(-1);
    if (dead && last !== undefined) {
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
