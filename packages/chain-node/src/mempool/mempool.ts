import { setImmediate as nextTurn } from "node:timers/promises";
import { bytesToHex, type Clock, type Metrics, noMetrics, systemClock } from "@turnpike/base";
import { dataBytes, type FaultKind, MAX_TX_BYTES, type Offer, SDK, type TxFacts, type TxResult } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { txHash } from "@turnpike/cometbft";
import { chainMempoolBytes, chainMempoolDroppedTotal, chainMempoolRefusedTotal, chainMempoolTxs } from "../metrics.ts";
import type { MempoolReads, Submission } from "../types.ts";
import {
  type BlockRoom,
  inBlockOrder,
  outbids,
  type Placed,
  pickFitting,
  type Ranked,
  RankedList,
  rankAfter,
} from "./mempool-order.ts";
import { SmallCache } from "./small-cache.ts";

/** Bounds of a {@link Mempool}. */
export interface MempoolOptions {
  /** Maximum number of transactions that wait, and of their bytes. */
  readonly maxTxs: number;
  readonly maxTxsBytes: number;
  /** Maximum bytes of a transaction. */
  readonly maxTxBytes: number;
  /** Maximum number of transactions of one signer that wait. */
  readonly maxTxsOfSigner: number;
  /** Hashes of transactions that were seen, waiting ones included. */
  readonly maxSeen: number;
  /**
   * Follows the mempool of CometBFT, which has the transactions: what is dropped here leaves it when it is checked again. Until then it
   * takes a place there, so that the price of a place rises by a tenth with each ten of them, or with each ten MiB.
   */
  readonly mirrors: boolean;
}

/** CometBFT's own bounds, but for the bytes of all, where it allows 1 GiB, and for those of a signer, where it has none. */
export const DEFAULT_MEMPOOL: MempoolOptions = {
  maxTxs: 5000,
  maxTxsBytes: 134_217_728,
  maxTxBytes: MAX_TX_BYTES,
  maxTxsOfSigner: 1000,
  maxSeen: 10_000,
  mirrors: false,
};

/**
 * Beside CometBFT's mempool, which takes 5,000 transactions of any price: the last thousand of its places cost ever more, up to
 * some 13,000 times the lowest price, and are free again after each block. Its bytes are those of CometBFT's usual block.
 */
export const MIRROR_MEMPOOL: MempoolOptions = {
  ...DEFAULT_MEMPOOL,
  maxTxs: 4000,
  maxTxsBytes: 22_020_096,
  mirrors: true,
};

/**
 * The bounds of a mirror for blocks of these bytes. CometBFT hands over the transactions that arrived first, up to a block's bytes
 * (`ReapMaxBytesMaxGas`): what is behind them is in no block at any price, and so not more may wait. An eighth is left for header,
 * votes and evidence. @param maxBlockBytes -1: any, and CometBFT hands over all
 */
export function mirrorBounds(opts: MempoolOptions, maxBlockBytes: bigint): MempoolOptions {
  if (maxBlockBytes < 0n) return opts;
  const handedOver = Number(maxBlockBytes - maxBlockBytes / 8n);
  return { ...opts, maxTxsBytes: Math.min(opts.maxTxsBytes, handedOver) };
}

/** Reason of a check: `replacement` is of a transaction that takes the place of one that waits and has the same sequences. */
export type CheckKind = "new" | "again" | "replacement";

export interface MempoolModules {
  /** Checks on the state of the mempool. `again`: it was checked before, on the state before the newest block. */
  readonly check: (tx: Bytes, kind: CheckKind) => TxResult;
  /** Undoes a check of a transaction that leaves, and that none of its signers follows. */
  readonly uncheck: (tx: Bytes) => void;
  /** Properties of a transaction; undefined when it cannot be read. */
  readonly factsOf: (tx: Bytes) => TxFacts | undefined;
  /** Tries a block: false for what would fail in it and pay nothing. Asked in the order of the block. */
  readonly trial: (isOver: () => boolean) => (tx: Bytes, facts: TxFacts) => boolean;
  /** Maximum bytes of the transactions of a block. */
  readonly maxDataBytes: () => bigint;
  readonly metrics?: Metrics;
  /** Times checks after a block; the machine's by default. */
  readonly clock?: Clock;
}

/** Reason of a transaction leaving the mempool without a block. */
type DropReason = "evicted" | "replaced" | "invalid";

