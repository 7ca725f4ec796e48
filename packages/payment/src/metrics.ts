import type { MetricSpec } from "@turnpike/base";
import { ENGINE_METRICS } from "./engine/metrics.ts";
import { EVM_METRICS } from "./evm/metrics.ts";
import { FACILITATOR_METRICS } from "./facilitator/metrics.ts";
import { LEDGER_METRICS } from "./ledger/metrics.ts";
import { VERIFY_METRICS } from "./verify/metrics.ts";

/** Presented payments by what they led to: `paid`, `outcome`, or the code of the refusal. */
export const paymentAdmissionsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_admissions_total",
  help: "Presented payments by what they led to.",
  labels: ["result"],
};

/** Claims by how they ended. */
export const paymentOutcomesTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_outcomes_total",
  help: "Claims by how they ended.",
  labels: ["outcome"],
};

/** All metrics of this package, for the test that holds them to the dashboards. */
export const PAYMENT_METRICS: readonly MetricSpec[] = [
  paymentAdmissionsTotal,
  paymentOutcomesTotal,
  ...VERIFY_METRICS,
  ...LEDGER_METRICS,
  ...ENGINE_METRICS,
  ...EVM_METRICS,
  ...FACILITATOR_METRICS,
];
