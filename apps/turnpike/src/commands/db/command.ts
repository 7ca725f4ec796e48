import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { DbOptions, LedgerOptions } from "./action.ts";
import type { RevokeFlags, TokenOptions } from "./portal.ts";

/** `turnpike db`: the management data API, its tokens, and the ledger's tables and sums. */
export function dbCommand(context: CommandContext): Command {
  const command = new Command("db")
    .summary("serve the management data; its tokens; tables and sums of the ledger")
    .description(
      "Serves the management data API (networks, organizations, accounts, applications) on portalDb.port, 3000 where " +
        "nothing else is set: GET / is its OpenAPI description. SIGHUP reads the token keys anew.",
    )
    .action(async (opts: DbOptions) => {
      const { serveData } = await import("./portal.ts");
      await serveData(opts, context);
    });
  withJson(withConfig(command));
  command.addCommand(
    withJson(
      withConfig(
        new Command("migrate")
          .description(
            "Makes or updates the ledger's tables, those of the facilitator when it has relayer keys, and tables and " +
              "roles of the management data when portalDb.url is set. Safe to repeat, and to run in several places at once.",
          )
          .action(async (opts: DbOptions, self: Command) => {
            const { migrate } = await import("./action.ts");
            await migrate({ ...self.optsWithGlobals<DbOptions>(), ...opts }, context);
          }),
      ),
    ),
  );
  command.addCommand(
    withJson(
      withConfig(
        new Command("doctor")
          .description(
            "Compares the ledger's tables, functions, rights and sequences, and those of the management data, with what " +
              "the migrations make. Lists what is missing, with what to do; exit code 1 where something is. Changes nothing.",
          )
          .action(async (opts: DbOptions, self: Command) => {
            const { doctor } = await import("./action.ts");
            await doctor({ ...self.optsWithGlobals<DbOptions>(), ...opts }, context);
          }),
      ),
    ),
  );
  command.addCommand(
    withJson(
      withConfig(
        new Command("ledger")
          .alias("books")
          .description(
            "Sums the ledger: payments by token and state. Without a configuration it is the ledger of the turnpike up " +
              "that runs here.",
          )
          .option(
            "--list <states>",
            "list payments of these states instead, newest first, such as owed,disputed; states: claimed, released, signed, submitted, settled, failed, owed, disputed",
          )
          .option("--id <id>", "show the payment of this id instead, such as stl_…")
          .option("--limit <number>", "most payments to list", "100")
          .option("--facilitator", "the ledger of the facilitator that runs alone")
          .action(async (opts: LedgerOptions, self: Command) => {
            const { showLedger } = await import("./action.ts");
            await showLedger({ ...self.optsWithGlobals<LedgerOptions>(), ...opts }, context);
          }),
      ),
    ),
  );
  return command.addCommand(tokenCommand(context)).addCommand(revokeCommand(context));
}

function tokenCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("token")
        .description(
          "Makes a token of the management data API. Without a configuration it is one for the turnpike up that runs here.",
        )
        .requiredOption("--role <role>", "reader or admin")
        .option("--account <id>", "account whose rows alone it reaches; without one: all")
        .option("--expires <time>", "time until it ends, such as 30m, 1h or 7d", "1h")
        .option("--kid <id>", "key of portalDb.jwt.keys to sign with; without one: the secret")
        .option("--key-file <file>", "private key (PEM) of that kid, for RS256 and ES256")
        .action(async (opts: TokenOptions, command: Command) => {
          const { token } = await import("./portal.ts");
          await token({ ...command.optsWithGlobals<TokenOptions>(), ...opts }, context);
        }),
    ),
  );
}

function revokeCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("revoke")
        .description("Takes a token of the management data API back, by its id (jti).")
        .argument("<id>", "id of the token, as turnpike db token --json shows it")
        .option("--reason <text>", "why, kept with the revoked id")
        .action(async (id: string, opts: RevokeFlags, command: Command) => {
          const { revoke } = await import("./portal.ts");
          await revoke(id, { ...command.optsWithGlobals<RevokeFlags>(), ...opts }, context);
        }),
    ),
  );
}
