import { type ErrorCode, isAppError, type Log } from "@turnpike/base";

export interface HeldBlocksModules {
  /** Height of the block that is to be made. */
  readonly nextHeightBlocks: () => bigint;
  /** Room on the store's disk, in bytes; undefined where it is not known. */
  readonly freeBytes: () => number | undefined;
  /** Aborted when the node ends: what fails then is not reported. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** Room that there must be again before a block is tried. */
const ROOM_BYTES = 1_048_576;
/** Faults that end by themselves or by the operator's hand, without a restart. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["CHAIN_STORE_FULL", "CHAIN_CLOCK"]);

/** Tries blocks, also while something stands in their way that may pass: it is said once, and again when it is gone. */
export class HeldBlocks {
  readonly #modules: HeldBlocksModules;
  #held: ErrorCode | undefined;

  constructor(modules: HeldBlocksModules) {
    this.#modules = modules;
  }

  /** Makes a block where that is possible. @throws what a restart alone fixes */
  async attempt(make: () => Promise<unknown>): Promise<void> {
    const { nextHeightBlocks, freeBytes, signal, log } = this.#modules;
    // The store's library writes each failed try on a full disk to the error output, so none is made.
    if (this.#held === "CHAIN_STORE_FULL" && (freeBytes() ?? ROOM_BYTES) < ROOM_BYTES) return;
    try {
      await make();
    } catch (cause) {
      if (signal.aborted) return;
      // Room may come back, and the right time; nothing was written.
      if (!isAppError(cause) || !PASSING.has(cause.code)) throw cause;
      if (this.#held === cause.code) return;
      this.#held = cause.code;
      const heightBlocks = `${nextHeightBlocks()}`;
      log.error({ cause, heightBlocks }, "no block is made until this is fixed; queries are answered");
      return;
    }
    if (this.#held === undefined) return;
    log.info({ was: this.#held, heightBlocks: `${nextHeightBlocks() - 1n}` }, "blocks go on");
    this.#held = undefined;
  }
}
