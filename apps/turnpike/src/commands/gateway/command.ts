import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { GatewayFlags } from "./action.ts";

/** `turnpike gateway`: sells calls. */
export function gatewayCommand(context: CommandContext): Command {
  const command = new Command("gateway")
    .summary("sell calls")
    .description(
      "Runs the gateway: paid routes at /v1, free relay, health and discovery on gateway.port, metrics on " +
        "gateway.metrics.port. Needs a configuration and the ledger's PostgreSQL (turnpike db migrate). SIGTERM lets " +
        "calls under way end.",
    )
    .action(async (flags: GatewayFlags) => {
      const { run } = await import("./action.ts");
      await run(flags, context);
    });
  return withJson(withConfig(command));
}
