import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { noFaults, noMetrics, silentLog, systemClock } from "@turnpike/base";
import {
  type Config,
  configSchemaJson,
  type Environment,
  exposedSecrets,
  isChainAlone,
  loadConfig,
  redactConfig,
} from "@turnpike/config";
import { type CommandContext, DEFAULT_CONFIG_FILE, outputOf } from "../context.ts";
import type { LedgerRole } from "../wiring/ledger.ts";

/** The configuration file that a command is to use; undefined: there is none. */
export function configFileOf(context: CommandContext, file: string | undefined): string | undefined {
  return file ?? context.env.TURNPIKE_CONFIG ?? (existsSync(DEFAULT_CONFIG_FILE) ? DEFAULT_CONFIG_FILE : undefined);
}

/** Warns of secrets that other users of the machine can read. */
function warnOfExposed(file: string): void {
  if (!existsSync(file)) return;
  const paths = exposedSecrets(file);
  if (paths.length === 0) return;
  const path = resolve(file);
  process.stderr.write(
    `warning: other users can read ${path}, which holds ${paths.join(", ")}; run chmod 600 ${path}, or take them from the environment\n`,
  );
}

/** Loads the configuration that a command is to run with: --config, else `turnpike.yaml` where there is one. */
export function configOf(context: CommandContext, file: string | undefined): Config {
  const chosen = configFileOf(context, file);
  if (chosen !== undefined) warnOfExposed(chosen);
  return loadConfig({ env: context.env, ...(chosen === undefined ? {} : { file: chosen }) });
}

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
  // Here alone: every command loads its configuration by this module, and few of them need a gateway's parts.
  const { sells } = await import("../wiring/catalogue.ts");
  const { cannotRun, checkRun } = await import("../wiring/check.ts");
  const { createRelay } = await import("../wiring/relay.ts");
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
  process.stdout.write(configSchemaJson());
}
