import { setImmediate as nextTurn } from "node:timers/promises";
import { bytesToHex, type Metrics, noMetrics } from "@turnpike/base";
import { dataBytes, MAX_TX_BYTES, type TxResult } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { txHash } from "@turnpike/cometbft";
import { chainMempoolBytes, chainMempoolRefusedTotal, chainMempoolTxs } from "../metrics.ts";
import type { MempoolReads, Submission } from "../types.ts";
import { inBlockOrder, type Ranked, rankOf } from "./mempool-order.ts";
import { SmallCache } from "./small-cache.ts";

/** Bounds of a {@link Mempool}. */
export interface MempoolOptions {
  /** Most transactions that wait, and most bytes of them together. */
  readonly maxTxs: number;
  readonly maxTxsBytes: number;
  /** Most bytes of one. */
  readonly maxTxBytes: number;
  /** Hashes of transactions that were seen, waiting ones included. */
  readonly maxSeen: number;
}

/** CometBFT's own bounds, but for the bytes of all: it allows 1 GiB. */
export const DEFAULT_MEMPOOL: MempoolOptions = {
  maxTxs: 5000,
  maxTxsBytes: 134_217_728,
  maxTxBytes: MAX_TX_BYTES,
  maxSeen: 10_000,
};

export interface MempoolModules {
  /** Checks on the state of the mempool. @param again it was checked before, on the state before the newest block */
  readonly check: (tx: Bytes, again: boolean) => TxResult;
  /** Accounts whose signatures a transaction needs, as `check` names them in its events; none when it cannot be read. */
  readonly signersOf: (tx: Bytes) => readonly string[];
  /** Most bytes of the transactions of a block. */
  readonly maxDataBytes: () => bigint;
  readonly metrics?: Metrics;
}

interface Waiting extends Ranked {
  readonly bytes: Bytes;
  readonly gasWanted: bigint;
  readonly hash: Bytes;
}

/** Transactions that are checked again before others get their turn: some 15 ms. */
const RECHECK_STEP = 50;

/** Transactions that wait for a block, checked as CometBFT 0.38 does it, and ordered by price. */
export class Mempool implements MempoolReads {
  readonly #opts: MempoolOptions;
  readonly #modules: MempoolModules;
  readonly #metrics: Metrics;
  // By hash, in the order of arrival.
  readonly #waiting = new Map<string, Waiting>();
  /** Those of them that are to be checked again, on the state after the newest block. */
  readonly #unchecked = new Map<string, Waiting>();
  readonly #seen: SmallCache<string, true>;
  #ordered: readonly Waiting[] | undefined;
  #bytes = 0;
  #arrivals = 0;

  constructor(opts: MempoolOptions, modules: MempoolModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#metrics = modules.metrics ?? noMetrics;
    this.#seen = new SmallCache({ maxEntries: opts.maxSeen, maxBytes: opts.maxSeen });
    // A counter that begins with its first refusal would not be seen to grow.
    this.#metrics.count(chainMempoolRefusedTotal, { reason: "full" }, 0);
    this.#show();
  }

  numTxs(): number {
    return this.#waiting.size;
  }

  sizeBytes(): number {
    return this.#bytes;
  }

  /** Whether a transaction waits, by the hex of its hash. */
  has(hash: string): boolean {
    return this.#waiting.has(hash);
  }

  txs(limit: number): readonly Bytes[] {
    return this.#inOrder()
      .slice(0, Math.max(0, limit))
      .map(({ bytes }) => bytes);
  }

