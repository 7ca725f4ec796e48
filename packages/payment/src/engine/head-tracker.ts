import type { Clock } from "@turnpike/base";
import type { Head, SettlementChain } from "./chain.ts";

/** A block, and when it was read (monotonic milliseconds). */
export interface SeenHead {
  readonly head: Head;
  readonly atMs: number;
}

/** The newest block of one chain that this process has read. */
export class HeadTracker {
  readonly #chain: SettlementChain;
  readonly #clock: Clock;
  readonly #onNewBlock: () => void;
  #seen: SeenHead | undefined;

  constructor(modules: {
    readonly chain: SettlementChain;
    readonly clock: Clock;
    /** Called when the block differs from the one before. */
    readonly onNewBlock: () => void;
  }) {
    this.#chain = modules.chain;
    this.#clock = modules.clock;
    this.#onNewBlock = modules.onNewBlock;
  }

  /** Undefined until the chain has answered once. */
  get seen(): SeenHead | undefined {
    return this.#seen;
  }

  /** Time since the chain answered last; infinite when it never has. */
  get ageMs(): number {
    return this.#seen === undefined ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() - this.#seen.atMs;
  }

  /** Records a block that was just read. */
  saw(head: Head): void {
    const isNew = this.#seen?.head.hash !== head.hash;
    this.#seen = { head, atMs: this.#clock.monotonicMs() };
    if (isNew) this.#onNewBlock();
  }

  /** The block that was read last if that is no older than this, else it is read. @throws as {@link SettlementChain.head}. */
  async fresh(maxAgeMs: number, signal: () => AbortSignal): Promise<Head> {
    if (this.#seen !== undefined && this.ageMs < maxAgeMs) return this.#seen.head;
    const head = await this.#chain.head(signal());
    this.saw(head);
    return head;
  }
}
