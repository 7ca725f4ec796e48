interface BlockTimeOptions {
  /** Blocks of about five minutes in most of the catalogue; a guess until blocks were seen. */
  readonly syncAllowanceBlocks: number;
  /** Growth is not extrapolated over more time. */
  readonly maxAgeMs: number;
}

const ALLOWANCE_MS = 300_000;
/** As quick as chains get, while nothing was measured. */
const FIRST_BLOCKS_PER_SECOND = 20;
const SLACK = 4;
const WEIGHT = 0.25;
const WINDOW_MS = 10_000;

/** How quickly a chain grows, by the times at which its agreed height went up. */
export class BlockTime {
  readonly #options: BlockTimeOptions;
  #from: { readonly heightBlocks: number; readonly atMs: number } | undefined;
  #atMs = 0;
  #blockMs: number | undefined;

  constructor(options: BlockTimeOptions) {
    this.#options = options;
  }

  /** The agreed height went up. `isSure`: no operator is far from it; otherwise nothing is learned. */
  advanced(heightBlocks: number, nowMs: number, isSure: boolean): void {
    const from = this.#from;
    this.#atMs = nowMs;
    if (from !== undefined && !isSure) return;
    if (from === undefined || heightBlocks < from.heightBlocks) {
      this.#from = { heightBlocks, atMs: nowMs };
      return;
    }
    // Operators say their heights in bursts: only growth over some time says how quick the chain is.
    if (nowMs - from.atMs < WINDOW_MS) return;
    const blockMs = (nowMs - from.atMs) / Math.max(1, heightBlocks - from.heightBlocks);
    this.#blockMs = this.#blockMs === undefined ? blockMs : this.#blockMs + WEIGHT * (blockMs - this.#blockMs);
    this.#from = { heightBlocks, atMs: nowMs };
  }

  /** The chain went back: what follows is counted from here. */
  restart(heightBlocks: number, nowMs: number): void {
    this.#from = { heightBlocks, atMs: nowMs };
    this.#atMs = nowMs;
  }

  /** Time between two blocks. */
  get blockTimeMs(): number {
    return this.#blockMs ?? ALLOWANCE_MS / Math.max(1, this.#options.syncAllowanceBlocks);
  }

  /** Most blocks that the chain may have grown since its height went up. */
  growthBlocks(nowMs: number): number {
    return this.#from === undefined ? 0 : this.grownBlocks(Math.min(this.#options.maxAgeMs, nowMs - this.#atMs));
  }

  /** The highest that the chain may be by its growth since its height was sure. */
  reachBlocks(nowMs: number): number {
    const from = this.#from;
    return from === undefined ? Number.POSITIVE_INFINITY : from.heightBlocks + this.grownBlocks(nowMs - from.atMs);
  }

  /** Most blocks that the chain may grow in this time. */
  grownBlocks(elapsedMs: number): number {
    const perSecond =
      this.#blockMs === undefined ? FIRST_BLOCKS_PER_SECOND : (SLACK * 1_000) / Math.max(1, this.#blockMs);
    return Math.ceil((Math.max(0, elapsedMs) / 1_000) * perSecond);
  }
}
