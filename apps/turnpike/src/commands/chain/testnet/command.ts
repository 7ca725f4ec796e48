import { Command, Option } from "commander";
import { type CommandContext, withConfig, withJson } from "../../../cli/context.ts";
import type { TestnetJoinOptions, TestnetOptions, TestnetStartOptions, TestnetWriteOptions } from "./action.ts";

const HOME = "folder of the testnet";
const DEFAULT_HOME = "testnet";

function withHome(command: Command): Command {
  return withJson(command.option("--home <folder>", HOME, DEFAULT_HOME));
}

function withFiles(command: Command): Command {
  return command
    .option("--listen <address>", "where each node's RPC, REST, gRPC and metrics listen", "0.0.0.0")
    .option("--snapshot-blocks <number>", "blocks between snapshots; 0 for none", "100");
}

/** `turnpike chain testnet`: several validators under CometBFT. */
export function testnetCommand(context: CommandContext): Command {
  return withHome(withFiles(withConfig(new Command("testnet"))))
    .summary("make and run several validators under CometBFT")
    .description(
      "Writes a chain of several validators under unmodified CometBFT 0.38: a folder for each node, node0 to node3, with one " +
        "genesis; accounts with keys in <home>/keys; testnet.json, which says what is where. Without --hosts the nodes run on " +
        "this machine, each in a network namespace of its own (start, stop); with it the folders are to be copied.",
    )
    .option("--validators <number>", "1 to 16 (else as many as --hosts names, else 4)")
    .option("--hosts <list>", "addresses or names of the validators' machines or containers, with commas between them")
    .option("--chain-id <id>", "id of the chain", "pocket")
    .addOption(
      new Option("--profile <name>", "fast: sessions of 20 blocks; slow: of 60, with a grace of 20; blocks of 1 s")
        .choices(["fast", "slow"])
        .default("fast"),
    )
    .action(async (_opts: TestnetWriteOptions, self: Command) => {
      const { write } = await import("./action.ts");
      await write(self.optsWithGlobals<TestnetWriteOptions>(), context);
    })
    .addCommand(joinCommand())
    .addCommand(startCommand(context))
    .addCommand(stopCommand());
}

function joinCommand(): Command {
  return withHome(withFiles(new Command("join")))
    .description(
      "Writes the folder of one more node, which is no validator: it fetches a snapshot of the chain, which must run, " +
        "instead of every block, and trusts a block that the nodes name. Before the first snapshot it is refused.",
    )
    .option("--host <address>", "address or name of its machine or container, where it runs on one of its own")
    .option("--rpc <list>", "RPC of nodes to ask, with commas between them (else the testnet's own)")
    .action(async (_opts: TestnetJoinOptions, self: Command) => {
      const { join } = await import("./action.ts");
      await join(self.optsWithGlobals<TestnetJoinOptions>());
    });
}

function startCommand(context: CommandContext): Command {
  return withHome(new Command("start"))
    .description(
      "Runs the nodes on this machine until Ctrl-C, each in a network namespace with an address of its own: the application " +
        "and CometBFT (COMETBFT, else cometbft in PATH). Needs Linux, root and iproute2. It says when a process dies and when " +
        "the chain stands still. Called in a second terminal it has the first start again what is dead.",
    )
    .option("--node <list>", "only these nodes, with commas between them, such as one that joins or is dead")
    .action(async (_opts: TestnetStartOptions, self: Command) => {
      const { start } = await import("./action.ts");
      await start(self.optsWithGlobals<TestnetStartOptions>(), context);
    });
}

function stopCommand(): Command {
  return withHome(new Command("stop"))
    .description("Ends everything of a testnet on this machine: what runs it, and what a killed run left.")
    .action(async (_opts: TestnetOptions, self: Command) => {
      const { stop } = await import("./action.ts");
      await stop(self.optsWithGlobals<TestnetOptions>());
    });
}
