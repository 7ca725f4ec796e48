import type { MetricSpec } from "@turnpike/base";

/** Native balance of a relayer key. */
export const settlementRelayerBalanceWei: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_relayer_balance_wei",
  help: "Native balance of a relayer key.",
  labels: ["network", "relayer"],
  aggregator: "max",
};

/** Native balance below which a relayer key takes no payments. */
export const settlementRelayerMinBalanceWei: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_relayer_min_balance_wei",
  help: "Native balance below which a relayer key takes no payments.",
  labels: ["network"],
  aggregator: "max",
};

/** Batches that are journaled and not mined. */
export const settlementOpenBatches: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_open_batches",
  help: "Settlement transactions that are journaled and not mined.",
  labels: ["network"],
};

/** Payments that wait for a batch. */
export const settlementQueue: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_queue",
  help: "Payments that wait for a settlement transaction.",
  labels: ["network"],
};

/** Relayer keys that this process holds. */
export const settlementLeasedKeys: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_leased_keys",
  help: "Relayer keys that this process holds.",
  labels: ["network"],
};

/** Payments in one transaction. */
export const settlementBatchPayments: MetricSpec = {
  kind: "histogram",
  name: "turnpike_settlement_batch_payments",
  help: "Payments in one settlement transaction.",
  labels: ["network"],
  buckets: [1, 2, 5, 10, 20, 50, 100],
};

/** Time from a checked answer to its settlement. */
export const settlementDurationSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_settlement_duration_seconds",
  help: "Time from a checked answer to the evidence of its settlement.",
  labels: ["network"],
  buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64],
};

/** Payments by how their settlement ended. */
export const settlementsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlements_total",
  help: "Payments by how their settlement ended: settled, disputed, owed, or the code of the failure.",
  labels: ["network", "outcome"],
};

/** Payments that are late: their window is closed, or their batch was mined without settling them. */
export const settlementUnresolved: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_unresolved",
  help: "Payments that are neither settled nor failed although their window is closed or their batch is mined.",
  labels: ["network"],
  aggregator: "max",
};

/** Transactions sent to the chain. */
export const settlementBroadcastsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_broadcasts_total",
  help: "Settlement transactions sent: first, again, with a higher fee, to cancel one, or to fill a gap.",
  labels: ["network", "kind"],
};

/** Learned gas of one payment. */
export const settlementGasPerPayment: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_gas_per_payment",
  help: "Gas of one settled payment, learned from receipts: shared, alone, or of a contract wallet (erc1271, erc6492).",
  labels: ["network", "kind"],
  aggregator: "max",
};

/** Expected cost of settling one payment now. */
export const settlementCostPerPaymentUsd: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_cost_per_payment_usd",
  help: "What settling one payment costs now, in US dollars, at the configured price of the chain's coin.",
  labels: ["network", "kind"],
  aggregator: "max",
};

/** What mined settlement transactions cost. */
export const settlementCostWeiTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_cost_wei_total",
  help: "What mined settlement transactions cost, data fees of rollups included, in wei.",
  labels: ["network"],
};

/** Payments whose settlement costs more than the operator's share of their sale. */
export const settlementUnprofitableTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_unprofitable_total",
  help: "Payments whose settlement costs too much: refused before they were served, held for others, or settled.",
  labels: ["network", "action"],
};

/** Answers of a remote facilitator. */
export const remoteFacilitatorAnswersTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_remote_facilitator_answers_total",
  help: "Answers of the remote facilitator: yes, no, pending, late, denied, absurd or none.",
  labels: ["network", "answer"],
};

/** Payments to a receiver of this ledger that it does not know. */
export const settlementForeignTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_foreign_total",
  help:
    "Authorizations that paid a receiver of this ledger and are not in it, by the node that shows them: another seller " +
    "has the same payTo.",
  labels: ["network", "node"],
};

/** Scans for payments of other sellers. */
export const settlementForeignScansTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_settlement_foreign_scans_total",
  help: "Scans for payments that are not in this ledger, by result: done, partial (each window with something passed over) or failed.",
  labels: ["network", "node", "result"],
};

/** Final blocks that were not scanned for payments of other sellers. */
export const settlementForeignLagBlocks: MetricSpec = {
  kind: "gauge",
  name: "turnpike_settlement_foreign_lag_blocks",
  help: "Final blocks that were not yet scanned for payments that are not in this ledger; negative: the node is behind.",
  labels: ["network", "node"],
  aggregator: "max",
};

/** All metrics of this folder. */
export const ENGINE_METRICS: readonly MetricSpec[] = [
  settlementRelayerBalanceWei,
  settlementRelayerMinBalanceWei,
  settlementOpenBatches,
  settlementQueue,
  settlementLeasedKeys,
  settlementBatchPayments,
  settlementDurationSeconds,
  settlementsTotal,
  settlementUnresolved,
  settlementBroadcastsTotal,
  settlementGasPerPayment,
  settlementCostPerPaymentUsd,
  settlementCostWeiTotal,
  settlementUnprofitableTotal,
  remoteFacilitatorAnswersTotal,
  settlementForeignTotal,
  settlementForeignScansTotal,
  settlementForeignLagBlocks,
];
