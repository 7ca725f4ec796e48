import type { MetricSpec } from "@turnpike/base";

/** Transactions that wait for a block. */
export const chainMempoolTxs: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_mempool_txs",
  help: "Transactions that wait for a block.",
};

/** Bytes of the transactions that wait for a block. */
export const chainMempoolBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_mempool_bytes",
  help: "Bytes of the transactions that wait for a block.",
};

/** Refusals of the embedded engine's mempool: it was `full`, the transaction `too_large`, or too many of its `signer` waited. */
export const chainMempoolRefusedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_mempool_refused_total",
  help: "Transactions that the mempool refused for its bounds, by reason.",
  labels: ["reason"],
};

/**
 * Transactions that left the embedded engine's mempool without a block: `evicted` from a full one, `replaced` by one with the same
 * sequence, or `invalid` on the state after a block.
 */
export const chainMempoolDroppedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_mempool_dropped_total",
  help: "Transactions that left the mempool without a block, by reason.",
  labels: ["reason"],
};

/** Size of the store's file. */
export const chainStoreBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_store_bytes",
  help: "Size of the file that holds the chain's state.",
};

/** Room that is left where the store is, for an ordinary user. */
export const chainDiskFreeBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_disk_free_bytes",
  help: "Free bytes of the disk that the chain's state is on.",
  aggregator: "min",
};

/** 1 when no block came for ten times the usual interval, and for half a minute at least. */
export const chainHalted: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_halted",
  help: "1 when no block came for much longer than usual, else 0.",
  aggregator: "max",
};

/** 1 when the engine answers: always of the embedded one, and of CometBFT when its RPC does. */
export const chainEngineUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_engine_up",
  help: "1 when the engine that makes the blocks answers, else 0.",
  aggregator: "min",
};

/** 1 while CometBFT fetches blocks that others have. */
export const chainCatchingUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_catching_up",
  help: "1 while the node fetches blocks that others have, else 0.",
  aggregator: "max",
};

/** Nodes that CometBFT is connected with. The embedded engine has none, and no such sample. */
export const chainPeers: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_peers",
  help: "Nodes that this one is connected with.",
};

/** Validators of the newest block, as CometBFT reports them. */
export const chainValidators: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_validators",
  help: "Validators of the chain.",
  aggregator: "max",
};

/** Height of the newest snapshot of the state. */
export const chainSnapshotHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_snapshot_height",
  help: "Height of the newest snapshot of the state.",
  aggregator: "max",
};

/** Snapshots by outcome: `made` or `failed`. */
export const chainSnapshotsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_snapshots_total",
  help: "Snapshots of the state, by outcome.",
  labels: ["outcome"],
};

/** Metrics of a node: its mempool, engine, snapshots and disk. */
export const CHAIN_NODE_METRICS: readonly MetricSpec[] = [
  chainMempoolTxs,
  chainMempoolBytes,
  chainMempoolRefusedTotal,
  chainMempoolDroppedTotal,
  chainStoreBytes,
  chainDiskFreeBytes,
  chainHalted,
  chainEngineUp,
  chainCatchingUp,
  chainPeers,
  chainValidators,
  chainSnapshotHeight,
  chainSnapshotsTotal,
];
