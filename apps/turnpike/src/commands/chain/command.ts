import { Command, Option } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { ChainExportOptions, ChainRunOptions, ChainStartOptions } from "./action.ts";
import type { ChainInitOptions } from "./init.ts";
import type { ChainRulesOptions } from "./rules.ts";
import { snapshotCommand } from "./snapshot/command.ts";
import { testnetCommand } from "./testnet/command.ts";
import { verifyCommand } from "./verify/command.ts";

/** `turnpike chain`: a node of the relay protocol's chain. */
export function chainCommand(context: CommandContext): Command {
  return new Command("chain")
    .summary("make and run a node of the relay protocol's chain")
    .description(
      "The chain on which services are registered, applications, gateways and suppliers stake, sessions are drawn, and " +
        "work is claimed, proven and paid.",
    )
    .addCommand(initCommand(context))
    .addCommand(startCommand(context))
    .addCommand(exportCommand(context))
    .addCommand(rulesCommand(context))
    .addCommand(snapshotCommand(context))
    .addCommand(verifyCommand(context))
    .addCommand(testnetCommand(context))
    .addCommand(keyCommand());
}

const HOME = "folder of the node (else chain.home, else chain)";

function initCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("init")
        .description(
          "Makes a new chain for trying and testing: genesis, the node's keys, and accounts with keys in <home>/keys. " +
            "The catalogue's services are registered.",
        )
        .option("--home <folder>", HOME)
        .option("--chain-id <id>", "id of the chain", "pocket")
        .addOption(
          new Option("--profile <name>", "fast: sessions of 20 blocks; slow: of 60, with a grace of 20; blocks of 1 s")
            .choices(["fast", "slow"])
            .default("fast"),
        )
        .action(async (_opts: ChainInitOptions, self: Command) => {
          const { init } = await import("./init.ts");
          await init(self.optsWithGlobals<ChainInitOptions>(), context);
        }),
    ),
  );
}

function startCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("start")
        .description(
          "Runs the node: RPC on chain.rpc.port (26657), REST on chain.rest.port (1317), gRPC on chain.grpc.port (9090). " +
            "With chain.engine: cometbft it is the application of a CometBFT node, which serves its own RPC.",
        )
        .option("--home <folder>", HOME)
        .option(
          "--unsafe-skip-upgrades <heights>",
          "drop the upgrade that is planned for such a height (100,200) and go on by the old rules; unsafe: validators " +
            "that do not all do the same part for good",
        )
        .action(async (_opts: ChainRunOptions, self: Command) => {
          const { start } = await import("./action.ts");
          await start(self.optsWithGlobals<ChainRunOptions>(), context);
        }),
    ),
  );
}

function exportCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("export")
        .description("Prints a genesis that begins a new chain with the state of this one. The node must not run.")
        .option("--home <folder>", HOME)
        .option("--height <number>", "height of the state; without it the newest")
        .action(async (_opts: ChainExportOptions, self: Command) => {
          const { exportState } = await import("./action.ts");
          await exportState(self.optsWithGlobals<ChainExportOptions>(), context);
        }),
    ),
  );
}

function rulesCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("rules")
        .description(
          "Shows by which rules this program can run blocks, which a chain has, and which upgrade it has planned: of the node " +
            "that runs in --home or at --node, or of the store of one that is stopped.",
        )
        .option("--home <folder>", HOME)
        .option("--node <url>", "RPC of a node that runs")
        .action(async (_opts: ChainRulesOptions, self: Command) => {
          const { rules } = await import("./rules.ts");
          await rules(self.optsWithGlobals<ChainRulesOptions>(), context);
        }),
    ),
  );
}

function keyCommand(): Command {
  return withJson(
    new Command("key")
      .description(
        "Makes a key of an account, or shows the address of one that is there. It is a file in keys/ of --home, else of the " +
          "turnpike up that runs here, else of chain. tx and query take its name for its address.",
      )
      .argument("<name>", "name of the key")
      .option("--home <folder>", "folder above the keys: of a node, or of a testnet")
      .action(async (name: string, _opts: ChainStartOptions, self: Command) => {
        const { key } = await import("./key.ts");
        await key(name, self.optsWithGlobals<ChainStartOptions>());
      }),
  );
}
