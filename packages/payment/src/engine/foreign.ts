import { createHash } from "node:crypto";
import {
  type Address,
  AppError,
  type Clock,
  FaultLogThrottle,
  failureCode,
  isAppError,
  type Log,
  type Metrics,
} from "@turnpike/base";
import type { Hex } from "../evm/abi.ts";
import { addressToTopic, TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER } from "../evm/logs.ts";
import type { EvmNode } from "../evm/rpc.ts";
import type { ForeignScan, Ledger, ScanCursor } from "../ledger-types.ts";
import type { Head } from "./chain.ts";
import { foreignLagGauge, foreignScansTotal, foreignSettlementsTotal } from "./metrics.ts";
import { createNodeReader, type LogFilter, type PlacedLog } from "./node-reader.ts";
import type { AssetReceiver, ChainRules } from "./options.ts";
import { pause } from "./waiters.ts";
import { WindowSize } from "./window-size.ts";

/** Scans for payments to our receivers that another ledger must have taken. */
export interface ForeignWatch {
  /** Scans each node that is due: two requests of it, or thirty while it is behind or refuses. Never rejects. */
  scan(signal: AbortSignal): Promise<void>;
  /** Scans whenever a node is due, until the signal fires. Returns at once when there is no receiver. */
  run(tickMs: number, signal: AbortSignal): Promise<void>;
}