interface Waiting extends Ranked, Placed {
  readonly key: string;
  readonly hash: Bytes;
  rank: Offer;
  /** True until it is checked on the state after the newest block. */
  isStale: boolean;
  /** Number of blocks at the time when it was sent or checked for CometBFT. */
  confirmedAt: number;
}

interface Arrived {
  readonly bytes: Bytes;
  readonly hash: Bytes;
  readonly key: string;
  readonly facts: TxFacts | undefined;
  readonly arrival: number;
}

/** Time of checks before other work continues. */
const RECHECK_SLICE_MS = 5;
/** Time of the checks that a block waits for: it takes what is checked until then. */
const RECHECK_BEFORE_BLOCK_MS = 100;
/** Time of the checks that CometBFT asks for after a block, and waits for: what is not checked by then stays, and is checked before a block. */
const RECHECK_FOR_COMET_MS = 500;
/** Time of the trial of a block that is full. */
const TRIAL_BEFORE_BLOCK_MS = 50;
/** Transactions that were dropped and take a place in CometBFT's mempool, for each raise of a place's price. */
const DROPPED_PER_RAISE = 10;
/** A place's part of CometBFT's mempool, which holds 1 GiB: a longer drop takes as many places. */
const BYTES_PER_PLACE = MAX_TX_BYTES;
const NONE: readonly Waiting[] = [];
/** Facts of what cannot be read: it is run last, and fails. */
const UNREADABLE: TxFacts = {
  offer: { fee: 0n, gas: 1n },
  signers: [],
  isOrdered: false,
  slots: [],
  feePayer: "",
  feeUpokt: 0n,
  spends: new Map(),
  grantedSpends: [],
};
const PASSED: TxResult = {
  code: 0,
  codespace: "",
  log: "",
  data: new Uint8Array(0),
  gasWanted: 0n,
  gasUsed: 0n,
  events: [],
};
const OUTBID = refusedAs(SDK.mempoolIsFull, "dropped for one that pays more");
const INVALID = refusedAs(SDK.invalidRequest, "not valid after the newest block");
const REFUSAL_REASONS = ["full", "too_large", "signer"] as const;
const DROP_REASONS: readonly DropReason[] = ["evicted", "replaced", "invalid"];

/**
 * Transactions that wait for a block, in the order in which it takes them. CometBFT's texts, and the rules of nodes that order by
 * price: a full mempool drops its last transaction for one that pays a tenth more, and so is one replaced whose sequence is used
 * again.
 */
export class Mempool implements MempoolReads {
  readonly #opts: MempoolOptions;
  readonly #modules: MempoolModules;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Waiting>();
  readonly #ranked = new RankedList<Waiting>();
  /** In the order of their arrival, by signer. */
  readonly #bySigner = new Map<string, Waiting[]>();
  readonly #bySlot = new Map<string, Waiting>();
  /** Transactions that are to be checked again, the first of a block first; those before the cursor are done. */
  #stale: readonly Waiting[] = [];
  #staleCursor = 0;
  readonly #seen: SmallCache<string, true>;
  readonly #dropped: SmallCache<string, TxResult>;
  #droppedCount = 0;
  #droppedBytes = 0;
  /** Time of the checks for CometBFT since the newest block. */
  #recheckedMs = 0;
  /** Signers of transactions that were checked and are not kept, each with the arrival of the first. */
  readonly #checkOnly = new Map<string, number>();
  #blocks = 0;
  #settling: Promise<void> | undefined;
  #bytes = 0;
  #arrivals = 0;

  constructor(opts: MempoolOptions, modules: MempoolModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#metrics = modules.metrics ?? noMetrics;
    this.#clock = modules.clock ?? systemClock;
    this.#seen = new SmallCache({ maxEntries: opts.maxSeen, maxBytes: opts.maxSeen });
    this.#dropped = new SmallCache({ maxEntries: opts.maxSeen, maxBytes: opts.maxSeen });
    // A counter that begins with its first event would not be seen to grow.
    for (const reason of REFUSAL_REASONS) this.#metrics.count(chainMempoolRefusedTotal, { reason }, 0);
    for (const reason of DROP_REASONS) this.#metrics.count(chainMempoolDroppedTotal, { reason }, 0);
    this.#show();
  }

  numTxs(): number {
    return this.#waiting.size;
  }

  sizeBytes(): number {
    return this.#bytes;
  }

  /** Returns true while a transaction waits, by the hex of its hash. */
  has(hash: string): boolean {
    return this.#waiting.has(hash);
  }

