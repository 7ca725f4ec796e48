import { Command } from "commander";
import { withJson } from "../../cli/context.ts";
import type { KeyOptions } from "./action.ts";

/** `turnpike keys`: makes and shows key files. */
export function keysCommand(): Command {
  const command = new Command("keys")
    .summary("make and show keys")
    .description("Makes and shows keys, of buyers and of relayers.");
  const secret = ["--show-private", "print the private keys too"] as const;
  command.addCommand(
    withJson(
      new Command("new")
        .description("Makes new keys in a file that only you can read, and prints their addresses.")
        .argument("<file>", "file to make; JSON when its name ends in .json, else one key a line")
        .option("--count <number>", "how many keys", "1")
        .option(...secret)
        .action(async (file: string, opts: KeyOptions & { readonly count: string }) => {
          const { create } = await import("./action.ts");
          create(file, opts);
        }),
    ),
  );
  command.addCommand(
    withJson(
      new Command("show")
        .description("Prints the addresses of a key file.")
        .argument("<file>", "key file")
        .option(...secret)
        .action(async (file: string, opts: KeyOptions) => {
          const { showFile } = await import("./action.ts");
          showFile(file, opts);
        }),
    ),
  );
  command.addCommand(
    withJson(
      new Command("address")
        .description("Prints the address of the first key of a file, and nothing else.")
        .argument("<file>", "key file")
        .action(async (file: string, opts: KeyOptions) => {
          const { showFile } = await import("./action.ts");
          showFile(file, { ...opts, first: true });
        }),
    ),
  );
  return command;
}