/** Modules of {@link createForeignWatch}. */
export interface ForeignWatchModules {
  readonly nodes: readonly EvmNode[];
  readonly ledger: Pick<Ledger, "find" | "unknownTransfers" | "beginScan" | "moveCursor">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

const PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** No window is begun later in a scan: with the time-outs of the last one it is shorter than the pause. */
const SCAN_MS = 20_000;
/** Most windows of one scan, those that are refused included; each is three requests at most. */
const MAX_WINDOWS = 10;
/** Most unknown transfers of one window that are judged: anyone can make more of them. */
const MAX_TRANSFERS = 100;
/** Failures in a row after which what fails is believed: one block's logs, or a head that is below the cursor. */
const MAX_FAILURES = 6;
/** A node whose newest block is older is not in step with its chain: it says nothing of where a scan begins. */
const FRESH_MS = 3_600_000;

/** A payment that our ledger does not know. */
interface Finding {
  readonly transaction: string;
  readonly payer: Address;
  readonly payTo: Address;
}

/** What a node answered for the blocks of a window. */
type Window =
  | { readonly kind: "read"; readonly head: Head; readonly findings: readonly Finding[]; readonly passedOver: number }
  | { readonly kind: "refused" }
  /** Its newest block leaves some of them short of final. */
  | { readonly kind: "behind"; readonly head: Head };

/** What moves a cursor. */
interface Step {
  readonly cursor: ScanCursor;
  readonly findings: readonly Finding[];
  readonly isWhole: boolean;
}

/**
 * Creates the watch of one network. A ledger of another database cannot be seen, but what it settles for a receiver of
 * ours can: an authorization that paid the receiver, and that our ledger does not know, was sold for elsewhere (or was a
 * present). A buyer can then have two answers for one transfer. Nothing waits for it, and nothing depends on it but an
 * alert.
 *
 * Each node is scanned by itself, with a cursor of its own: one that lies, lags or limits hides nothing that another
 * shows.
 */
export function createForeignWatch(rules: ChainRules, modules: ForeignWatchModules): ForeignWatch {
  const { receivers = [] } = rules;
  const scans =
    receivers.length === 0 ? [] : modules.nodes.map((node) => createNodeScan(rules, receivers, node, modules));
  return {
    async scan(signal) {
      await Promise.all(scans.map((scan) => scan(signal)));
    },
    async run(tickMs, signal) {
      const forever = async (scan: (signal: AbortSignal) => Promise<void>): Promise<void> => {
        while (!signal.aborted) {
          await scan(signal);
          await pause(tickMs, signal);
        }
      };
      await Promise.all(scans.map(forever));
    },
  };
}

function createNodeScan(
  { network, finalityBlocks, maxLogBlocks = 1_000, foreignScanMs = PAUSE_MS }: ChainRules,
  receivers: readonly AssetReceiver[],
  node: EvmNode,
  { ledger, clock, log, metrics }: ForeignWatchModules,
): (signal: AbortSignal) => Promise<void> {
  const pairs = receivers.map(({ asset, payTo }) => `${asset.toLowerCase()} ${addressToTopic(payTo)}`);
  const isOurs = new Set(pairs);
  const address = [...new Set(receivers.map(({ asset }) => asset))];
  const payTos = [...new Set(receivers.map(({ payTo }) => addressToTopic(payTo)))];
  const scan: ForeignScan = { network, node: node.name, receivers: digestOf(pairs) };
  const labels = { network, node: node.name };
  const reader = createNodeReader(node);
  const size = new WindowSize(maxLogBlocks);
  const faultLog = new FaultLogThrottle(clock);
  let dueAtMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  /** How often in a row one block's logs were refused, and how often the head was below the cursor. */
  let refusals = 0;
  let belowCursor = 0;

  // A counter that begins with its first event shows no increase.
  metrics.count(foreignSettlementsTotal, labels, 0);
  for (const result of ["done", "partial", "failed"]) metrics.count(foreignScansTotal, { ...labels, result }, 0);

  const finalOf = ({ number }: Head): bigint => (number > finalityBlocks ? number - BigInt(finalityBlocks) : 0n);

  const isFresh = ({ timeSeconds }: Head): boolean => clock.nowMs() - timeSeconds * 1_000 < FRESH_MS;

  const showLag = ({ scannedTo, finalBlock }: ScanCursor): void => {
    if (scannedTo !== undefined && finalBlock !== undefined)
      metrics.set(foreignLagGauge, Number(finalBlock - scannedTo), labels);
  };

  const readLogs = async (
    filter: Omit<LogFilter, "address">,
    signal: AbortSignal,
  ): Promise<Exclude<Window, { kind: "read" }> | { kind: "logs"; head: Head; logs: readonly PlacedLog[] }> => {
    const { head, logs } = await reader.logs({ address, ...filter }, signal);
    if (finalOf(head) < filter.to) return { kind: "behind", head };
    return logs === undefined ? { kind: "refused" } : { kind: "logs", head, logs };
  };

  const readWindow = async (from: bigint, to: bigint, signal: AbortSignal): Promise<Window> => {
    const paid = await readLogs({ topics: [TOPIC_TRANSFER, null, payTos], from, to }, signal);
    if (paid.kind !== "logs") return paid;
    const transfers = paid.logs.filter(({ log: { address: asset, topics } }) => isOurs.has(`${asset} ${topics[2]}`));
    const unknown = transfers.length === 0 ? [] : await ledger.unknownTransfers(network, transfers);
    if (unknown.length === 0) return { kind: "read", head: paid.head, findings: [], passedOver: 0 };
    const judged = unknown.slice(0, MAX_TRANSFERS);
    const payers = [...new Set(judged.flatMap(({ log: { topics } }) => topics[1] ?? []))];
    const uses = await readLogs({ topics: [[TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER], payers], from, to }, signal);
    if (uses.kind !== "logs") return uses;
    const findings = await Promise.all(judged.map((transfer) => judge(transfer, uses.logs)));
    return {
      kind: "read",
      head: uses.head,
      findings: findings.filter((finding) => finding !== undefined),
      passedOver: unknown.length - judged.length,
    };
  };

  const judge = async (transfer: PlacedLog, logs: readonly PlacedLog[]): Promise<Finding | undefined> => {
    const { address: asset, topics } = transfer.log;
    const nonce = nonceOf(transfer, logs);
    if (nonce === undefined) return undefined;
    const payer: Address = `0x${topics[1]?.slice(26)}`;
    if ((await ledger.find({ network, asset, from: payer, nonce })) !== undefined) return undefined;
    return { transaction: transfer.transaction, payer, payTo: `0x${topics[2]?.slice(26)}` };
  };

  /**
   * The first block to scan is final by two answers, one scan apart: a wrong head would hide all that comes before it. What
   * was paid earlier may be of a time when the receiver was another's.
   */
  const firstStep = async (finalBlock: bigint | undefined, signal: AbortSignal): Promise<Step> => {
    const head = await reader.head(signal);
    if (!isFresh(head)) throw unavailable(node, "its newest block is old");
    const final = finalOf(head);
    const lower = finalBlock === undefined || final < finalBlock ? final : finalBlock;
    const scannedTo = finalBlock === undefined ? undefined : lower;
    return { cursor: { scannedTo, finalBlock: final }, findings: [], isWhole: true };
  };

  /** The node has less than it had: it lags, or what it said before was wrong, or its chain began anew. */
  const stepBehind = async (scannedTo: bigint, head: Head): Promise<Step> => {
    const finalBlock = finalOf(head);
    if (head.number < scannedTo && ++belowCursor >= MAX_FAILURES && isFresh(head)) {
      belowCursor = 0;
      log.error(
        { node: node.name, scannedTo: `${scannedTo}`, head: `${head.number}` },
        "a scan begins anew: its node has fewer blocks than were scanned",
      );
      return { cursor: { scannedTo: undefined, finalBlock }, findings: [], isWhole: false };
    }
    await ledger.moveCursor(scan, scannedTo, { scannedTo, finalBlock });
    throw unavailable(node, "it has fewer blocks than it had");
  };

  /** The next window; undefined when the node wants a smaller one. */
  const nextStep = async ({ scannedTo, finalBlock }: ScanCursor, signal: AbortSignal): Promise<Step | undefined> => {
    if (scannedTo === undefined || finalBlock === undefined) return firstStep(finalBlock, signal);
    if (finalBlock <= scannedTo) {
      const head = await reader.head(signal);
      if (head.number < scannedTo) return stepBehind(scannedTo, head);
      belowCursor = 0;
      return { cursor: { scannedTo, finalBlock: finalOf(head) }, findings: [], isWhole: true };
    }
    const last = scannedTo + BigInt(size.current());
    const to = last < finalBlock ? last : finalBlock;
    const blocks = Number(to - scannedTo);
    let window: Window;
    try {
      window = await readWindow(scannedTo + 1n, to, signal);
    } catch (error) {
      if (signal.aborted || isLedgers(error)) throw error;
      // One that answers otherwise did not answer for the size of what was asked.
      await reader.head(signal);
      window = { kind: "refused" };
    }
    if (window.kind === "behind") return stepBehind(scannedTo, window.head);
    if (window.kind === "refused") {
      size.failed(blocks);
      if (blocks > 1) return undefined;
      if (++refusals < MAX_FAILURES) throw unavailable(node, "it refuses a block's logs");
      log.error({ node: node.name, block: `${to}` }, "a block could not be scanned and is passed over");
      refusals = 0;
      // It was this block that made the windows small.
      size.reset();
      return { cursor: { scannedTo: to, finalBlock }, findings: [], isWhole: false };
    }
    size.answered(blocks);
    refusals = 0;
    belowCursor = 0;
    const { head, findings, passedOver } = window;
    if (passedOver > 0)
      log.warn({ from: `${scannedTo + 1n}`, to: `${to}`, passedOver }, "transfers to our receivers were passed over");
    return { cursor: { scannedTo: to, finalBlock: finalOf(head) }, findings, isWhole: passedOver === 0 };
  };

  /** Logged before the cursor moves and counted after: nothing is lost, and a scan that is repeated counts nothing twice. */
  const commit = async (was: bigint | undefined, { cursor, findings, isWhole }: Step): Promise<boolean> => {
    for (const finding of findings)
      log.error({ ...finding, node: node.name }, "a payment to our receiver is in another seller's ledger");
    const count = (): void => metrics.count(foreignSettlementsTotal, labels, findings.length);
    try {
      if (!(await ledger.moveCursor(scan, was, cursor))) return false;
    } catch (error) {
      if (isAppError(error) && error.detail.unknown === true) count();
      throw error;
    }
    count();
    if (!isWhole) metrics.count(foreignScansTotal, { ...labels, result: "partial" });
    showLag(cursor);
    return true;
  };

  const scanOnce = async (signal: AbortSignal): Promise<void> => {
    const begun = await ledger.beginScan(scan, foreignScanMs);
    showLag(begun);
    if (!begun.isDue) return;
    const stopAtMs = clock.monotonicMs() + SCAN_MS;
    let cursor: ScanCursor = begun;
    let hasMoved = false;
    let isWhole = true;
    for (let windows = 0; windows < MAX_WINDOWS && clock.monotonicMs() < stopAtMs; windows++) {
      const step = await nextStep(cursor, signal);
      if (step === undefined) continue;
      // Another process goes on from there.
      if (!(await commit(cursor.scannedTo, step))) return;
      hasMoved = true;
      isWhole &&= step.isWhole;
      cursor = step.cursor;
      const { scannedTo, finalBlock } = cursor;
      if (scannedTo === undefined || scannedTo >= (begun.finalBlock ?? 0n) || scannedTo >= (finalBlock ?? 0n)) break;
    }
    if (!hasMoved) throw unavailable(node, "it refuses logs");
    if (isWhole) metrics.count(foreignScansTotal, { ...labels, result: "done" });
  };

  return async (signal) => {
    if (clock.monotonicMs() < dueAtMs) return;
    dueAtMs = clock.monotonicMs() + foreignScanMs;
    try {
      await scanOnce(signal);
      failures = 0;
      if (faultLog.onRecovery()) log.info({ node: node.name }, "a node is scanned again");
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      dueAtMs = clock.monotonicMs() + Math.min(LONGEST_PAUSE_MS, foreignScanMs * 2 ** failures);
      metrics.count(foreignScansTotal, { ...labels, result: "failed" });
      const reason = isAppError(error) ? error.detail.reason : undefined;
      if (faultLog.onFailure())
        log.warn(
          { node: node.name, code: failureCode(error), reason, failures },
          "a node could not be scanned for payments of other sellers",
        );
    }
  };
}

/** Nonce of the authorization whose use is the asset's last log before a transfer: see `findEvidence`. */
function nonceOf({ blockHash, transaction, logIndex, log }: PlacedLog, logs: readonly PlacedLog[]): Hex | undefined {
  let last: PlacedLog | undefined;
  for (const other of logs) {
    if (other.blockHash !== blockHash || other.transaction !== transaction || other.logIndex >= logIndex) continue;
    if (other.log.address === log.address && (last === undefined || other.logIndex > last.logIndex)) last = other;
  }
  const [event, payer, nonce] = last?.log.topics ?? [];
  return event === TOPIC_AUTHORIZATION_USED && payer === log.topics[1] ? nonce : undefined;
}

function digestOf(pairs: readonly string[]): string {
  return createHash("sha256").update(pairs.toSorted().join("\n")).digest("hex").slice(0, 16);
}

function unavailable({ name }: EvmNode, reason: string): AppError {
  return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: name, reason } });
}

function isLedgers(error: unknown): boolean {
  return isAppError(error) && error.code.startsWith("LEDGER_");
}
