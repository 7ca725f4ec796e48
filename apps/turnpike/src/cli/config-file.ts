import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type Config, exposedSecrets, loadConfig } from "@turnpike/config";
import { type CommandContext, DEFAULT_CONFIG_FILE } from "./context.ts";
import { printError } from "./terminal.ts";

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
  printError(
    `warning: other users can read ${path}, which holds ${paths.join(", ")}; run chmod 600 ${path}, or take them from the environment\n`,
  );
}

/** Loads the configuration that a command is to run with: --config, else `turnpike.yaml` where there is one. */
export function configOf(context: CommandContext, file: string | undefined): Config {
  const chosen = configFileOf(context, file);
  if (chosen !== undefined) warnOfExposed(chosen);
  return loadConfig({ env: context.env, ...(chosen === undefined ? {} : { file: chosen }) });
}
