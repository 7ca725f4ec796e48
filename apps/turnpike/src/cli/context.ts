import type { Environment } from "@turnpike/config";
import type { Command } from "commander";
import type { ConnectionFaults } from "./connection-faults.ts";
import { createOutput, type Output } from "./output.ts";

/** What `main` gives to the commands. Only `main` reads the process's environment and ends the process. */
export interface CommandContext {
  readonly env: Environment;
  /** Sets the exit code of a command that ends without a fault. */
  exitWith(code: number): void;
  /** Ends the process at once: for the watchdog of a shutdown that hangs. */
  readonly kill: (code: number) => never;
  /** Faults that a running service survives; undefined: every one ends it. */
  readonly connectionFaults?: ConnectionFaults;
}

/** Adds what every command has. */
export function withJson(command: Command): Command {
  return command.option("--json", "write JSON for programs");
}

/** The output of a command, by its --json. */
export function outputOf(opts: { readonly json?: boolean }): Output {
  return createOutput(opts.json === true);
}

/** Configuration file of commands without --config and TURNPIKE_CONFIG. */
export const DEFAULT_CONFIG_FILE = "turnpike.yaml";

/** Adds --config. */
export function withConfig(command: Command): Command {
  const otherwise = `else TURNPIKE_CONFIG, else ${DEFAULT_CONFIG_FILE} where there is one`;
  return command.option("-c, --config <file>", `configuration (${otherwise})`);
}

/** A listening address as the host of a URL: IPv6 in brackets. */
export function hostText(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
