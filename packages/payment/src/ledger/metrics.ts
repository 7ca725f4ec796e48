import type { MetricSpec } from "@turnpike/base";

/** Time of one call to the database, waiting for a connection included. */
export const ledgerQuerySeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_ledger_query_seconds",
  help: "Time of one ledger call, waiting for a connection included.",
  labels: ["method", "outcome"],
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
};

/** Connections of the pool, by `busy`, `idle`, and calls `waiting` for one. */
export const ledgerConnections: MetricSpec = {
  kind: "gauge",
  name: "turnpike_ledger_connections",
  help: "Connections to the ledger's database, and calls that wait for one.",
  labels: ["state"],
};

/** Claims of dead processes that this process released. */
export const ledgerOrphansTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_ledger_orphans_released_total",
  help: "Claims of dead processes that were released.",
};

/** Times that this process lost its claims and leases since it did not renew in time. */
export const ledgerHolderLostTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_ledger_holder_lost_total",
  help: "Times that this process did not renew in time and lost its claims and leases.",
};
