import { isAppError } from "@turnpike/base";
import type { Environment } from "@turnpike/config";
import { Command, CommanderError } from "commander";
import { ConnectionFaults } from "./cli/connection-faults.ts";
import type { CommandContext } from "./cli/context.ts";
import { readableMessage } from "./cli/field-text.ts";
import { exitCodeOf, failureOf } from "./cli/output.ts";
import { flushOutput, printError, printOut } from "./cli/terminal.ts";
import { productVersion } from "./cli/version.ts";
import { chainCommand } from "./commands/chain/command.ts";
import { configCommand } from "./commands/config/command.ts";
import { dbCommand } from "./commands/db/command.ts";
import { facilitatorCommand } from "./commands/facilitator/command.ts";
import { gatewayCommand } from "./commands/gateway/command.ts";
import { keysCommand } from "./commands/keys/command.ts";
import { mcpCommand } from "./commands/mcp/command.ts";
import { payCommand } from "./commands/pay/command.ts";
import { queryCommand } from "./commands/query/command.ts";
import { relayCommand } from "./commands/relay/command.ts";
import { searchCommand } from "./commands/search/command.ts";
import { settlementsCommand } from "./commands/settlements/command.ts";
import { supplierCommand } from "./commands/supplier/command.ts";
import { txCommand } from "./commands/tx/command.ts";
import { upCommand } from "./commands/up/command.ts";

/** The command with all its commands. */
export function program(context: CommandContext): Command {
  const root = new Command("turnpike")
    .description("Metered multi-chain access: pay per request with x402.")
    .version(productVersion())
    .option("--verbose", "show where an error comes from")
    .addCommand(upCommand())
    .addCommand(payCommand(context))
    .addCommand(mcpCommand(context))
    .addCommand(keysCommand())
    .addCommand(gatewayCommand(context))
    .addCommand(relayCommand(context))
    .addCommand(facilitatorCommand(context))
    .addCommand(configCommand(context))
    .addCommand(chainCommand(context))
    .addCommand(txCommand())
    .addCommand(queryCommand())
    .addCommand(dbCommand(context))
    .addCommand(settlementsCommand(context))
    .addCommand(searchCommand(context))
    .addCommand(supplierCommand(context));
  const each = (command: Command): void => {
    // Errors are printed in one place, and only main ends the process.
    command.exitOverride().configureOutput({ outputError: () => {} });
    for (const inner of command.commands) each(inner as Command);
  };
  each(root);
  return root;
}

/** The help of the command that was called: of the innermost one that the arguments name. */
function helpLine(args: readonly string[], context: CommandContext): string {
  const names = ["turnpike"];
  let at: Command = program(context);
  for (const arg of args) {
    const inner = at.commands.find((command) => command.name() === arg);
    if (inner === undefined) {
      if (arg.startsWith("-")) continue;
      break;
    }
    names.push(arg);
    at = inner as Command;
  }
  return `See npx ${names.join(" ")} --help.`;
}

/** Prints what went wrong and what to do: `error CODE: message`, or JSON on standard output with --json. */
function report(error: unknown, args: readonly string[], context: CommandContext): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    const message = error.message.replace(/^error: /, "");
    if (error.code === "commander.help") return 2;
    if (args.includes("--json")) printOut(`${JSON.stringify({ error: { code: "USAGE", message } })}\n`);
    else printError(`error USAGE: ${message}\n${helpLine(args, context)}\n`);
    return 2;
  }
  const failure = failureOf(error);
  if (args.includes("--json")) printOut(`${JSON.stringify({ error: failure })}\n`);
  else {
    const advice = failure.code === "USAGE" ? helpLine(args, context) : failure.advice;
    printError(`error ${failure.code}: ${readableMessage(failure.code, failure.message)}\n${advice}\n`);
  }
  if (args.includes("--verbose")) {
    for (let at: unknown = error; at instanceof Error; at = at.cause) printError(`${at.stack ?? at.message}\n`);
    if (isAppError(error) && Object.keys(error.detail).length > 0) {
      printError(`${JSON.stringify(error.detail)}\n`);
    }
  }
  return exitCodeOf(failure.code);
}

/** Runs a command line and reports what goes wrong; the exit code of a failure goes to the context. */
export async function runCommandLine(args: readonly string[], context: CommandContext): Promise<void> {
  try {
    await program(context).parseAsync([...args], { from: "user" });
  } catch (error) {
    context.exitWith(report(error, args, context));
  }
}

/** Faults of outputs whose reader, a process or a terminal, has gone. */
const READER_GONE: ReadonlySet<string> = new Set(["EPIPE", "EIO"]);

/** Runs the command line. The only place that ends the process. */
export async function main(args: readonly string[], env: Environment): Promise<void> {
  const end = (code: number): never => process.exit(code);
  for (const stream of [process.stdout, process.stderr]) {
    // A reader that went away (`| head`) is no fault; a service goes on without its outputs.
    stream.on("error", () => {});
  }
  const connectionFaults = new ConnectionFaults();
  const context: CommandContext = {
    env,
    exitWith: (code) => {
      process.exitCode = code;
    },
    kill: end,
    connectionFaults,
  };
  process.on("uncaughtException", (error) => {
    if (!connectionFaults.absorb(error)) end(report(error, args, context));
  });
  await runCommandLine(args, context);
  const fault = await flushOutput();
  if (fault === undefined || READER_GONE.has(fault) || (process.exitCode ?? 0) !== 0) return;
  printError(`error INTERNAL: The output could not be written (${fault}).\n`);
  process.exitCode = 1;
}

if (import.meta.main) await main(process.argv.slice(2), process.env);
