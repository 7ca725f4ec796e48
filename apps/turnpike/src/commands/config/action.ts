import { noFaults, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { type Config, configSchemaJson, type Environment, isChainAlone, redactConfig } from "@turnpike/config";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { printExact } from "../../cli/terminal.ts";
import type { LedgerRole } from "../../wiring/ledger.ts";

const counted = (count: number, name: string): string => `${count} ${name}${count === 1 ? "" : "s"}`;

export interface CheckOptions {
  readonly json?: boolean;
  readonly config?: string;
  /** Checks what `turnpike facilitator` needs, and nothing of the gateway. */
  readonly facilitator?: boolean;
}

/** A facilitator without keys is one that never runs. */
function hasFacilitator(config: Config, env: Environment): boolean {
  const { keys, keysFile } = config.facilitator.relayer;
  const inEnvironment = !config.localnet && (env.TURNPIKE_FACILITATOR_KEYS ?? "") !== "";
  return keys.length > 0 || keysFile !== undefined || inEnvironment;
}

/**
 * Checks that a configuration can run: the gateway, and the facilitator where it has keys.
 * @throws AppError CONFIG_INVALID naming each fault.
 */
export async function check(file: string | undefined, opts: CheckOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const { env } = context;
  const config = configOf(context, file ?? opts.config);
  // Here alone: the schema is printed without a gateway's parts.
  const { sells } = await import("../../wiring/catalogue.ts");
  const { cannotRun, checkRun } = await import("../../wiring/check.ts");
  const { createRelay } = await import("../../wiring/relay.ts");
  const isNode = isChainAlone(config);
  const roles: LedgerRole[] = opts.facilitator === true || isNode ? [] : ["gateway"];
  if (opts.facilitator === true || hasFacilitator(config, env)) roles.push("facilitator");
  const checks = roles.map((role) => checkRun(config, env, role));
  const faults = [...new Set(checks.flatMap((one) => one.faults))];
  if (faults.length > 0) throw cannotRun(faults);
  const catalogue = checks[0]?.catalogue;
  if (catalogue !== undefined) {
    // what the start builds may still refuse something
    const modules = { clock: systemClock, log: silentLog, metrics: noMetrics, faults: noFaults };
    await using _relay = createRelay(config, catalogue, modules);
  }
  const services = Object.keys(config.suppliers).filter((id) => catalogue?.get(id) !== undefined);
  output.result({ valid: true, services, config: redactConfig(config) });
  if (isNode) return output.line("The configuration is valid: a node of the chain, and nothing for a gateway.");
  const sold = sells(config) ? counted(config.payment.networks.length, "payment network") : "nothing is sold";
  output.line(`The configuration is valid: ${sold}, ${counted(services.length, "service")} with suppliers.`);
}

/** Prints the JSON Schema of the configuration. */
export function printSchema(): void {
  printExact(configSchemaJson());
}
