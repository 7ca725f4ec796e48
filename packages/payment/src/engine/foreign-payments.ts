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
import { settlementForeignLagBlocks, settlementForeignScansTotal, settlementForeignTotal } from "./metrics.ts";
import { type LogFilter, NodeReader, type PlacedLog } from "./node-reader.ts";
import type { AssetReceiver, ChainRules } from "./options.ts";
import { pause } from "./waiters.ts";
import { WindowSize } from "./window-size.ts";

/** Modules of a {@link ForeignPaymentWatch}, which owns none of them. */
export interface ForeignPaymentModules {
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
 * Scans one network for payments to our receivers that another ledger must have taken. A ledger of another database cannot
 * be seen, but what it settles for a receiver of ours can: an authorization that paid the receiver, and that our ledger
 * does not know, was sold for elsewhere (or was a present). A buyer can then have two answers for one transfer. No request
 * waits for a scan, and nothing depends on it but an alert.
 *
 * Each node is scanned by itself, with a cursor of its own: one that lies, lags or limits hides nothing that another
 * shows.
 */
export class ForeignPaymentWatch {
  readonly #scanners: readonly NodeScanner[];

  constructor(rules: ChainRules, modules: ForeignPaymentModules) {
    const { receivers = [] } = rules;
    const nodes = receivers.length === 0 ? [] : modules.nodes;
    this.#scanners = nodes.map((node) => new NodeScanner(rules, receivers, node, modules));
  }

  /** Scans each node that is due: two requests of it, or thirty while it is behind or refuses. Never rejects. */
  async scan(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#scanners.map((scanner) => scanner.scan(signal)));
  }

  /** Scans whenever a node is due, until the signal fires. Returns at once when there is no receiver. */
  async run(tickMs: number, signal: AbortSignal): Promise<void> {
    const forever = async (scanner: NodeScanner): Promise<void> => {
      while (!signal.aborted) {
        await scanner.scan(signal);
        await pause(tickMs, signal);
      }
    };
    await Promise.all(this.#scanners.map(forever));
  }
}

/** Scans the logs of one node, window by window, from where its cursor in the ledger stands. */
class NodeScanner {
  readonly #rules: ChainRules;
  readonly #intervalMs: number;
  readonly #node: EvmNode;
  readonly #modules: ForeignPaymentModules;
  readonly #assets: readonly Address[];
  readonly #payTos: readonly Hex[];
  /** Asset and receiver's topic of each pair that is ours. */
  readonly #pairs: ReadonlySet<string>;
  readonly #scan: ForeignScan;
  readonly #labels: { readonly network: string; readonly node: string };
  readonly #reader: NodeReader;
  readonly #size: WindowSize;
  readonly #faultLog: FaultLogThrottle;
  #dueAtMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  /** How often in a row one block's logs were refused, and how often the head was below the cursor. */
  #refusals = 0;
  #belowCursor = 0;

