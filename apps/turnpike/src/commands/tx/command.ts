import { Command, Option } from "commander";
import { withJson } from "../../cli/context.ts";
import { COSMOS_TX_TABLES } from "./cosmos.ts";
import type { TxFlags } from "./options.ts";
import { POCKET_TX_TABLES } from "./pocket.ts";
import type { TxRow, TxTable } from "./row.ts";
import { WAIT_SECONDS } from "./wait.ts";

/** Where a node is asked, for `tx` and `query`. */
export const NODE_SAYS =
  "RPC of the node (else of --home, of a testnet's folder the first node that answers; else of the turnpike up that runs " +
  "here, else http://127.0.0.1:26657)";

/** Adds flags of the network's own command that change nothing here, so that scripts for it run. */
export function withForeignFlags(command: Command): Command {
  const flags = [
    "--keyring-backend <name>",
    "--keyring-dir <folder>",
    "--grpc-addr <address>",
    "--grpc-insecure [yes]",
  ];
  for (const flag of flags)
    command.addOption(new Option(flag, "of the network's own command; changes nothing here").hideHelp());
  return command;
}

/** `turnpike tx`: transactions of the relay protocol's chain. */
export function txCommand(): Command {
  const command = new Command("tx")
    .summary("send transactions to the relay protocol's chain")
    .description("Stakes, registers, claims, proves, sends and grants on the relay protocol's chain.");
  for (const table of [...POCKET_TX_TABLES, ...COSMOS_TX_TABLES]) command.addCommand(moduleCommand(table));
  return command.addCommand(broadcastCommand());
}

function moduleCommand({ module, says, rows }: TxTable): Command {
  const command = new Command(module).summary(says).description(`Transactions that ${says}.`);
  for (const row of rows) command.addCommand(rowCommand(module, row));
  return command;
}

function rowCommand(module: string, row: TxRow): Command {
  const command = new Command(row.name).description(row.says);
  for (const { name, says } of row.args ?? []) command.argument(name, says);
  for (const { flags, says, required } of row.flags ?? []) {
    if (required === true) command.requiredOption(flags, says);
    else command.option(flags, says);
  }
  withTxFlags(command);
  command.addHelpText("after", `\nExample:\n  npx turnpike tx ${module} ${row.name} ${row.example}`);
  return command.action(async (...given: unknown[]) => {
    const args = given
      .slice(0, -2)
      .flat()
      .filter((arg) => typeof arg === "string");
    const { runTx } = await import("./action.ts");
    await runTx(row, args, command.opts<TxFlags & Record<string, unknown>>());
  });
}

function withSendingFlags(command: Command): Command {
  withForeignFlags(command)
    .option("--node <url>", NODE_SAYS)
    .addOption(
      new Option("-o, --output <format>", "text, or json as the network's own command").choices(["json", "text"]),
    )
    .addOption(
      new Option("-b, --broadcast-mode <mode>", "sync: until the mempool has checked it; async: not even so long")
        .choices(["sync", "async"])
        .default("sync"),
    )
    .option("--wait", `wait until it is in a block, ${WAIT_SECONDS} s at most, and show what became of it`);
  return withJson(command);
}

function withTxFlags(command: Command): Command {
  command
    .option("--from <name>", "who signs: name of a key, or an address whose key is in the folder")
    .option(
      "--home <folder>",
      "folder with keys/, a testnet's too (else of the turnpike up that runs here, else chain)",
    )
    .option("--key-file <file>", "file of the key that signs; in a folder keys/, other names are looked up there too")
    .option("--chain-id <id>", "id of the chain (else the node is asked)")
    .option("--fees <coins>", "fee in all: 1000upokt")
    .option("--gas-prices <prices>", "price of a unit of gas: 0.000001upokt, which is used where no fee is given")
    .option("--gas <units>", "limit of gas, or auto: what a simulation used (else auto; 200000 where nothing is sent)")
    .option("--gas-adjustment <factor>", "what simulated gas is multiplied by", "1.5")
    .option("--generate-only", "print the transaction without signatures, and send nothing")
    .option("--offline", "ask no node: print the transaction signed, or as it is with --generate-only")
    .option("-a, --account-number <number>", "number of the account (else the node is asked)")
    .option("-s, --sequence <number>", "sequence of the account (else the node is asked)")
    .option("--note <text>", "memo of the transaction")
    .option("--unordered", "send it by itself, without a sequence; it ends with --timeout-duration")
    .option("--timeout-duration <time>", "how long after the newest block it is taken: 90s; with --unordered else 2m")
    .option("--timeout-height <height>", "last block that takes it")
    .option("-y, --yes", "do not ask on a terminal before it is sent");
  return withSendingFlags(command);
}

function broadcastCommand(): Command {
  const command = new Command("broadcast")
    .description("Sends a signed transaction that --offline printed.")
    .argument("<file>", "file of the transaction, in JSON")
    .option("--home <folder>", "folder of the node, or of a testnet");
  withSendingFlags(command).addHelpText("after", "\nExample:\n  npx turnpike tx broadcast signed.json --wait");
  return command.action(async (file: string) => {
    const { broadcastFile } = await import("./action.ts");
    await broadcastFile(file, command.opts<TxFlags>());
  });
}
