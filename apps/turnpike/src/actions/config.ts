import { existsSync } from "node:fs";
import { createCatalogue } from "@turnpike/catalogue";
import { type Config, configSchemaJson, loadConfig } from "@turnpike/config";
import { type CommandContext, DEFAULT_CONFIG_FILE, outputOf } from "../context.ts";
import { catalogueOptions } from "../wiring/catalogue.ts";

/** Loads the configuration that a command is to run with: --config, else `turnpike.yaml` where there is one. */
export function configOf(context: CommandContext, file: string | undefined): Config {
  const chosen =
    file ?? context.env.TURNPIKE_CONFIG ?? (existsSync(DEFAULT_CONFIG_FILE) ? DEFAULT_CONFIG_FILE : undefined);
  return loadConfig({ env: context.env, ...(chosen === undefined ? {} : { file: chosen }) });
}

/** The configuration without what nobody should see on a screen. */
function shown(config: Config): unknown {
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => {
      if (key === "keys" && Array.isArray(value)) return value.map(() => "[hidden]");
      if (key === "headers") return "[hidden]";
      if (typeof value !== "string" || !value.includes("://")) return value;
      try {
        const url = new URL(value);
        return `${url.protocol}//${url.host}${url.pathname.length > 1 || url.search !== "" ? "/…" : ""}`;
      } catch {
        return "[hidden]";
      }
    }),
  );
}

/** Checks a configuration and the catalogue's changes in it. @throws AppError CONFIG_INVALID naming each fault. */
export function check(
  file: string | undefined,
  opts: { readonly json?: boolean; readonly config?: string },
  context: CommandContext,
): void {
  const output = outputOf(opts);
  const config = configOf(context, file ?? opts.config);
  const catalogue = createCatalogue(catalogueOptions(config));
  const services = Object.keys(config.suppliers).filter((id) => catalogue.get(id) !== undefined);
  output.result({ valid: true, services, config: shown(config) });
  output.line(
    `The configuration is valid: ${config.payment.networks.length} payment networks, ${services.length} services with suppliers.`,
  );
}

/** Prints the JSON Schema of the configuration. */
export function printSchema(): void {
  process.stdout.write(configSchemaJson());
}
