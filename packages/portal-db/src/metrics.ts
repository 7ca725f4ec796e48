import type { MetricSpec } from "@turnpike/base";

/** Answered requests of the management data API. `table` is one that its caller may see, `/`, or `other`. */
export const portalRequestsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_requests_total",
  help: "Requests to the management data API by verb, table and status.",
  labels: ["verb", "table", "status"],
};

/** Time from a request's head to its answer. */
export const portalRequestSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_portal_request_seconds",
  help: "Time of a request to the management data API.",
  labels: ["verb"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
};

/** Requests that are being answered. */
export const portalInFlight: MetricSpec = {
  kind: "gauge",
  name: "turnpike_portal_in_flight",
  help: "Requests to the management data API that are being answered.",
};

/** Tokens that were refused, by code: PGRST301 signature, PGRST302 none, PGRST303 claims. */
export const portalRefusedTokensTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_refused_tokens_total",
  help: "Requests to the management data API whose token was refused, by code.",
  labels: ["code"],
};

/** Requests over a limit: `token`, `address` or `in_flight`. */
export const portalLimitedTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_portal_limited_total",
  help: "Requests to the management data API that were over a limit, by limit.",
  labels: ["limit"],
};

/** Every metric of this package. */
export const PORTAL_METRICS: readonly MetricSpec[] = [
  portalRequestsTotal,
  portalRequestSeconds,
  portalInFlight,
  portalRefusedTokensTotal,
  portalLimitedTotal,
];
