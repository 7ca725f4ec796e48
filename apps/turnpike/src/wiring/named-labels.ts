import type { Config } from "@turnpike/config";
import { serviceOrigin } from "./protocol.ts";

/**
 * The values of labels that the configuration names: they keep samples of their own, however many services strangers
 * register on the chain. `unknown` is what stands for none.
 */
export function namedLabels(current: () => Config): (label: string, value: string) => boolean {
  return (label, value) => label === "service" && (value === "unknown" || serviceOrigin(current(), value) === "known");
}
