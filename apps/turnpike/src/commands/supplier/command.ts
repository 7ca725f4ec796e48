import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { SupplierOptions } from "./action.ts";

/** `turnpike supplier`: serves relays of the relay protocol, and claims them. */
export function supplierCommand(context: CommandContext): Command {
  const withOptions = (command: Command): Command => withJson(withConfig(command));
  const command = new Command("supplier")
    .summary("serve relays of sessions, claim and prove them; show what was earned")
    .description(
      "A supplier of the relay protocol: it serves signed relays from its back-ends, and claims, proves and is paid for " +
        "them on the chain. Its section of the configuration is `supplier`. See docs/supply.md.",
    );
  command.addCommand(
    withOptions(
      new Command("start")
        .description("Serves relays until a signal ends it. What was served before is claimed in its time.")
        .action(async (opts: SupplierOptions) => {
          const { start } = await import("./action.ts");
          await start(opts, context);
        }),
    ),
  );
  command.addCommand(
    withOptions(
      new Command("status")
        .description(
          "Shows what was served, claimed, proven, settled and lost, by service and session. Without a configuration it is " +
            "the supplier of the turnpike up that runs here.",
        )
        .action(async (opts: SupplierOptions) => {
          const { status } = await import("./action.ts");
          await status(opts, context);
        }),
    ),
  );
  command.addCommand(
    withOptions(
      new Command("check")
        .description(
          "Holds the configuration against the chain: stakes, services, endpoints, balances, and whether each back-end answers.",
        )
        .action(async (opts: SupplierOptions) => {
          const { check } = await import("./action.ts");
          await check(opts, context);
        }),
    ),
  );
  return command;
}
