import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { FacilitatorFlags } from "./action.ts";

/** `turnpike facilitator`: verifies and settles payments for others. */
export function facilitatorCommand(context: CommandContext): Command {
  const command = new Command("facilitator")
    .summary("verify and settle payments")
    .description(
      "Runs an x402 facilitator: POST /verify, POST /settle, GET /supported, GET /discovery/resources. It settles in the " +
        "tokens of payment.networks, with relayer keys and a ledger of its own. A gateway has one inside and needs none.",
    )
    .action(async (flags: FacilitatorFlags) => {
      const { run } = await import("./action.ts");
      await run(flags, context);
    });
  return withJson(withConfig(command));
}
