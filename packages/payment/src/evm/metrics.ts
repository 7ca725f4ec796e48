import type { MetricSpec } from "@turnpike/base";

/** Time of one HTTP exchange with a settlement chain's node. `outcome`: ok, error (a JSON-RPC error alone), wire. */
export const settlementRpcSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_settlement_rpc_seconds",
  help: "Time of one HTTP exchange with a settlement chain's node",
  labels: ["host", "outcome"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
};

/** JSON-RPC calls to settlement chains; several may share one exchange. */
export const settlementRpcCallsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_rpc_calls_total",
  help: "JSON-RPC calls to settlement chains' nodes",
  labels: ["method"],
};

/** Exchanges that went to another URL because the one before failed on the wire. */
export const settlementRpcFailoversTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_rpc_failovers_total",
  help: "Exchanges that were repeated at another node because the one before failed on the wire",
  labels: ["host"],
};

/** All metrics of this folder. */
export const EVM_METRICS: readonly MetricSpec[] = [
  settlementRpcSeconds,
  settlementRpcCallsTotal,
  settlementRpcFailoversTotal,
];
