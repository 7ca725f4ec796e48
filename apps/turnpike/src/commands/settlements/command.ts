import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { BlockOptions, SettlementOptions } from "./action.ts";

/** `turnpike settlements`: what an operator sees and changes of payments that do not come to an end by themselves. */
export function settlementsCommand(context: CommandContext): Command {
  const command = new Command("settlements")
    .summary("show and end settlement transactions and payments that are stuck")
    .description(
      "Shows and ends settlement transactions and payments that are stuck, in the ledger: gateways that have it open act " +
        "on it within seconds. Without a configuration it is the ledger of the turnpike up that runs here.",
    );
  const actions = () => import("./action.ts");
  const withLedger = (inner: Command): Command =>
    withJson(withConfig(inner.option("--facilitator", "the ledger of the facilitator that runs alone")));

  command.addCommand(
    withLedger(
      new Command("transactions")
        .description("Lists settlement transactions that are not mined, with key, nonce, age and payments.")
        .option("--limit <number>", "most transactions to list", "100")
        .action(async (opts: SettlementOptions & { readonly limit: string }) => {
          await (await actions()).transactions(opts, context);
        }),
    ),
  );
  command.addCommand(
    withJson(
      withConfig(
        new Command("contract")
          .description(
            "Shows which chains have the contract that keeps payers' code out of shared transactions, and the call that deploys it.",
          )
          .action(async (opts: SettlementOptions) => {
            await (await actions()).contract(opts, context);
          }),
      ),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("cancel")
        .description(
          "Replaces a transaction by an empty one with the same nonce. Its payments are sent again by themselves.",
        )
        .argument("<network>", "CAIP-2 id of the chain, such as eip155:8453")
        .argument("<relayer>", "address of the relayer key")
        .argument("<nonce>", "nonce of the transaction")
        .action(async (network: string, relayer: string, nonce: string, opts: SettlementOptions) => {
          await (await actions()).cancel(network, relayer, nonce, opts, context);
        }),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("retry")
        .description("Has a signed payment that its transactions did not settle sent again.")
        .argument("<id>", "id of the settlement, such as stl_…")
        .action(async (id: string, opts: SettlementOptions) => {
          await (await actions()).retry(id, opts, context);
        }),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("release")
        .description(
          "Releases a claimed payment: its answer is not sent, nothing is charged, and it may be presented again.",
        )
        .argument("<id>", "id of the settlement, such as stl_…")
        .action(async (id: string, opts: SettlementOptions) => {
          await (await actions()).release(id, opts, context);
        }),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("block")
        .description(
          "Refuses payments of an account, on every gateway of the ledger. Answers that it paid for are still sent.",
        )
        .argument("<network>", "CAIP-2 id of the chain, such as eip155:8453")
        .argument("<payer>", "address of the payer")
        .requiredOption("--reason <text>", "why, shown by `settlements blocked`; required")
        .option("--for <time>", "time until it ends, such as 30m, 1h or 7d; without it: until it is unblocked")
        .action(async (network: string, payer: string, opts: BlockOptions) => {
          await (await actions()).block(network, payer, opts, context);
        }),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("unblock")
        .description("Ends the block of an account: its payments are accepted again.")
        .argument("<network>", "CAIP-2 id of the chain, such as eip155:8453")
        .argument("<payer>", "address of the payer")
        .action(async (network: string, payer: string, opts: SettlementOptions) => {
          await (await actions()).unblock(network, payer, opts, context);
        }),
    ),
  );
  command.addCommand(
    withLedger(
      new Command("blocked")
        .description("Lists blocked accounts, newest first.")
        .option("--limit <number>", "most accounts to list", "100")
        .action(async (opts: SettlementOptions & { readonly limit: string }) => {
          await (await actions()).blocked(opts, context);
        }),
    ),
  );
  return command;
}