  txs(limit: number): readonly Bytes[] {
    return this.#ranked
      .toArray()
      .slice(0, Math.max(0, limit))
      .map(({ bytes }) => bytes);
  }

  /** Checks a transaction and keeps it when it is good. Texts and their order are CometBFT's. */
  submit(tx: Bytes): Submission {
    const hash = txHash(tx);
    const key = bytesToHex(hash);
    const refuse = (reason: (typeof REFUSAL_REASONS)[number], text: string): Submission => {
      this.#metrics.count(chainMempoolRefusedTotal, { reason });
      return { kind: "refused", hash, text };
    };
    const tooLarge = this.#sizeText(tx);
    const isFull = !this.#hasRoom(tx.length);
    // Nothing of a transaction is read before its size is known.
    if (tooLarge !== undefined) return isFull ? refuse("full", this.#fullText()) : refuse("too_large", tooLarge);
    // CometBFT has a cache of its own: what it asks about and does not wait is to be checked.
    const isKnown = this.#opts.mirrors ? this.#waiting.has(key) : this.#seen.get(key) !== undefined;
    if (isKnown) return { kind: "known", hash };
    // The mempool's own, from the check to the block: what the check read of them is used again there.
    const bytes = Uint8Array.from(tx);
    if (isFull && this.#victimsFor(tx.length, this.#modules.factsOf(bytes)) === undefined) {
      return refuse("full", this.#fullText());
    }
    this.prepare(bytes);
    const result = this.#modules.check(bytes, "new");
    if (result.code !== 0) {
      const replaced = mayReplace(result) ? this.#replaced(bytes) : undefined;
      if (replaced === undefined) return { kind: "checked", hash, result };
      return { kind: "checked", hash, result: this.#replace(replaced, bytes, hash, key) };
    }
    // The cache of seen ones may have evicted it while it is still waiting.
    if (this.#waiting.has(key)) return { kind: "checked", hash, result };
    const facts = this.#modules.factsOf(bytes);
    const crowded = this.#crowdedSigner(facts);
    const victims = this.#victimsFor(tx.length, facts);
    if (crowded !== undefined || victims === undefined) {
      this.#modules.uncheck(bytes);
      if (crowded === undefined) return refuse("full", this.#fullText());
      return refuse("signer", `too many transactions of ${crowded} wait (max: ${this.#opts.maxTxsOfSigner})`);
    }
    for (const victim of victims) this.#evict(victim);
    this.#keep({ bytes, hash, key, facts, arrival: this.#arrivals++ });
    return { kind: "checked", hash, result };
  }

  /** The transactions of the next block. @param maxGas -1: any */
  reap(maxGas: bigint): Bytes[] {
    const room = { maxBytes: this.#modules.maxDataBytes(), maxGas };
    return this.#pickPaying(this.#ranked.toArray(), room, this.#readiness());
  }

  /** Those of CometBFT's transactions, given in the order of their arrival, that a block takes; in its order. */
  pick(txs: readonly Bytes[], room: BlockRoom): Bytes[] {
    const byKey = new Map(txs.map((tx) => [bytesToHex(txHash(tx)), tx]));
    // Those that CometBFT does not have keep out what follows them: without them it fails, and pays nothing.
    const waiting = this.#ranked.toArray();
    const present = new Set(waiting.filter(({ key }) => byKey.delete(key)));
    const others = [...byKey].flatMap(([key, tx]): Placed[] => {
      if (this.#dropped.get(key) !== undefined) return [];
      return [{ bytes: tx, sizeBytes: dataBytes(tx), facts: this.#modules.factsOf(tx) ?? UNREADABLE }];
    });
    const isReady = this.#readiness();
    const ordered: Placed[] = [...waiting, ...inBlockOrder(others)];
    return this.#pickPaying(ordered, room, (item) => !isWaiting(item) || (present.has(item) && isReady(item)));
  }

  /** Checks a transaction again for CometBFT, after what it follows. */
  recheck(tx: Bytes): TxResult {
    const key = bytesToHex(txHash(tx));
    const item = this.#waiting.get(key);
    if (item === undefined) {
      const dropped = this.#dropped.get(key);
      if (dropped !== undefined) return dropped;
      if (!this.#hasRoom(tx.length)) return refusedAs(SDK.mempoolIsFull, this.#fullText());
      const bytes = Uint8Array.from(tx);
      const result = this.#modules.check(bytes, "again");
      const facts = this.#modules.factsOf(bytes);
      if (result.code === 0) this.#keep({ bytes, hash: txHash(tx), key, facts, arrival: this.#arrivals++ });
      return result;
    }
    item.confirmedAt = this.#blocks;
    if (this.#recheckedMs > RECHECK_FOR_COMET_MS) return { ...PASSED, gasWanted: item.facts.offer.gas };
    const startedMs = this.#clock.monotonicMs();
    const result = this.#resultOf(item);
    this.#recheckedMs += this.#clock.monotonicMs() - startedMs;
    return result;
  }

  /** Answers for a transaction that {@link submit} calls known: it is not run on a state that has it. */
  repeat(tx: Bytes): TxResult {
    const item = this.#waiting.get(bytesToHex(txHash(tx)));
    return item === undefined ? this.#modules.check(tx, "new") : this.#resultOf(item);
  }

  #resultOf(item: Waiting): TxResult {
    this.prepare(item.bytes);
    if (!this.#waiting.has(item.key)) return INVALID;
    return { ...PASSED, gasWanted: item.facts.offer.gas };
  }

  /** Notes a transaction that was checked and is not kept: until the next block nothing that follows it is in one. */
  noteCheckOnly(tx: Bytes): void {
    const facts = this.#modules.factsOf(tx);
    const arrival = this.#arrivals++;
    if (facts?.isOrdered !== true) return;
    for (const signer of facts.signers) if (!this.#checkOnly.has(signer)) this.#checkOnly.set(signer, arrival);
  }

  #followsCheckOnly({ facts, arrival }: Waiting): boolean {
    return facts.isOrdered && facts.signers.some((signer) => (this.#checkOnly.get(signer) ?? arrival) < arrival);
  }

  /** The transactions of a block that leaves others out: what would take their places and pay nothing is left out instead. */
  #pickPaying<T extends Placed>(ordered: readonly T[], room: BlockRoom, isReady: (item: T) => boolean): Bytes[] {
    const startedMs = this.#clock.monotonicMs();
    let picked = pickFitting(ordered, room, isReady);
    if (picked.length < ordered.length) {
      const pays = this.#modules.trial(() => this.#clock.monotonicMs() - startedMs > TRIAL_BEFORE_BLOCK_MS);
      // One that cannot be read passed no check of this node.
      const isPaying = ({ bytes, facts }: T): boolean => facts === UNREADABLE || pays(bytes, facts);
      picked = pickFitting(ordered, room, (item) => isReady(item) && isPaying(item));
    }
    return picked.map(({ bytes }) => bytes);
  }

  // A block waits a bounded time for checks.
  #readiness(): (item: Waiting) => boolean {
    const startedMs = this.#clock.monotonicMs();
    return (item) => {
      // One that failed before, and left.
      if (!this.#waiting.has(item.key) || this.#followsCheckOnly(item)) return false;
      if (!item.isStale) return true;
      if (this.#clock.monotonicMs() - startedMs > RECHECK_BEFORE_BLOCK_MS) return false;
      return this.#recheck(item);
    };
  }

  /** Makes sure that what a transaction follows was checked on the newest state before it: all that has a signer of it. */
  prepare(tx: Bytes): void {
    if (this.#staleCursor >= this.#stale.length) return;
    // In the order of a block, in which each comes after all that it follows.
    for (const item of this.#staleBefore(tx)) if (item.isStale) this.#recheck(item);
  }

  /**
   * Removes the transactions of a block. All others are checked again on the state after it, in {@link settle} or when the next block or
   * another transaction needs them.
   */
  update(txs: readonly Bytes[], results: readonly TxResult[]): void {
    for (const [i, tx] of txs.entries()) {
      const key = bytesToHex(txHash(tx));
      if (results[i]?.code === 0) this.#seen.set(key, true, 1);
      else this.#seen.delete(key);
      const item = this.#waiting.get(key);
      if (item !== undefined) this.#remove(item);
    }
    // CometBFT asks about all that it has after each block: what it did not ask about it does not have.
    if (this.#opts.mirrors)
      for (const item of this.#ranked.toArray()) if (item.confirmedAt < this.#blocks) this.#remove(item);
    this.#blocks++;
    this.#droppedCount = 0;
    this.#droppedBytes = 0;
    this.#recheckedMs = 0;
    this.#checkOnly.clear();
    for (const item of this.#ranked) item.isStale = true;
    this.#stale = this.#ranked.toArray();
    this.#staleCursor = 0;
  }

  /** Ends the checks that {@link update} asks for, or stops at the signal. Other work has its turn after every few milliseconds. */
  settle(signal: AbortSignal): Promise<void> {
    this.#settling ??= this.#settleAll(signal).finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  async #settleAll(signal: AbortSignal): Promise<void> {
    while (this.#staleCursor < this.#stale.length && !signal.aborted) {
      await nextTurn();
      const startedMs = this.#clock.monotonicMs();
      for (let item = this.#stale[this.#staleCursor]; item !== undefined; item = this.#stale[++this.#staleCursor]) {
        if (this.#clock.monotonicMs() - startedMs >= RECHECK_SLICE_MS) break;
        if (item.isStale) this.#recheck(item);
      }
    }
  }

  #staleBefore(tx: Bytes): RankedList<Waiting> {
    const signers = [...(this.#modules.factsOf(tx)?.signers ?? [])];
    const visited = new Set(signers);
    const needed = new RankedList<Waiting>();
    for (let signer = signers.pop(); signer !== undefined; signer = signers.pop()) {
      for (const item of this.#bySigner.get(signer) ?? []) {
        if (!item.isStale) continue;
        needed.add(item);
        for (const other of item.facts.signers) {
          if (visited.has(other)) continue;
          visited.add(other);
          signers.push(other);
        }
      }
    }
    return needed;
  }

  #recheck(item: Waiting): boolean {
    item.isStale = false;
    if (this.#modules.check(item.bytes, "again").code === 0) return true;
    this.#drop(item, "invalid");
    return false;
  }

  #keep({ bytes, hash, key, facts, arrival }: Arrived): void {
    if (facts === undefined) return;
    const item: Waiting = {
      key,
      hash,
      bytes,
      facts,
      arrival,
      sizeBytes: dataBytes(bytes),
      rank: facts.offer,
      isStale: false,
      confirmedAt: this.#blocks,
    };
    for (const signer of facts.signers) {
      const list = this.#bySigner.get(signer);
      if (list === undefined) this.#bySigner.set(signer, [item]);
      else list.splice(placeOf(list, arrival), 0, item);
    }
    item.rank = this.#rankOf(item);
    this.#ranked.add(item);
    for (const slot of facts.slots) this.#bySlot.set(slot, item);
    this.#seen.set(key, true, 1);
    this.#dropped.delete(key);
    this.#waiting.set(key, item);
    this.#bytes += bytes.length;
    this.#show();
  }

  #rankOf({ facts, arrival }: Waiting): Offer {
    if (!facts.isOrdered) return facts.offer;
    const earlier = facts.signers.flatMap((signer) => {
      const list = this.#bySigner.get(signer) ?? [];
      for (let i = placeOf(list, arrival) - 1; i >= 0; i--) if (list[i]?.facts.isOrdered === true) return list[i] ?? [];
      return [];
    });
    return rankAfter(facts.offer, earlier);
  }

  /** The transaction that waits with the same sequences as one that pays enough to replace it. */
  #replaced(bytes: Bytes): Waiting | undefined {
    const facts = this.#modules.factsOf(bytes);
    const [slot = ""] = facts?.slots ?? [];
    const item = this.#bySlot.get(slot);
    if (facts === undefined || item === undefined || !this.#outbids(facts.offer, item.facts.offer)) return undefined;
    const isSame =
      facts.slots.length === item.facts.slots.length && facts.slots.every((one) => this.#bySlot.get(one) === item);
    return isSame && this.#bytes - item.bytes.length + bytes.length <= this.#opts.maxTxsBytes ? item : undefined;
  }

  #replace(replaced: Waiting, bytes: Bytes, hash: Bytes, key: string): TxResult {
    const result = this.#modules.check(bytes, "replacement");
    if (result.code !== 0) return result;
    this.#drop(replaced, "replaced");
    this.#keep({ bytes, hash, key, facts: this.#modules.factsOf(bytes), arrival: replaced.arrival });
    this.#rankFollowers(replaced);
    return result;
  }

  // Each takes the rank of what it follows when that is worse: a better one lifts it, too.
  #rankFollowers({ facts, arrival }: Waiting): void {
    const next = facts.isOrdered ? facts.signers.map((signer) => ({ signer, arrival })) : [];
    for (let at = next.pop(); at !== undefined; at = next.pop()) {
      const list = this.#bySigner.get(at.signer) ?? [];
      const first = placeOf(list, at.arrival + 1);
      const follower = list.slice(first).find((item) => item.facts.isOrdered);
      if (follower === undefined) continue;
      const rank = this.#rankOf(follower);
      if (rank === follower.rank) continue;
      this.#ranked.remove(follower);
      follower.rank = rank;
      this.#ranked.add(follower);
      for (const signer of follower.facts.signers) next.push({ signer, arrival: follower.arrival });
    }
  }

  /** The transactions that leave a full mempool for another one; undefined when it pays too little for their places. */
  #victimsFor(sizeBytes: number, facts: TxFacts | undefined): readonly Waiting[] | undefined {
    if (this.#hasRoom(sizeBytes)) return NONE;
    if (facts === undefined) return undefined;
    if (this.#bySlot.has(facts.slots[0] ?? "")) return NONE;
    const earlier = facts.isOrdered ? facts.signers.flatMap((signer) => this.#lastOrderedOf(signer) ?? []) : [];
    const rank = rankAfter(facts.offer, earlier);
    const victims: Waiting[] = [];
    let [count, bytes] = [this.#waiting.size + 1, this.#bytes + sizeBytes];
    for (const item of this.#ranked.fromLast()) {
      if (count <= this.#opts.maxTxs && bytes <= this.#opts.maxTxsBytes) break;
      if (!this.#outbids(rank, item.rank)) return undefined;
      victims.push(item);
      count--;
      bytes -= item.bytes.length;
    }
    return victims;
  }

  #outbids(offer: Offer, other: Offer): boolean {
    const surplus = Math.max(0, this.#waiting.size + this.#droppedCount - this.#opts.maxTxs);
    const places = Math.max(surplus, this.#droppedBytes / BYTES_PER_PLACE);
    return outbids(offer, other, 1 + Math.floor(places / DROPPED_PER_RAISE));
  }

  #lastOrderedOf(signer: string): Waiting | undefined {
    return this.#bySigner.get(signer)?.findLast(({ facts }) => facts.isOrdered);
  }

  #evict(item: Waiting): void {
    // The state of the checks does not have it before it is checked again.
    if (!item.isStale) this.#modules.uncheck(item.bytes);
    this.#drop(item, "evicted");
  }

  #drop(item: Waiting, reason: DropReason): void {
    this.#remove(item);
    this.#seen.delete(item.key);
    this.#metrics.count(chainMempoolDroppedTotal, { reason });
    if (!this.#opts.mirrors) return;
    this.#dropped.set(item.key, reason === "invalid" ? INVALID : OUTBID, 1);
    if (reason === "invalid") return;
    this.#droppedCount++;
    this.#droppedBytes += item.bytes.length;
  }

  #remove(item: Waiting): void {
    this.#waiting.delete(item.key);
    this.#ranked.remove(item);
    for (const signer of item.facts.signers) {
      const list = this.#bySigner.get(signer);
      const place = list?.indexOf(item) ?? -1;
      if (place >= 0) list?.splice(place, 1);
      if (list?.length === 0) this.#bySigner.delete(signer);
    }
    for (const slot of item.facts.slots) if (this.#bySlot.get(slot) === item) this.#bySlot.delete(slot);
    item.isStale = false;
    this.#bytes -= item.bytes.length;
    this.#show();
  }

  #show(): void {
    if (this.#opts.mirrors) return;
    this.#metrics.set(chainMempoolTxs, this.#waiting.size);
    this.#metrics.set(chainMempoolBytes, this.#bytes);
  }

  #crowdedSigner(facts: TxFacts | undefined): string | undefined {
    const { maxTxsOfSigner } = this.#opts;
    return facts?.signers.find((signer) => (this.#bySigner.get(signer)?.length ?? 0) >= maxTxsOfSigner);
  }

  #hasRoom(sizeBytes: number): boolean {
    const { maxTxs, maxTxsBytes } = this.#opts;
    return this.#waiting.size < maxTxs && this.#bytes + sizeBytes <= maxTxsBytes;
  }

  #fullText(): string {
    const { maxTxs, maxTxsBytes } = this.#opts;
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

const isWaiting = (item: Placed): item is Waiting => "isStale" in item;

function refusedAs({ code, codespace }: FaultKind, log: string): TxResult {
  return { ...PASSED, code, codespace, log };
}

/** Place of the first that arrived then or later, in a list in the order of arrival. */
function placeOf(list: readonly Waiting[], arrival: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((list[middle]?.arrival ?? arrival) < arrival) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The sequence, or the timeout of an unordered transaction, was used.
const mayReplace = ({ code, codespace }: TxResult): boolean =>
  codespace === "sdk" && (code === SDK.wrongSequence.code || code === SDK.invalidRequest.code);
