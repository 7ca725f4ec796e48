import { type Clock, type Metrics, noMetrics, systemClock } from "@turnpike/base";
import {
  chainBlockIntervalSeconds,
  chainBlockPartsFailedTotal,
  chainBlockStageSeconds,
  chainBlockTimestampSeconds,
  chainChecksTotal,
  chainEarliestHeight,
  chainHeight,
  chainTxsTotal,
} from "../metrics.ts";
import { type FailedPart, PART_KINDS } from "../state/block-parts.ts";

export interface BlockMeterModules {
  readonly metrics?: Metrics;
  /** Times stages, and says when a block came; the machine's by default. */
  readonly clock?: Clock;
}

/** What a node does with a block, in this order. */
export type BlockStage = "run" | "hash" | "write";

/** Height and time of a block. */
export interface BlockMoment {
  readonly heightBlocks: bigint;
  /** Nanoseconds since 1970. */
  readonly timeNanos: bigint;
}

/** The newest block that this node has. */
export interface NewestBlock extends BlockMoment {
  /** When this process got it, or found it in its store; monotonic milliseconds of the meter's clock. */
  readonly hadMs: number;
}

/** Intervals that the usual one is the median of: one pause of a chain must not change it. */
const INTERVALS = 20;

/** How many blocks {@link BlockMeter.before} has use for. */
export const METER_BLOCKS = INTERVALS;

/** Counts and times what a node does with blocks and transactions, and knows their pace. The application reports them. */
export class BlockMeter {
  readonly metrics: Metrics;
  readonly #clock: Clock;
  // Newest last; of headers, so that a node that catches up has the chain's pace and not its own.
  readonly #intervalsMs: number[] = [];
  #newest: NewestBlock | undefined;
  #lastIntervalMs: number | undefined;
  #results: readonly { readonly code: number }[] = [];
  #failedParts: readonly Pick<FailedPart, "part">[] = [];

  constructor({ metrics, clock }: BlockMeterModules = {}) {
    this.metrics = metrics ?? noMetrics;
    this.#clock = clock ?? systemClock;
    // Prometheus sees no increase in a counter that first appears with its first failure.
    for (const part of PART_KINDS) this.metrics.count(chainBlockPartsFailedTotal, { part }, 0);
  }

  /** The newest block; undefined before there is one. */
  get newest(): NewestBlock | undefined {
    return this.#newest;
  }

  /** Median of the last intervals between blocks, in milliseconds; undefined before there are two blocks. */
  usualIntervalMs(): number | undefined {
    const sorted = this.#intervalsMs.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
  }

  /** Takes in the blocks before the newest one, the newest of them last: the pace is known at once. */
  before(blocks: readonly BlockMoment[]): void {
    for (const block of blocks) this.#follow(block);
  }

  /** Reports the newest block of the store, whenever it is another one. */
  stands(block: BlockMoment, earliestBlocks: bigint): void {
    const { heightBlocks, timeNanos } = block;
    this.#follow(block);
    this.metrics.set(chainHeight, Number(heightBlocks));
    this.metrics.set(chainBlockTimestampSeconds, Number(timeNanos) / 1e9);
    this.metrics.set(chainEarliestHeight, Number(earliestBlocks));
  }

  /** Begins to time a stage. @returns what ends it; not called, nothing was timed */
  begin(stage: BlockStage): () => void {
    const beganMs = this.#clock.monotonicMs();
    return () => this.metrics.observe(chainBlockStageSeconds, (this.#clock.monotonicMs() - beganMs) / 1000, { stage });
  }

  /** Reports a block that was run; it counts once {@link committed} reports that it was written. */
  ran(results: readonly { readonly code: number }[], failedParts: readonly Pick<FailedPart, "part">[] = []): void {
    this.#results = results;
    this.#failedParts = failedParts;
  }

  /** Reports that the block that was run is written; after {@link stands}. */
  committed(): void {
    const results = this.#results;
    for (const { part } of this.#failedParts) this.metrics.count(chainBlockPartsFailedTotal, { part });
    this.#results = [];
    this.#failedParts = [];
    let failed = 0;
    for (const { code } of results) if (code !== 0) failed++;
    this.metrics.count(chainTxsTotal, { result: "ok" }, results.length - failed);
    this.metrics.count(chainTxsTotal, { result: "failed" }, failed);
    const intervalMs = this.#lastIntervalMs;
    if (intervalMs !== undefined) this.metrics.observe(chainBlockIntervalSeconds, intervalMs / 1000);
  }

  /** Reports a check for the mempool. @param again it was checked before */
  checked(again: boolean, code: number): void {
    const [kind, result] = [again ? "again" : "new", code === 0 ? "ok" : "failed"];
    this.metrics.count(chainChecksTotal, { kind, result });
  }

  #follow({ heightBlocks, timeNanos }: BlockMoment): void {
    const before = this.#newest;
    this.#newest = { heightBlocks, timeNanos, hadMs: this.#clock.monotonicMs() };
    this.#lastIntervalMs = undefined;
    if (before === undefined || before.heightBlocks + 1n !== heightBlocks) return;
    this.#lastIntervalMs = Number(timeNanos - before.timeNanos) / 1e6;
    this.#intervalsMs.push(this.#lastIntervalMs);
    if (this.#intervalsMs.length > INTERVALS) this.#intervalsMs.shift();
  }
}
