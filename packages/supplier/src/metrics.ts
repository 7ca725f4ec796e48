import type { MetricSpec } from "@turnpike/base";

/** Relays of a supplier, by what became of them. */
export const supplierEvidenceRelaysTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_evidence_relays_total",
  help: "Served relays by what became of them: mined, below-difficulty, or refused because the session was sealed, the disk full or the relay too large.",
  labels: ["service", "outcome"],
};

/** Sessions that ended. */
export const supplierSessionsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_sessions_total",
  help: "Sessions that ended: settled, or lost for the reason in the label.",
  labels: ["service", "outcome"],
};

/** Sessions that are open or not settled yet. */
export const supplierUnsettledSessions: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_unsettled_sessions",
  help: "Sessions of an operator that are not settled, by how far they are.",
  labels: ["operator", "phase"],
};

/** Delay of settlements. */
export const supplierSettlementDelayBlocks: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_settlement_delay_blocks",
  help: "Blocks since the oldest session of an operator without an outcome was due for settlement; 0 when none is due.",
  labels: ["operator"],
  aggregator: "max",
};

/** What settled claims were worth. */
export const supplierExpectedUpoktTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_expected_upokt_total",
  help: "What the relays of ended sessions were worth by the session's parameters, in upokt, lost sessions included.",
  labels: ["service"],
};

/** What settled claims were paid. */
export const supplierSettledUpoktTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_settled_upokt_total",
  help: "What applications were charged for settled sessions, in upokt.",
  labels: ["service"],
};

/** What of it the supplier's shareholders got. */
export const supplierRewardsUpoktTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_rewards_upokt_total",
  help: "What those who share the supplier's revenue received for settled sessions, in upokt.",
  labels: ["service"],
};

/** Penalties for proofs that were missing or wrong. */
export const supplierPenaltiesUpoktTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_penalties_upokt_total",
  help: "Cut from the supplier's stake because a required proof was missing or wrong, in upokt.",
  labels: ["service"],
};

/** Transactions with claims and proofs. */
export const supplierTxsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_supplier_txs_total",
  help: "Transactions with claims or proofs: sent, sent again, raised (sent again with a higher fee), included, failed in a block, refused by the node, or not sent because the node did not answer.",
  labels: ["kind", "outcome"],
};

/** Coins that pay fees. */
export const supplierBalanceUpokt: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_balance_upokt",
  help: "Coins of an operator's account, which pay the fees of claims and proofs, in upokt.",
  labels: ["operator"],
  aggregator: "max",
};

/** Newest block that claims and proofs were looked after at. */
export const supplierClaimsHeightBlocks: MetricSpec = {
  kind: "gauge",
  name: "turnpike_supplier_claims_height_blocks",
  help: "Newest block after which claims and proofs of an operator were looked after.",
  labels: ["operator"],
  aggregator: "max",
};

/** All metrics of this package. */
export const SUPPLIER_METRICS: readonly MetricSpec[] = [
  supplierEvidenceRelaysTotal,
  supplierSessionsTotal,
  supplierUnsettledSessions,
  supplierSettlementDelayBlocks,
  supplierExpectedUpoktTotal,
  supplierSettledUpoktTotal,
  supplierRewardsUpoktTotal,
  supplierPenaltiesUpoktTotal,
  supplierTxsTotal,
  supplierBalanceUpokt,
  supplierClaimsHeightBlocks,
];
