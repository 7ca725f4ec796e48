import type { BlockRecord, Bytes } from "@turnpike/chain-store";
import type { Application } from "../node/types.ts";
import type { BlockInfo } from "../state/context.ts";
import type { ValidatorUpdate } from "../state/module.ts";
import type { TxResult } from "../state/outcome.ts";
import type { BlockOutcome } from "./state-machine.ts";

/** What a chain begins with. */
export interface ChainStart {
  readonly chainId: string;
  readonly initialHeightBlocks: bigint;
  /** Nanoseconds since 1970. */
  readonly timeNanos: bigint;
  readonly appState: Readonly<Record<string, unknown>>;
}

/** A block that was run and is not written yet. */
export interface RunBlock {
  readonly block: BlockInfo;
  readonly outcome: BlockOutcome;
  /** App hash after it. */
  readonly appHash: Bytes;
}

/**
 * The application that both engines drive: the state machine on the store. One block at a time: `run`, then `commit`. The
 * mempool's checks run on a state of their own over the newest block, which every commit makes anew.
 */
export interface DrivenApplication extends Application {
  /**
   * Writes the genesis. Asked again before the first block with the same genesis it answers the same.
   * @throws AppError CONFIG_INVALID when the genesis is not valid, or is not the one that the store began with.
   */
  start(
    genesis: ChainStart,
  ): Promise<{ readonly appHash: Bytes; readonly validatorUpdates: readonly ValidatorUpdate[] }>;
  /** Runs the next block; the last run block is the one that {@link commit} writes. Running another instead is allowed. */
  run(block: BlockInfo, txs: readonly Bytes[]): RunBlock;
  /** Writes the block that was run last, with further records, in one transaction of the store. */
  commit(records: readonly BlockRecord[]): Promise<void>;
  /** How many of these transactions, from the first on, a block may hold by the consensus parameters. */
  fitting(txs: readonly Bytes[]): number;
  /** Checks a transaction for the mempool. @param again it was checked before and a block was committed since */
  check(tx: Bytes, again: boolean): TxResult;
}
