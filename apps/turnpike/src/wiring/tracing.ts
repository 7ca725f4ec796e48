import type { Log, Tracer } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import { productVersion } from "../cli/version.ts";

/** The tracer of a configuration; undefined where nothing is traced. The stack owns it. */
export async function openTracer(
  config: Config,
  modules: { readonly log: Log; readonly random: () => number },
  stack: AsyncDisposableStack,
): Promise<Tracer | undefined> {
  const { endpoint, sample, serviceName } = config.tracing;
  if (endpoint === undefined || sample <= 0) return undefined;
  // Most gateways trace nothing, and the libraries take time to load.
  const { createOtlpTracer } = await import("./otlp-tracer.ts");
  return stack.use(createOtlpTracer({ endpoint, sample, serviceName, version: productVersion() }, modules));
}
