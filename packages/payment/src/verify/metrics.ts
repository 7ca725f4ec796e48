import type { MetricSpec } from "@turnpike/base";

/** Verifications by step (`free`, `chain`) and result: `ok`, or the code of the refusal. */
export const paymentVerificationsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_verifications_total",
  help: "Verifications of payments by step and result",
  labels: ["step", "result"],
};

/** Time of one verification step, waiting included. */
export const paymentVerificationSeconds: MetricSpec = {
  kind: "histogram",
  name: "turnpike_payment_verification_seconds",
  help: "Time of one step of a verification, waiting included",
  labels: ["step"],
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
};

/** Payments that were verified by one exchange with the chain. */
export const paymentVerificationBatchPayments: MetricSpec = {
  kind: "histogram",
  name: "turnpike_payment_verification_batch_payments",
  help: "Payments verified by one exchange with the chain",
  buckets: [1, 2, 4, 8, 16, 32, 64],
};

/** Threads that recover signers and were lost. */
export const paymentRecoverWorkerExitsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_payment_recover_worker_exits_total",
  help: "Signature threads that ended without being asked to",
};

/** Signatures that wait for a thread. */
export const paymentRecoverQueue: MetricSpec = {
  kind: "gauge",
  name: "turnpike_payment_recover_queue",
  help: "Signatures that wait for a signature thread",
};

/** How far the estimate of the chain's time is from the machine's clock. */
export const chainTimeOffsetSeconds: MetricSpec = {
  kind: "gauge",
  name: "turnpike_chain_time_offset_seconds",
  help: "Estimate of the chain's time less the machine's clock",
  labels: ["network"],
  aggregator: "max",
};

/** All metrics of this folder. */
export const VERIFY_METRICS: readonly MetricSpec[] = [
  paymentVerificationsTotal,
  paymentVerificationSeconds,
  paymentVerificationBatchPayments,
  paymentRecoverWorkerExitsTotal,
  paymentRecoverQueue,
  chainTimeOffsetSeconds,
];
