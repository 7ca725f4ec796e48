import type { MetricSpec } from "@turnpike/base";

/** Keys looked up in the management database, by outcome: `found`, `unknown`, `failed` or `full`. */
export const portalKeyLookupsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_key_lookups_total",
  help: "Keys of applications that were looked up in the management database.",
  labels: ["outcome"],
};

/** Writes of usage to the management database, by outcome: `ok` or `failed`. */
export const portalUsageWritesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_usage_writes_total",
  help: "Writes of applications' usage to the management database.",
  labels: ["outcome"],
};

/** Rows of usage that wait to be written. */
export const portalUsagePending: MetricSpec = {
  kind: "gauge",
  name: "turnpike_portal_usage_pending",
  help: "Rows of applications' usage that wait to be written.",
};

/** Calls whose usage was lost because too much waited to be written. */
export const portalUsageLostTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_usage_lost_total",
  help: "Calls of applications that could not be counted.",
};

/** Metrics of a gateway that takes keys. */
export const APPLICATION_METRICS: readonly MetricSpec[] = [
  portalKeyLookupsTotal,
  portalUsageWritesTotal,
  portalUsagePending,
  portalUsageLostTotal,
];
