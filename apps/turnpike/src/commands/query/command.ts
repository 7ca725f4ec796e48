import { Command, Option } from "commander";
import { withJson } from "../../cli/context.ts";
import { NODE_SAYS, withForeignFlags } from "../tx/command.ts";
import { ACTOR_QUERY_TABLES } from "./actors.ts";
import type { TxsFlags } from "./blocks.ts";
import { COSMOS_QUERY_TABLES } from "./cosmos.ts";
import type { QueryFlags } from "./print.ts";
import type { QueryRow, QueryTable } from "./row.ts";
import { WORK_QUERY_TABLES } from "./work.ts";

/** `turnpike query`: the state of the relay protocol's chain. */
export function queryCommand(): Command {
  const command = new Command("query")
    .alias("q")
    .summary("ask the relay protocol's chain")
    .description(
      "Shows the state of the relay protocol's chain. Answers are those of the REST API: on one line with all fields, of " +
        "supplier, service and shared indented without the fields that are empty; --json is always on one line.",
    );
  for (const table of [...ACTOR_QUERY_TABLES, ...WORK_QUERY_TABLES, ...COSMOS_QUERY_TABLES])
    command.addCommand(moduleCommand(table));
  return command.addCommand(txCommand()).addCommand(txsCommand()).addCommand(blockCommand());
}

function moduleCommand(table: QueryTable): Command {
  const command = new Command(table.module).summary(table.says).description(`Shows ${table.says}.`);
  for (const row of table.rows) command.addCommand(rowCommand(table, row));
  return command;
}

function withPages(command: Command, pages: "plain" | "page"): void {
  const before = pages === "page" ? "page-" : "";
  command
    .option(`--${before}limit <count>`, "how many are shown; 100 without")
    .option(`--${before}offset <count>`, "how many are left out first")
    .option("--page-key <key>", "next_key of the answer before, to go on there")
    .option(`--${before}count-total [yes]`, "count them all")
    .option(`--${before}reverse [yes]`, "the last ones first");
  if (pages === "plain") command.option("--page <number>", "which page, counted from 1");
}

function rowCommand(table: QueryTable, row: QueryRow): Command {
  const command = new Command(row.name).description(row.says).aliases([...(row.aliases ?? [])]);
  for (const { name, says } of row.args ?? []) command.argument(name, says);
  for (const { flags, says } of row.flags ?? []) command.option(flags, says);
  if (row.pages !== undefined) withPages(command, row.pages);
  withQueryFlags(command, `${table.module} ${row.name} ${row.example}`);
  return command.action(async (...given: unknown[]) => {
    const args = given.slice(0, -2).filter((arg) => typeof arg === "string");
    const { runQuery } = await import("./action.ts");
    await runQuery(table, row, args, command.opts<QueryFlags & Record<string, unknown>>());
  });
}

function withQueryFlags(command: Command, example: string): Command {
  withForeignFlags(command)
    .option("--node <url>", NODE_SAYS)
    .option(
      "--home <folder>",
      "folder with keys/, whose names stand for addresses, a testnet's too (else of turnpike up)",
    )
    .option("--height <height>", "state after this block; without one the newest")
    .addOption(new Option("-o, --output <format>", "json, or text: YAML").choices(["json", "text"]))
    .addHelpText("after", `\nExample:\n  npx turnpike query ${example}`.trimEnd());
  return withJson(command);
}

const actions = () => import("./blocks.ts");
const HASH = "C8ECF694DE563DD345B5F88D0836F4962F867C2495FBE395B91A08E71FB738E5";

function txCommand(): Command {
  const command = new Command("tx")
    .description("Shows a transaction that is in a block, and what became of it.")
    .argument("<hash>", "hash of the transaction, in hex");
  return withQueryFlags(command, `tx ${HASH}`).action(async (hash: string, flags: QueryFlags) => {
    await (await actions()).queryTx(hash, flags);
  });
}

function txsCommand(): Command {
  const command = new Command("txs")
    .description("Lists transactions by their height and events.")
    .requiredOption("--query <query>", 'such as "tx.height=100" or "message.action=\'/cosmos.bank.v1beta1.MsgSend\'"')
    .option("--page <number>", "which page, counted from 1")
    .option("--limit <count>", "how many are shown; 100 without, which is the most")
    .option("--order_by <order>", "asc: the oldest first, or desc");
  return withQueryFlags(command, `txs --query "tx.height=100"`).action(async (flags: TxsFlags) => {
    const { order_by: orderBy } = command.opts<{ order_by?: string }>();
    await (await actions()).queryTxs({ ...flags, ...(orderBy === undefined ? {} : { orderBy }) });
  });
}

function blockCommand(): Command {
  const command = new Command("block")
    .description("Shows a block: the answer of the RPC's method block.")
    .argument("[height]", "its height; without one the newest");
  return withQueryFlags(command, "block 100").action(async (height: string | undefined, flags: QueryFlags) => {
    await (await actions()).queryBlock(height, flags);
  });
}