  constructor(rules: ChainRules, receivers: readonly AssetReceiver[], node: EvmNode, modules: ForeignPaymentModules) {
    const { network } = rules;
    const { clock, metrics } = modules;
    const pairs = receivers.map(({ asset, payTo }) => `${asset.toLowerCase()} ${addressToTopic(payTo)}`);
    this.#rules = rules;
    this.#intervalMs = rules.foreignScanMs ?? PAUSE_MS;
    this.#node = node;
    this.#modules = modules;
    this.#assets = [...new Set(receivers.map(({ asset }) => asset))];
    this.#payTos = [...new Set(receivers.map(({ payTo }) => addressToTopic(payTo)))];
    this.#pairs = new Set(pairs);
    this.#scan = { network, node: node.name, receivers: digestOf(pairs) };
    this.#labels = { network, node: node.name };
    this.#reader = new NodeReader(node);
    this.#size = new WindowSize(rules.maxLogBlocks ?? 1_000);
    this.#faultLog = new FaultLogThrottle(clock);
    // A counter that begins with its first event shows no increase.
    metrics.count(settlementForeignTotal, this.#labels, 0);
    for (const result of ["done", "partial", "failed"])
      metrics.count(settlementForeignScansTotal, { ...this.#labels, result }, 0);
  }

  /** One scan when it is due. Never rejects. */
  async scan(signal: AbortSignal): Promise<void> {
    const { clock, log, metrics } = this.#modules;
    const node = this.#node.name;
    if (clock.monotonicMs() < this.#dueAtMs) return;
    this.#dueAtMs = clock.monotonicMs() + this.#intervalMs;
    try {
      await this.#scanOnce(signal);
      this.#failures = 0;
      if (this.#faultLog.onRecovery()) log.info({ node }, "a node is scanned again");
    } catch (error) {
      if (signal.aborted) return;
      const failures = ++this.#failures;
      this.#dueAtMs = clock.monotonicMs() + Math.min(LONGEST_PAUSE_MS, this.#intervalMs * 2 ** failures);
      metrics.count(settlementForeignScansTotal, { ...this.#labels, result: "failed" });
      const reason = isAppError(error) ? error.detail.reason : undefined;
      if (this.#faultLog.onFailure())
        log.warn(
          { node, code: failureCode(error), reason, failures },
          "a node could not be scanned for payments of other sellers",
        );
    }
  }

  async #scanOnce(signal: AbortSignal): Promise<void> {
    const { ledger, clock, metrics } = this.#modules;
    const begun = await ledger.beginScan(this.#scan, this.#intervalMs);
    this.#showLag(begun);
    if (!begun.isDue) return;
    const stopAtMs = clock.monotonicMs() + SCAN_MS;
    let cursor: ScanCursor = begun;
    let hasMoved = false;
    let isWhole = true;
    for (let windows = 0; windows < MAX_WINDOWS && clock.monotonicMs() < stopAtMs; windows++) {
      const step = await this.#nextStep(cursor, signal);
      if (step === undefined) continue;
      // Another process goes on from there.
      if (!(await this.#commit(cursor.scannedTo, step))) return;
      hasMoved = true;
      isWhole &&= step.isWhole;
      cursor = step.cursor;
      const { scannedTo, finalBlock } = cursor;
      if (scannedTo === undefined || scannedTo >= (begun.finalBlock ?? 0n) || scannedTo >= (finalBlock ?? 0n)) break;
    }
    if (!hasMoved) throw this.#unavailable("it refuses logs");
    if (isWhole) metrics.count(settlementForeignScansTotal, { ...this.#labels, result: "done" });
  }

  /** The next window; undefined when the node wants a smaller one. */
  async #nextStep({ scannedTo, finalBlock }: ScanCursor, signal: AbortSignal): Promise<Step | undefined> {
    if (scannedTo === undefined || finalBlock === undefined) return this.#firstStep(finalBlock, signal);
    if (finalBlock <= scannedTo) return this.#stepWithoutBlocks(scannedTo, signal);
    const last = scannedTo + BigInt(this.#size.current());
    const to = last < finalBlock ? last : finalBlock;
    const blocks = Number(to - scannedTo);
    const window = await this.#tryWindow(scannedTo + 1n, to, signal);
    if (window.kind === "behind") return this.#stepBehind(scannedTo, window.head);
    if (window.kind === "refused") return this.#stepRefused(to, finalBlock, blocks);
    this.#size.answered(blocks);
    this.#refusals = 0;
    this.#belowCursor = 0;
    const { head, findings, passedOver } = window;
    if (passedOver > 0) {
      const from = `${scannedTo + 1n}`;
      this.#modules.log.warn({ from, to: `${to}`, passedOver }, "transfers to our receivers were passed over");
    }
    return { cursor: { scannedTo: to, finalBlock: this.#finalOf(head) }, findings, isWhole: passedOver === 0 };
  }

  /**
   * The first block to scan is final by two answers, one scan apart: a wrong head would hide all that comes before it. What
   * was paid earlier may be of a time when the receiver was another's.
   */
  async #firstStep(finalBlock: bigint | undefined, signal: AbortSignal): Promise<Step> {
    const head = await this.#reader.head(signal);
    if (!this.#isFresh(head)) throw this.#unavailable("its newest block is old");
    const final = this.#finalOf(head);
    const lower = finalBlock === undefined || final < finalBlock ? final : finalBlock;
    const scannedTo = finalBlock === undefined ? undefined : lower;
    return { cursor: { scannedTo, finalBlock: final }, findings: [], isWhole: true };
  }

  /** All that was final when it was looked at last is scanned: only the final block is read anew. */
  async #stepWithoutBlocks(scannedTo: bigint, signal: AbortSignal): Promise<Step> {
    const head = await this.#reader.head(signal);
    if (head.number < scannedTo) return this.#stepBehind(scannedTo, head);
    this.#belowCursor = 0;
    return { cursor: { scannedTo, finalBlock: this.#finalOf(head) }, findings: [], isWhole: true };
  }

  /** The node has less than it had: it lags, or its answer before was wrong, or its chain began anew. */
  async #stepBehind(scannedTo: bigint, head: Head): Promise<Step> {
    const { ledger, log } = this.#modules;
    const finalBlock = this.#finalOf(head);
    if (head.number < scannedTo && ++this.#belowCursor >= MAX_FAILURES && this.#isFresh(head)) {
      this.#belowCursor = 0;
      log.error(
        { node: this.#node.name, scannedTo: `${scannedTo}`, head: `${head.number}` },
        "a scan begins anew: its node has fewer blocks than were scanned",
      );
      return { cursor: { scannedTo: undefined, finalBlock }, findings: [], isWhole: false };
    }
    await ledger.moveCursor(this.#scan, scannedTo, { scannedTo, finalBlock });
    throw this.#unavailable("it has fewer blocks than it had");
  }

  /** Undefined for a smaller window; a single block that is refused again and again is passed over. */
  #stepRefused(to: bigint, finalBlock: bigint, blocks: number): Step | undefined {
    this.#size.failed(blocks);
    if (blocks > 1) return undefined;
    if (++this.#refusals < MAX_FAILURES) throw this.#unavailable("it refuses a block's logs");
    const block = { node: this.#node.name, block: `${to}` };
    this.#modules.log.error(block, "a block could not be scanned and is passed over");
    this.#refusals = 0;
    // It was this block that made the windows small.
    this.#size.reset();
    return { cursor: { scannedTo: to, finalBlock }, findings: [], isWhole: false };
  }

  async #tryWindow(from: bigint, to: bigint, signal: AbortSignal): Promise<Window> {
    try {
      return await this.#readWindow(from, to, signal);
    } catch (error) {
      if (signal.aborted || isLedgers(error)) throw error;
      // One that answers otherwise did not answer for the size of what was asked.
      await this.#reader.head(signal);
      return { kind: "refused" };
    }
  }

  async #readWindow(from: bigint, to: bigint, signal: AbortSignal): Promise<Window> {
    const paid = await this.#readLogs({ topics: [TOPIC_TRANSFER, null, this.#payTos], from, to }, signal);
    if (paid.kind !== "logs") return paid;
    const transfers = paid.logs.filter(({ log: { address, topics } }) => this.#pairs.has(`${address} ${topics[2]}`));
    const unknown =
      transfers.length === 0 ? [] : await this.#modules.ledger.unknownTransfers(this.#rules.network, transfers);
    if (unknown.length === 0) return { kind: "read", head: paid.head, findings: [], passedOver: 0 };
    const judged = unknown.slice(0, MAX_TRANSFERS);
    const payers = [...new Set(judged.flatMap(({ log: { topics } }) => topics[1] ?? []))];
    const topics = [[TOPIC_AUTHORIZATION_USED, TOPIC_TRANSFER], payers];
    const uses = await this.#readLogs({ topics, from, to }, signal);
    if (uses.kind !== "logs") return uses;
    const findings = await Promise.all(judged.map((transfer) => this.#judge(transfer, uses.logs)));
    return {
      kind: "read",
      head: uses.head,
      findings: findings.filter((finding) => finding !== undefined),
      passedOver: unknown.length - judged.length,
    };
  }

  async #readLogs(
    filter: Omit<LogFilter, "address">,
    signal: AbortSignal,
  ): Promise<Exclude<Window, { kind: "read" }> | { kind: "logs"; head: Head; logs: readonly PlacedLog[] }> {
    const { head, logs } = await this.#reader.logs({ address: this.#assets, ...filter }, signal);
    if (this.#finalOf(head) < filter.to) return { kind: "behind", head };
    return logs === undefined ? { kind: "refused" } : { kind: "logs", head, logs };
  }

  async #judge(transfer: PlacedLog, logs: readonly PlacedLog[]): Promise<Finding | undefined> {
    const { address: asset, topics } = transfer.log;
    const nonce = nonceOf(transfer, logs);
    if (nonce === undefined) return undefined;
    const payer: Address = `0x${topics[1]?.slice(26)}`;
    const key = { network: this.#rules.network, asset, from: payer, nonce };
    if ((await this.#modules.ledger.find(key)) !== undefined) return undefined;
    return { transaction: transfer.transaction, payer, payTo: `0x${topics[2]?.slice(26)}` };
  }

  /** Logged before the cursor moves and counted after: nothing is lost, and a scan that is repeated counts nothing twice. */
  async #commit(was: bigint | undefined, { cursor, findings, isWhole }: Step): Promise<boolean> {
    const { ledger, log, metrics } = this.#modules;
    for (const finding of findings)
      log.error({ ...finding, node: this.#node.name }, "a payment to our receiver is in another seller's ledger");
    const count = (): void => metrics.count(settlementForeignTotal, this.#labels, findings.length);
    try {
      if (!(await ledger.moveCursor(this.#scan, was, cursor))) return false;
    } catch (error) {
      if (isAppError(error) && error.detail.unknown === true) count();
      throw error;
    }
    count();
    if (!isWhole) metrics.count(settlementForeignScansTotal, { ...this.#labels, result: "partial" });
    this.#showLag(cursor);
    return true;
  }

  #finalOf({ number }: Head): bigint {
    const { finalityBlocks } = this.#rules;
    return number > finalityBlocks ? number - BigInt(finalityBlocks) : 0n;
  }

  #isFresh({ timeSeconds }: Head): boolean {
    return this.#modules.clock.nowMs() - timeSeconds * 1_000 < FRESH_MS;
  }

  #showLag({ scannedTo, finalBlock }: ScanCursor): void {
    if (scannedTo !== undefined && finalBlock !== undefined)
      this.#modules.metrics.set(settlementForeignLagBlocks, Number(finalBlock - scannedTo), this.#labels);
  }

  #unavailable(reason: string): AppError {
    return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: this.#node.name, reason } });
  }
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

function isLedgers(error: unknown): boolean {
  return isAppError(error) && error.code.startsWith("LEDGER_");
}
