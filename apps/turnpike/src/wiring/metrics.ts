import type { MetricSpec } from "@turnpike/base";

/** 1 when signatures are checked by the native secp256k1, 0 when by the slower one in JavaScript. */
export const secp256k1Native: MetricSpec = {
  kind: "gauge",
  name: "turnpike_secp256k1_native",
  help: "1 when signatures are checked by native code, 0 when by JavaScript.",
};

/** Every metric that the command declares itself. */
export const APP_METRICS: readonly MetricSpec[] = [secp256k1Native];
