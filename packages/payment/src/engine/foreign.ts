import { type Address, type Clock, isAppError, type Log, type Metrics } from "@turnpike/base";
import type { Hex } from "../evm/abi.ts";
import { addressToTopic, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "../evm/logs.ts";
import type { Ledger } from "../ledger-types.ts";
import { createQuiet } from "../quiet.ts";
import type { PlacedLog, SettlementChain } from "./chain.ts";
import { foreignLagGauge, foreignLooksTotal, foreignSettlementsTotal } from "./metrics.ts";
import type { ChainRules } from "./options.ts";
import { pause } from "./waiters.ts";

/** Where payments in an asset go. */
export interface AssetReceiver {
  readonly asset: Address;
  readonly payTo: Address;
}

/** Looks for payments to our receivers that another ledger must have taken. */
export interface ForeignWatch {
  /** One look at one window of blocks, when it is due: three requests of the chain at most. Never rejects. */
  look(signal: AbortSignal): Promise<void>;
  /** Looks whenever it is due, until the signal fires. Returns at once when there is no receiver. */
  run(tickMs: number, signal: AbortSignal): Promise<void>;
}

const PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** Shorter than the pause, so that no other process begins meanwhile. */
const TIMEOUT_MS = 30_000;
/** Most unknown transfers of one window that are looked at: anyone can make more of them. */
const MAX_TRANSFERS = 100;
/** Failures in a row after which a single block is passed over: its logs may be too many for any node. */
const MAX_FAILURES = 5;

/**
 * Creates the watch of one network. A ledger of another database cannot be seen, but what it settles for a receiver of
 * ours can: an authorization that paid the receiver, and that our ledger does not know, was sold for elsewhere (or was a
 * present). A buyer can then have two answers for one transfer. Nothing waits for it, and nothing depends on it but an
 * alert.
 */
export function createForeignWatch(
  rules: ChainRules,
  modules: {
    readonly chain: Pick<SettlementChain, "head" | "placedLogs">;
    readonly ledger: Pick<Ledger, "find" | "unknownTransfers" | "beginLook" | "endLook">;
    readonly clock: Clock;
    readonly log: Log;
    readonly metrics: Metrics;
  },
): ForeignWatch {
  const { chain, ledger, clock, log, metrics } = modules;
  const { network, receivers = [], finalityBlocks, maxLogBlocks = 1_000, foreignLookMs = PAUSE_MS } = rules;
  const assets = [...new Set(receivers.map(({ asset }) => asset))];
  const payTos = [...new Set(receivers.map(({ payTo }) => addressToTopic(payTo)))];
  const isOurs = new Set(receivers.map(({ asset, payTo }) => `${asset.toLowerCase()} ${addressToTopic(payTo)}`));
  const quiet = createQuiet(() => clock.monotonicMs());
  let dueAtMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  /** Blocks of one window: fewer after a failure, since the node may refuse so many logs. */
  let span = maxLogBlocks;

  /** Reports what is foreign in a window. True when nothing was passed over. */
  const lookAt = async (from: bigint, to: bigint, signal: AbortSignal): Promise<boolean> => {
    const all = await chain.placedLogs(assets, [TOPIC_TRANSFER, null, payTos], from, to, signal);
    const transfers = all.filter(({ log: { address, topics } }) => isOurs.has(`${address} ${topics[2]}`));
    const unknown = transfers.length === 0 ? [] : await ledger.unknownTransfers(network, transfers);
    if (unknown.length === 0) return true;
    const looked = unknown.slice(0, MAX_TRANSFERS);
    const payers = [...new Set(looked.flatMap(({ log: { topics } }) => topics[1] ?? []))];
    const uses = await chain.placedLogs(assets, [TOPIC_AUTHORIZATION_USED, payers], from, to, signal);
    await Promise.all(looked.map((transfer) => judge(transfer, uses)));
    if (looked.length === unknown.length) return true;
    const passedOver = unknown.length - looked.length;
    log.warn({ from: from.toString(), to: to.toString(), passedOver }, "transfers to our receivers were passed over");
    return false;
  };

  const judge = async (transfer: PlacedLog, uses: readonly PlacedLog[]): Promise<void> => {
    const { transaction, log: moved } = transfer;
    const nonce = useOf(transfer, uses);
    const payer = moved.topics[1];
    if (nonce === undefined || payer === undefined) return;
    const from: Address = `0x${payer.slice(26)}`;
    if ((await ledger.find({ network, asset: moved.address, from, nonce })) !== undefined) return;
    metrics.count(foreignSettlementsTotal, { network });
    const payTo = `0x${moved.topics[2]?.slice(26)}`;
    log.error({ transaction, payer: from, payTo }, "a payment to our receiver is in another seller's ledger");
  };

  const lookOnce = async (signal: AbortSignal): Promise<void> => {
    const begun = await ledger.beginLook(network, foreignLookMs);
    if (begun === undefined) return;
    const final = (await chain.head(signal)).number - BigInt(finalityBlocks);
    const { lookedTo } = begun;
    // The first look ever: what was paid before may be of a time when the receiver was another's.
    if (lookedTo === undefined) return ledger.endLook(network, final > 0n ? final : 0n);
    metrics.set(foreignLagGauge, Math.max(0, Number(final - lookedTo)), { network });
    if (final <= lookedTo) return;
    const last = lookedTo + BigInt(span);
    const to = last < final ? last : final;
    let isWhole: boolean;
    try {
      isWhole = await lookAt(lookedTo + 1n, to, signal);
    } catch (error) {
      const isNodes = isAppError(error, "SETTLEMENT_UNAVAILABLE");
      if (!isNodes || span > 1 || failures < MAX_FAILURES) throw error;
      log.error({ block: to.toString(), code: codeOf(error) }, "a block could not be looked at and is passed over");
      isWhole = false;
    }
    await ledger.endLook(network, to);
    metrics.count(foreignLooksTotal, { network, result: isWhole ? "done" : "partial" });
  };

  const look = async (signal: AbortSignal): Promise<void> => {
    if (clock.monotonicMs() < dueAtMs) return;
    dueAtMs = clock.monotonicMs() + foreignLookMs;
    try {
      await lookOnce(AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]));
      failures = 0;
      span = Math.min(maxLogBlocks, span * 2);
      quiet.works();
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      span = Math.max(1, Math.floor(span / 2));
      dueAtMs = clock.monotonicMs() + Math.min(LONGEST_PAUSE_MS, foreignLookMs * 2 ** failures);
      metrics.count(foreignLooksTotal, { network, result: "failed" });
      if (quiet.fails())
        log.warn({ code: codeOf(error), failures }, "payments of other sellers could not be looked for");
    }
  };

  return {
    look,
    async run(tickMs, signal) {
      if (receivers.length === 0) return;
      while (!signal.aborted) {
        await look(signal);
        await pause(tickMs, signal);
      }
    },
  };
}

/** Nonce of the payer's last use of an authorization before a transfer of its transaction. */
function useOf({ blockHash, transaction, logIndex, log }: PlacedLog, uses: readonly PlacedLog[]): Hex | undefined {
  let last: PlacedLog | undefined;
  for (const use of uses) {
    if (use.blockHash !== blockHash || use.transaction !== transaction || use.logIndex > logIndex) continue;
    if (use.log.address !== log.address || use.log.topics[1] !== log.topics[1]) continue;
    if (last === undefined || use.logIndex > last.logIndex) last = use;
  }
  return last?.log.topics[2];
}

function codeOf(error: unknown): string {
  return isAppError(error) ? error.code : error instanceof Error ? error.name : "unknown";
}
