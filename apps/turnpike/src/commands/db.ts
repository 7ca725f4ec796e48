import { Command } from "commander";
import type { BooksOptions, DbOptions } from "../actions/db.ts";
import { type CommandContext, withConfig, withJson } from "../context.ts";

/** `turnpike db`: the ledger's tables and books. */
export function dbCommand(context: CommandContext): Command {
  const command = new Command("db")
    .summary("the ledger's tables and books")
    .description("Works on the payment ledger.");
  command.addCommand(
    withJson(
      withConfig(
        new Command("migrate")
          .description(
            "Makes or updates the ledger's tables, and those of the facilitator when it has relayer keys. Safe to " +
              "repeat, and to run in several places at once.",
          )
          .action(async (opts: DbOptions) => {
            const { migrate } = await import("../actions/db.ts");
            await migrate(opts, context);
          }),
      ),
    ),
  );
  command.addCommand(
    withJson(
      withConfig(
        new Command("books")
          .description(
            "Sums the ledger: payments by token and state. Without a configuration it is the ledger of the turnpike up " +
              "that runs here.",
          )
          .option("--list <states>", "list payments of these states instead, newest first: owed,disputed")
          .option("--limit <number>", "most payments to list", "100")
          .option("--facilitator", "the ledger of the facilitator that runs alone")
          .action(async (opts: BooksOptions) => {
            const { books } = await import("../actions/db.ts");
            await books(opts, context);
          }),
      ),
    ),
  );
  return command;
}
