import type { MetricSpec } from "@turnpike/base";

/** 1 when signatures are checked by the native secp256k1, 0 when by the slower one in JavaScript. */
export const secp256k1Native: MetricSpec = {
  kind: "gauge",
  name: "turnpike_secp256k1_native",
  help: "1 when signatures are checked by native code, 0 when by JavaScript.",
  aggregator: "min",
};

/** Attempts to put another configuration into effect: `reloaded`, `unchanged` or `refused`. */
export const configReloadsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_config_reloads_total",
  help: "Reloads of the configuration, by outcome.",
  labels: ["outcome"],
};

/** Workers that serve, where there are several. */
export const workersUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_workers_up",
  help: "Workers of this gateway that serve.",
};

/** Workers that ended and were started again. */
export const workerRestartsTotal: MetricSpec = {
  kind: "counter",
  name: "turnpike_worker_restarts_total",
  help: "Workers that ended and were started again.",
};

/** Every metric that the command declares itself. */
export const APP_METRICS: readonly MetricSpec[] = [secp256k1Native, configReloadsTotal, workersUp, workerRestartsTotal];
