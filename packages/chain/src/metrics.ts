import type { MetricSpec } from "@turnpike/base";

/** Height of the newest committed block. */
export const chainHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_height",
  help: "Height of the newest block that this node has committed.",
  aggregator: "max",
};

/** Time that the newest block's header says. */
export const chainBlockTimestampSeconds: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_block_timestamp_seconds",
  help: "Time of the newest committed block's header, in seconds since 1970.",
  aggregator: "max",
};

/** Time from one block's header to the next one's: the chain's pace, also while a node catches up. */
export const chainBlockIntervalSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_chain_block_interval_seconds",
  help: "Time between the headers of two blocks that follow each other.",
  buckets: [0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300, 900],
};

/** What a block costs this node: `run` (its transactions, begin and end), `hash` (the app hash), `write` (to the disk). */
export const chainBlockStageSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_chain_block_stage_seconds",
  help: "Time that this node takes for a stage of a block.",
  labels: ["stage"],
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
};

/** Transactions in committed blocks: `ok` has code 0, `failed` any other. */
export const chainTxsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_txs_total",
  help: "Transactions of committed blocks, by result.",
  labels: ["result"],
};

/** Checks for the mempool: of `new` transactions, and `again` of those that wait, after a block. */
export const chainChecksTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_checks_total",
  help: "Checks of transactions for the mempool, by kind and result.",
  labels: ["kind", "result"],
};

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

/** Queries and simulations that wait for their threads, or run there. */
export const chainQueriesWaiting: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_queries_waiting",
  help: "Work of the query and simulation threads that waits or runs.",
  labels: ["threads"],
};

/** Query and simulation threads that ended and were replaced. */
export const chainQueryThreadsLostTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_query_threads_lost_total",
  help: "Query and simulation threads that ended by themselves.",
  labels: ["threads"],
};

/** What the embedded engine's mempool did not even check: it was `full`, or the transaction `too_large`. */
export const chainMempoolRefusedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_mempool_refused_total",
  help: "Transactions that the mempool refused without a check, by reason.",
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

/** Oldest height whose state can be asked for. */
export const chainEarliestHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_earliest_height",
  help: "Oldest height whose state can be read.",
  aggregator: "max",
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

/** Every metric of this package. */
export const CHAIN_METRICS: readonly MetricSpec[] = [
  chainHeight,
  chainBlockTimestampSeconds,
  chainBlockIntervalSeconds,
  chainBlockStageSeconds,
  chainTxsTotal,
  chainChecksTotal,
  chainMempoolTxs,
  chainMempoolBytes,
  chainMempoolRefusedTotal,
  chainQueriesWaiting,
  chainQueryThreadsLostTotal,
  chainStoreBytes,
  chainDiskFreeBytes,
  chainEarliestHeight,
  chainHalted,
  chainEngineUp,
  chainCatchingUp,
  chainPeers,
  chainValidators,
  chainSnapshotHeight,
  chainSnapshotsTotal,
];
