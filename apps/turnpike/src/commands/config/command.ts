import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { CheckOptions } from "./action.ts";

/** `turnpike config`: checks a configuration, prints its schema. */
export function configCommand(context: CommandContext): Command {
  const command = new Command("config")
    .summary("check a configuration")
    .description("Checks a configuration, and prints its schema.");
  command.addCommand(
    withJson(
      withConfig(
        new Command("check")
          .description("Names every fault of a configuration with its path and what to do.")
          .argument("[file]", "configuration")
          .option("--facilitator", "check what turnpike facilitator needs, and nothing of the gateway")
          .action(async (file: string | undefined, opts: CheckOptions) => {
            const { check } = await import("./action.ts");
            await check(file, opts, context);
          }),
      ),
    ),
  );
  command.addCommand(
    withJson(
      new Command("schema").description("Prints the JSON Schema of the configuration.").action(async () => {
        const { printSchema } = await import("./action.ts");
        printSchema();
      }),
    ),
  );
  return command;
}
