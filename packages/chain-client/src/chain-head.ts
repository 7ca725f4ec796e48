import { setTimeout as delay } from "node:timers/promises";
import { AppError, type Clock, type Log, silentLog } from "@turnpike/base";
import { type BlockMark, subscribeBlocks } from "./subscribe-blocks.ts";

export interface ChainHeadOptions {
  /** The node's RPC: `http://127.0.0.1:26657`. */
  readonly url: string;
  /**
   * Without a new block for so long the head is stale. By default ten times the mean interval of the newest blocks, from 10,000
   * to 600,000; 120,000 before there are two blocks.
   */
  readonly staleMs?: number;
  /** How many of the newest blocks are kept for {@link ChainHead.at}; 256 by default. */
  readonly keepBlocks?: number;
  /** Between pings of the subscription; 10,000 by default. */
  readonly pingMs?: number;
  /** First pause before another connection; 100 by default. */
  readonly retryMs?: number;
}

export interface ChainHeadModules {
  readonly clock: Clock;
  readonly log?: Log;
}

const KEEP_BLOCKS = 256;
const RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
const FIRST_STALE_MS = 120_000;
const LEAST_STALE_MS = 10_000;
const MOST_STALE_MS = 600_000;
const STALE_INTERVALS = 10;
/** So long a node that is behind is waited for. */
const MOST_BEHIND_MS = 600_000;
const NANOS_PER_MS = 1_000_000n;

interface Waiter {
  readonly heightBlocks: bigint;
  readonly resolve: (mark: BlockMark | undefined) => void;
}

/**
 * The newest block of the chain, kept up to date by one subscription. It is read without waiting: while the node is dead
 * the last block known stays, and {@link isStale} says so by the clock. So it does while the node has blocks of another
 * chain than the first one, or is behind, which is distinguished from a chain that was restarted from genesis by its
 * blocks' times. A node that is behind for ten minutes is believed: the newest block known may have been a lie.
 */
export class ChainHead implements AsyncDisposable {
  readonly #options: ChainHeadOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #ended = new AbortController();
  /** By height, oldest first. */
  readonly #marks = new Map<bigint, BlockMark>();
  readonly #listeners = new Set<(mark: BlockMark) => void>();
  readonly #waiters = new Set<Waiter>();
  readonly #work: Promise<void>;
  #newest: BlockMark | undefined;
  #receivedAtMs: number;
  /** Of the first block. */
  #chainId: string | undefined;
  /** Since when the node has had nothing but blocks that are lower, and not later. */
  #behindSinceMs: number | undefined;
  #replacements = 0;

  constructor(options: ChainHeadOptions, { clock, log = silentLog }: ChainHeadModules) {
    this.#options = options;
    this.#clock = clock;
    this.#log = log;
    this.#receivedAtMs = clock.monotonicMs();
    this.#work = this.#follow();
  }

  /** The newest block known; undefined before the first. */
  get newest(): BlockMark | undefined {
    return this.#newest;
  }

  /** How often the node's chain was restarted from genesis: nothing holds then that was known of a height of the one before. */
  get replacements(): number {
    return this.#replacements;
  }

  /** True when no block came for much longer than a block interval: what is known of the chain may be old. */
  get isStale(): boolean {
    return this.#clock.monotonicMs() - this.#receivedAtMs > (this.#options.staleMs ?? this.#usualStaleMs());
  }

  /** One of the newest blocks; undefined when it is not known here. */
  at(heightBlocks: bigint): BlockMark | undefined {
    return this.#marks.get(heightBlocks);
  }

