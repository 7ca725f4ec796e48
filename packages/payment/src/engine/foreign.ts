import type { Address, Log, Metrics } from "@turnpike/base";
import { findUses } from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import type { Head, SettlementChain } from "./chain.ts";
import { foreignSettlementsTotal } from "./metrics.ts";
import type { ChainRules } from "./options.ts";

/** Where payments in an asset go. */
export interface AssetReceiver {
  readonly asset: Address;
  readonly payTo: Address;
}

/** Looks for payments to our receivers that another ledger must have taken. */
export interface ForeignWatch {
  /** Looks at the blocks that have become final since the last look; at none the first time. */
  look(head: Head, signal: AbortSignal): Promise<void>;
}

/** Seconds of chain time between two looks: each is a question for logs, which providers charge for. */
const EVERY_SECONDS = 60;
/** Most questions for logs of one receiver, and most transactions that are read, in one look. */
const MAX_WINDOWS = 20;
const MAX_TRANSACTIONS = 200;

/**
 * Creates the watch of one network. A ledger of another database cannot be seen, but what it settles for a receiver of
 * ours can: an authorization that paid the receiver, and that our ledger does not know, was sold for elsewhere (or
 * somebody made a present). A buyer can then have two answers for one transfer.
 */
export function createForeignWatch(
  rules: ChainRules,
  modules: {
    readonly chain: SettlementChain;
    readonly ledger: Pick<Ledger, "find" | "unknownTransfers">;
    readonly log: Log;
    readonly metrics: Metrics;
  },
): ForeignWatch {
  const { chain, ledger, log, metrics } = modules;
  const { network, receivers = [], finalityBlocks, blockTimeSeconds, maxLogBlocks = 1_000 } = rules;
  const everyBlocks = BigInt(Math.max(1, Math.floor(EVERY_SECONDS / blockTimeSeconds)));
  let lookedTo: bigint | undefined;

  const lookAt = async (
    { asset, payTo }: AssetReceiver,
    from: bigint,
    to: bigint,
    signal: AbortSignal,
  ): Promise<void> => {
    const transfers = await chain.transfersTo(asset, payTo, from, to, signal);
    if (transfers.length === 0) return;
    const unknown = await ledger.unknownTransfers(network, transfers);
    const places = Map.groupBy(unknown, ({ transaction }) => transaction);
    for (const [transaction, of] of [...places].slice(0, MAX_TRANSACTIONS)) {
      const mined = await chain.mined(transaction, signal);
      if (mined === undefined) continue;
      const wanted = new Set(of.map(({ logIndex }) => logIndex));
      for (const use of findUses(mined.logs, asset)) {
        if (!wanted.has(use.transferIndex)) continue;
        if ((await ledger.find({ network, asset, from: use.from, nonce: use.nonce })) !== undefined) continue;
        metrics.count(foreignSettlementsTotal, { network });
        log.error({ transaction, payer: use.from, payTo }, "a payment to our receiver is in another seller's ledger");
      }
    }
  };

  return {
    async look(head, signal) {
      if (receivers.length === 0) return;
      const final = head.number - BigInt(finalityBlocks);
      lookedTo ??= final;
      if (final - lookedTo < everyBlocks) return;
      for (let windows = 0; lookedTo < final && windows < MAX_WINDOWS; windows++) {
        const from: bigint = lookedTo + 1n;
        const last: bigint = lookedTo + BigInt(maxLogBlocks);
        const to = last < final ? last : final;
        for (const receiver of receivers) await lookAt(receiver, from, to, signal);
        lookedTo = to;
      }
    },
  };
}
