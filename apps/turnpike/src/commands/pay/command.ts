import { Command } from "commander";
import { collect, NETWORK_TEXT } from "../../cli/buyer-options.ts";
import { type CommandContext, withJson } from "../../cli/context.ts";
import type { PayOptions } from "./action.ts";

/** `turnpike pay`: buys one call. */
export function payCommand(context: CommandContext): Command {
  const command = new Command("pay")
    .summary("buy one call")
    .description(
      "Buys one call of a service and shows price, answer, receipt and balance. Nothing is signed above the spending cap. " +
        "While a settlement is pending the same signature is presented again; a second one is never made.",
    )
    .argument("<service>", "id of the service, with an appended path where it has such: eth, osmosis/status")
    .argument("[json]", 'JSON body: \'{"method":"eth_blockNumber"}\'')
    .option("--max <usd>", "most that the call may cost, in US dollars (else the listed price, at most 0.05)")
    .option("--total <usd>", "most that all calls of the journal may cost together, in US dollars")
    .option(
      "--journal <file>",
      "write payments down there before they are sent: a call that was cut off is bought once (else a file in the state folder)",
    )
    .option("--no-journal", "write no payment down: the same call after an interruption is paid anew")
    .option("--quote", "show the terms and sign nothing")
    .option("--anyway", "ask also for a service that the gateway's list says is not served now")
    .option("--get", "send GET instead of POST")
    .option(
      "--gateway <url>",
      "gateway to buy from (else TURNPIKE_GATEWAY, else that of a running turnpike up if its sample buyer pays)",
    )
    .option("--key-file <file>", "key to pay with (else TURNPIKE_BUYER_KEY, else the sample buyer of turnpike up)")
    .option("--network <id>", NETWORK_TEXT, collect, [])
    .option("--rpc <url>", "node of the settlement chain: shows the balance, and that refused payments were not taken")
    .option("--payment <header>", "present this signed payment of an earlier try again; nothing is signed")
    .action(async (service: string, json: string | undefined, opts: PayOptions) => {
      const { pay } = await import("./action.ts");
      await pay(service, json, opts, context);
    });
  return withJson(command);
}