  /** Checks a transaction and keeps it when it is good. Texts and their order are CometBFT's. */
  submit(tx: Bytes): Submission {
    const hash = txHash(tx);
    const full = this.#fullText(tx.length);
    const refusal = full ?? this.#sizeText(tx);
    if (refusal !== undefined) {
      this.#metrics.count(chainMempoolRefusedTotal, { reason: full === undefined ? "too_large" : "full" });
      return { kind: "refused", hash, text: refusal };
    }
    const key = bytesToHex(hash);
    if (this.#seen.get(key) !== undefined) return { kind: "known", hash };
    this.prepare(tx);
    // The mempool's own, from the check to the block: what the check read of them is used again there.
    const bytes = Uint8Array.from(tx);
    const result = this.#modules.check(bytes, false);
    // It may be known no more and wait all the same, when the cache is small.
    if (result.code !== 0 || this.#waiting.has(key)) return { kind: "checked", hash, result };
    this.#seen.set(key, true, 1);
    this.#waiting.set(key, {
      ...rankOf(this.#arrivals++, result),
      bytes,
      gasWanted: result.gasWanted,
      hash,
    });
    this.#bytes += tx.length;
    this.#ordered = undefined;
    this.#show();
    return { kind: "checked", hash, result };
  }

  /** The transactions of the next block: the first ones that fit. @param maxGas -1: any */
  reap(maxGas: bigint): Bytes[] {
    const most = this.#modules.maxDataBytes();
    const txs: Bytes[] = [];
    let [size, gas] = [0n, 0n];
    for (const { bytes, gasWanted } of this.#inOrder()) {
      size += dataBytes(bytes);
      gas += gasWanted;
      if (size > most || (maxGas >= 0n && gas > maxGas)) break;
      txs.push(bytes);
    }
    return txs;
  }

  /** Makes sure that what a transaction follows was checked on the newest state before it: all that has a signer of it. */
  prepare(tx: Bytes): void {
    if (this.#unchecked.size === 0) return;
    const signers = new Set(this.#modules.signersOf(tx));
    const before: (readonly [string, Waiting])[] = [];
    for (const entry of [...this.#unchecked].reverse()) {
      if (!entry[1].signers.some((signer) => signers.has(signer))) continue;
      for (const signer of entry[1].signers) signers.add(signer);
      before.push(entry);
    }
    for (const [key, item] of before.reverse()) this.#recheck(key, item);
  }

  /**
   * Takes out what a block holds, and begins to check the rest again on the state after it: what expired goes. A full
   * mempool takes seconds: {@link settle} does what is left.
   */
  update(txs: readonly Bytes[], results: readonly TxResult[]): void {
    for (const [i, tx] of txs.entries()) {
      const key = bytesToHex(txHash(tx));
      if (results[i]?.code === 0) this.#seen.set(key, true, 1);
      else this.#seen.delete(key);
      this.#remove(key);
    }
    this.#unchecked.clear();
    for (const [key, item] of this.#waiting) this.#unchecked.set(key, item);
    this.#recheckSome();
  }

  /** Ends the checks that {@link update} began, or stops at the signal. Others have their turn in between. */
  async settle(signal: AbortSignal): Promise<void> {
    while (this.#unchecked.size > 0 && !signal.aborted) {
      await nextTurn();
      this.#recheckSome();
    }
  }

  #recheckSome(): void {
    let left = RECHECK_STEP;
    for (const [key, item] of this.#unchecked) {
      if (left-- === 0) return;
      this.#recheck(key, item);
    }
  }

  #recheck(key: string, { bytes }: Waiting): void {
    this.#unchecked.delete(key);
    if (this.#modules.check(bytes, true).code === 0) return;
    this.#remove(key);
    this.#seen.delete(key);
  }

  #remove(key: string): void {
    const entry = this.#waiting.get(key);
    if (entry === undefined) return;
    this.#waiting.delete(key);
    this.#unchecked.delete(key);
    this.#bytes -= entry.bytes.length;
    this.#ordered = undefined;
    this.#show();
  }

  #show(): void {
    this.#metrics.set(chainMempoolTxs, this.#waiting.size);
    this.#metrics.set(chainMempoolBytes, this.#bytes);
  }

  #inOrder(): readonly Waiting[] {
    this.#ordered ??= inBlockOrder(this.#waiting.values());
    return this.#ordered;
  }

  #fullText(sizeBytes: number): string | undefined {
    const { maxTxs, maxTxsBytes } = this.#opts;
    if (this.#waiting.size < maxTxs && this.#bytes + sizeBytes <= maxTxsBytes) return undefined;
    const counts = `number of txs ${this.#waiting.size} (max: ${maxTxs})`;
    return `mempool is full: ${counts}, total txs bytes ${this.#bytes} (max: ${maxTxsBytes})`;
  }

  #sizeText(tx: Bytes): string | undefined {
    const { maxTxBytes } = this.#opts;
    if (tx.length > maxTxBytes) return `Tx too large. Max size is ${maxTxBytes}, but got ${tx.length}`;
    const [size, most] = [dataBytes(tx), this.#modules.maxDataBytes()];
    return size > most ? `tx pre check: tx size is too big: ${size}, max: ${most}` : undefined;
  }
}