  /**
   * The newest block as soon as its height is at least this one; undefined when the signal aborts or the head is disposed.
   */
  waitFor(heightBlocks: bigint, signal?: AbortSignal): Promise<BlockMark | undefined> {
    const newest = this.#newest;
    if (newest !== undefined && newest.heightBlocks >= heightBlocks) return Promise.resolve(newest);
    if (signal?.aborted === true || this.#ended.signal.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const waiter: Waiter = {
        heightBlocks,
        resolve: (mark) => {
          this.#waiters.delete(waiter);
          signal?.removeEventListener("abort", abort);
          resolve(mark);
        },
      };
      const abort = (): void => waiter.resolve(undefined);
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiters.add(waiter);
    });
  }

  /**
   * Calls back for every new block, in order and without gaps as long as the node has the blocks that were made while it
   * could not be reached. Dispose what is returned to stop.
   */
  onBlock(listener: (mark: BlockMark) => void): Disposable {
    // Wrapped, so that one function may listen twice.
    const own = (mark: BlockMark): void => listener(mark);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /**
   * By the blocks' own times, which a lying node chooses: within the bounds it may. The times at which blocks arrive here would
   * say less: the first interval after a start is a part of one, and what was missed comes all at once.
   */
  #usualStaleMs(): number {
    const [first] = this.#marks.values();
    const newest = this.#newest;
    if (first === undefined || newest === undefined || first === newest) return FIRST_STALE_MS;
    const spanMs = Number((newest.timeNanos - first.timeNanos) / NANOS_PER_MS);
    const intervalMs = spanMs / Number(newest.heightBlocks - first.heightBlocks);
    return Math.min(MOST_STALE_MS, Math.max(LEAST_STALE_MS, STALE_INTERVALS * intervalMs));
  }

  async #follow(): Promise<void> {
    const { url, pingMs, retryMs = RETRY_MS } = this.#options;
    const { signal } = this.#ended;
    let pauseMs = retryMs;
    while (!signal.aborted) {
      // After a fault the subscription begins at the newest block: the node may have none of the older ones.
      const options = { url, signal, retryMs, ...(pingMs === undefined ? {} : { pingMs }) };
      try {
        for await (const mark of subscribeBlocks(options, { log: this.#log })) {
          this.#accept(mark);
          pauseMs = retryMs;
        }
      } catch (cause) {
        this.#log.error({ cause, pauseMs }, "the chain's blocks cannot be followed; the subscription begins again");
        await delay(pauseMs, undefined, { signal }).catch(() => {});
        pauseMs = Math.min(pauseMs * 2, LONGEST_RETRY_MS);
      }
    }
  }

  #isBehindForLong(): boolean {
    const sinceMs = this.#behindSinceMs;
    return sinceMs !== undefined && this.#clock.monotonicMs() - sinceMs >= MOST_BEHIND_MS;
  }

  /** @throws AppError CHAIN_MISMATCH for a block of another chain */
  #accept(mark: BlockMark): void {
    const { heightBlocks, chainId } = mark;
    const before = this.#newest;
    this.#chainId ??= chainId;
    if (chainId !== this.#chainId) {
      throw new AppError("CHAIN_MISMATCH", {
        message: `The node has blocks of ${chainId}, another chain than ${this.#chainId}, which it had at first.`,
      });
    }
    if (before !== undefined && heightBlocks <= before.heightBlocks) {
      if (before.hash === mark.hash) {
        this.#behindSinceMs = undefined;
        return;
      }
      // Of several nodes behind one address one may lag. A chain restarted from genesis has later times, and nothing that was
      // known of the one before holds.
      if (mark.timeNanos <= before.timeNanos && !this.#isBehindForLong()) {
        if (this.#behindSinceMs === undefined) {
          this.#log.error({ heightBlocks, known: before.heightBlocks }, "the node is behind");
          this.#behindSinceMs = this.#clock.monotonicMs();
        }
        return;
      }
      this.#log.error({ heightBlocks, before: before.heightBlocks }, "the node's chain was replaced");
      this.#marks.clear();
      this.#replacements++;
    }
    this.#behindSinceMs = undefined;
    this.#newest = mark;
    this.#receivedAtMs = this.#clock.monotonicMs();
    this.#marks.set(heightBlocks, mark);
    const [oldest] = this.#marks.keys();
    if (oldest !== undefined && this.#marks.size > (this.#options.keepBlocks ?? KEEP_BLOCKS))
      this.#marks.delete(oldest);
    for (const waiter of this.#waiters) {
      if (heightBlocks >= waiter.heightBlocks) waiter.resolve(mark);
    }
    for (const listener of this.#listeners) {
      try {
        listener(mark);
      } catch (cause) {
        this.#log.error({ cause, heightBlocks }, "a listener of new blocks failed");
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    for (const waiter of this.#waiters) waiter.resolve(undefined);
    await this.#work;
  }
}
