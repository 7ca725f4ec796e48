import type { MetricSpec } from "@turnpike/base";

/** Presented payments by what they led to: `paid`, `outcome`, or the code of the refusal. */
export const admissionsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_admissions_total",
  help: "Presented payments by what they led to.",
  labels: ["result"],
};

/** Claims by how they ended. */
export const outcomesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_outcomes_total",
  help: "Claims by how they ended.",
  labels: ["outcome"],
};
