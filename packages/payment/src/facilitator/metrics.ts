import type { MetricSpec } from "@turnpike/base";

/** Requests to the facilitator by what they led to. */
export const facilitatorRequestsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_facilitator_requests_total",
  help: "Requests to the facilitator by what they led to: valid, success, malformed, settlement_pending, or a reason.",
  labels: ["endpoint", "result"],
};

/** All metrics of this folder. */
export const FACILITATOR_METRICS: readonly MetricSpec[] = [facilitatorRequestsTotal];
