import type { Config } from "@turnpike/config";
import { serviceOrigin } from "./protocol.ts";

/**
 * The values of labels that the configuration names: they keep samples of their own, however many services and suppliers
 * anyone registers on the chain. `unknown` is what stands for no service.
 */
export function namedLabels(current: () => Config): (label: string, value: string) => boolean {
  let read: { readonly of: Config["suppliers"]; readonly operators: ReadonlySet<string> } | undefined;
  // Once the label values are at their bound, each sample with a new one asks.
  const operators = (suppliers: Config["suppliers"]): ReadonlySet<string> => {
    if (read?.of !== suppliers) read = { of: suppliers, operators: new Set(operatorsOf(suppliers)) };
    return read.operators;
  };
  return (label, value) => {
    if (label === "operator") return operators(current().suppliers).has(value);
    return label === "service" && (value === "unknown" || serviceOrigin(current(), value) === "known");
  };
}

function operatorsOf(suppliers: Config["suppliers"]): readonly string[] {
  return Object.values(suppliers).flatMap(({ endpoints }) => endpoints.map(({ operator }) => operator));
}
