import type { Log, Metrics } from "@turnpike/base";
import { secp256k1Backend } from "@turnpike/crypto";
import { secp256k1Native } from "./metrics.ts";

/** Shows by which code signatures are checked: without the native one, a payment takes many times as long to verify. */
export function reportCurve(
  modules: { readonly log: Log; readonly metrics: Metrics },
  backend: "native" | "pure" = secp256k1Backend,
): void {
  modules.metrics.set(secp256k1Native, backend === "native" ? 1 : 0);
  if (backend === "native") return;
  modules.log.warn(
    { backend },
    "the native secp256k1 is not there: signatures are checked by JavaScript, which is much slower; install it again with its scripts allowed",
  );
}
