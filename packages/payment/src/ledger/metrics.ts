import type { MetricSpec } from "@turnpike/base";

/** Payments in each state, by asset. */
export const ledgerPayments: MetricSpec = {
  kind: "gauge",
  name: "turnpike_ledger_payments",
  help: "Payments in the ledger by state.",
  labels: ["network", "asset", "state"],
  aggregator: "max",
};

/** What the payments of each state sum to, in the asset's smallest unit. */
export const ledgerValueUnits: MetricSpec = {
  kind: "gauge",
  name: "turnpike_ledger_value_units",
  help: "Sum of the payments in the ledger by state, in the asset's smallest unit.",
  labels: ["network", "asset", "state"],
  aggregator: "max",
};

/** When the two sums above were read last, in Unix seconds. */
export const ledgerSumsTimestampSeconds: MetricSpec = {
  kind: "gauge",
  name: "turnpike_ledger_books_timestamp_seconds",
  help: "Time at which the ledger was summed last, in Unix seconds.",
  aggregator: "max",
};

/** Time of one call to the database, waiting for a connection included. */
export const ledgerQuerySeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_ledger_query_seconds",
  help: "Time of one ledger call, waiting for a connection included.",
  labels: ["method", "outcome"],
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
};

/** Connections of a pool (`calls`, `sums`, `renewals`), by `busy`, `idle`, and calls `waiting` for one. */
export const ledgerConnections: MetricSpec = {
  kind: "gauge",
  name: "turnpike_ledger_connections",
  help: "Connections to the ledger's database, and calls that wait for one.",
  labels: ["pool", "state"],
};

/** Claims of dead processes that this process released. */
export const ledgerOrphansReleasedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_ledger_orphans_released_total",
  help: "Claims of dead processes that were released.",
};

/** Released claims that this process deleted. */
export const ledgerPrunedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_ledger_pruned_total",
  help: "Released claims that were deleted after their retention.",
};

/** Times that this process lost its claims and leases since it did not renew in time. */
export const ledgerHolderLostTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_ledger_holder_lost_total",
  help: "Times that this process did not renew in time and lost its claims and leases.",
};

/** All metrics of this folder. */
export const LEDGER_METRICS: readonly MetricSpec[] = [
  ledgerPayments,
  ledgerValueUnits,
  ledgerSumsTimestampSeconds,
  ledgerQuerySeconds,
  ledgerConnections,
  ledgerOrphansReleasedTotal,
  ledgerPrunedTotal,
  ledgerHolderLostTotal,
];
