/**
 * Every named point at which a test may end the process, to prove that the chain goes on from there: `{where}.{moment}`.
 * Those of `chain-store.write…` are within a transaction of the store, where nothing may be awaited.
 */
export const CHAIN_FAULT_POINTS = [
  /** A block is to be written. */
  "chain-store.commit",
  /** What it changes is worked out. */
  "chain-store.planned",
  /** The state is written, within the transaction. */
  "chain-store.write-state",
  /** All is written but the newest height, within the transaction. */
  "chain-store.write-records",
  /** The transaction is on the disk; the caller does not know it yet. */
  "chain-store.written",
  /** The earliest height is written; old states are there yet. */
  "chain-store.prune",
  /** Some old states are gone, others not. */
  "chain-store.pruned-some",
  /** Entries of a snapshot are in the store, not all. */
  "chain-store.restored-some",
  /** The embedded engine has built a block. */
  "embedded.built",
  /** … has run it. */
  "embedded.ran",
  /** … has written it, and not published it. */
  "embedded.committed",
  /** … has written some or all of its indexes. */
  "embedded.indexed-some",
  /** CometBFT has asked to run a block. */
  "abci.finalize",
  /** … it was run, and CometBFT is not answered yet. */
  "abci.finalized",
  /** CometBFT has asked to write it. */
  "abci.commit",
  /** … it is written, and CometBFT is not answered yet. */
  "abci.committed",
] as const;

/** One of {@link CHAIN_FAULT_POINTS}. */
export type ChainFaultPoint = (typeof CHAIN_FAULT_POINTS)[number];
