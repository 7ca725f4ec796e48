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

/** Parts of the begin and end of committed blocks that failed and were left out: a fault of the program. */
export const chainBlockPartsFailedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_block_parts_failed_total",
  help: "Parts of the begin and end of committed blocks that failed and were left out, by part.",
  labels: ["part"],
};

/** Checks for the mempool: of `new` transactions, and `again` of those that wait, after a block. */
export const chainChecksTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_chain_checks_total",
  help: "Checks of transactions for the mempool, by kind and result.",
  labels: ["kind", "result"],
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

/** Oldest height whose state can be asked for. */
export const chainEarliestHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_earliest_height",
  help: "Oldest height whose state can be read.",
  aggregator: "max",
};

/** Rules that blocks are run by, each with the height at which it began. */
export const chainRulesHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_rules_height",
  help: "First block that was run by these rules; 0 when the genesis had them.",
  labels: ["rules"],
  aggregator: "max",
};

/** Height of the upgrade that is planned. */
export const chainUpgradeHeight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_upgrade_height",
  help: "Height at which the planned upgrade changes the rules of blocks; 0 without a plan.",
  aggregator: "max",
};

/** The planned upgrade stops this node. */
export const chainUpgradeUnknown: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_upgrade_unknown",
  help: "1 while an upgrade is planned that this program does not have: the node will stop at its height.",
  aggregator: "max",
};

/** Metrics of the state machine, its application and its threads. */
export const CHAIN_METRICS: readonly MetricSpec[] = [
  chainHeight,
  chainBlockTimestampSeconds,
  chainBlockIntervalSeconds,
  chainBlockStageSeconds,
  chainBlockPartsFailedTotal,
  chainTxsTotal,
  chainChecksTotal,
  chainQueriesWaiting,
  chainQueryThreadsLostTotal,
  chainEarliestHeight,
  chainRulesHeight,
  chainUpgradeHeight,
  chainUpgradeUnknown,
];
