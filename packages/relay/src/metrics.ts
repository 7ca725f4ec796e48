import type { MetricSpec } from "@turnpike/base";
import { CACHE_METRICS } from "./cache/metrics.ts";
import { SESSION_METRICS } from "./session/metrics.ts";
import { SUBSCRIPTION_METRICS } from "./subscriptions/metrics.ts";

/** Attempts at suppliers. `outcome`: good, error (an error that is an answer) or bad; `blame` is `none` unless bad. */
export const relayAttemptsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_attempts_total",
  help: "Attempts at suppliers by service, outcome, blame and reason",
  labels: ["service", "outcome", "blame", "reason"],
};

/** Time from the start of one attempt to its classified answer. */
export const relayAttemptDurationSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_relay_attempt_duration_seconds",
  help: "Duration of an attempt at a supplier",
  labels: ["service", "outcome"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
};

/** Relays by how they ended: `ok`, or the error code. */
export const relaysTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relays_total",
  help: "Relays by service and result",
  labels: ["service", "result"],
};

/** Relays that wait for an answer. */
export const relayInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_in_flight",
  help: "Relays in flight",
};

/** Bytes of answers that are being received. */
export const relayInFlightBytes: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_in_flight_bytes",
  help: "Bytes of answers held while they are received",
};

/** 1 while an operator is passed over because it failed too often. */
export const relayBreakerOpen: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_breaker_open",
  help: "1 while a supplier's breaker is open",
  labels: ["service", "operator", "rpc_type"],
  aggregator: "max",
};

/** Probes by how they ended: good, bad, wrong_chain or unreachable. */
export const relayProbesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_probes_total",
  help: "Health probes by service and result",
  labels: ["service", "result"],
};

/** 1 while a supplier counts as healthy. */
export const relaySupplierHealthy: MetricSpec = {
  kind: "gauge",
  name: "turnpike_relay_supplier_healthy",
  help: "1 while a supplier counts as healthy",
  labels: ["service", "operator", "rpc_type"],
  aggregator: "min",
};

/** Calls that were asked of a second supplier because the first was slow. `won`: the second was quicker. */
export const relayHedgesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_hedges_total",
  help: "Hedged calls by service and result",
  labels: ["service", "result"],
};

/** Calls whose answers were compared: agreed, disagreed, unconfirmed (too few answers to contradict) or too_few operators. */
export const relayCrossChecksTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_cross_checks_total",
  help: "Cross-checked calls by service and result",
  labels: ["service", "result"],
};

/** Questions for logs that were asked in parts: joined or failed. */
export const relaySplitLogsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_relay_split_logs_total",
  help: "eth_getLogs calls that were split, by service and result",
  labels: ["service", "result"],
};

/** All metrics of this package, for the test that holds them to the dashboards. */
export const RELAY_METRICS: readonly MetricSpec[] = [
  relayAttemptsTotal,
  relayAttemptDurationSeconds,
  relaysTotal,
  relayInFlight,
  relayInFlightBytes,
  relayBreakerOpen,
  relayProbesTotal,
  relaySupplierHealthy,
  relayHedgesTotal,
  relayCrossChecksTotal,
  relaySplitLogsTotal,
  ...CACHE_METRICS,
  ...SESSION_METRICS,
  ...SUBSCRIPTION_METRICS,
];
