import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../../cli/context.ts";
import type { ChainSnapshotListOptions, ChainSnapshotOptions } from "./action.ts";

const HOME = "folder of the node (else chain.home, else chain)";

/** `turnpike chain snapshot`: snapshots of the state, from which new nodes come up. */
export function snapshotCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("snapshot")
        .description(
          "Makes a snapshot of the state in data/snapshots of the node's folder, from which CometBFT's state sync brings new " +
            "nodes up. The node must not run; one that runs under CometBFT makes them by itself with chain.snapshots.everyBlocks.",
        )
        .option("--home <folder>", HOME)
        .option("--height <number>", "height of the state; without it the newest")
        .action(async (_opts: ChainSnapshotOptions, self: Command) => {
          const { snapshot } = await import("./action.ts");
          await snapshot(self.optsWithGlobals<ChainSnapshotOptions>(), context);
        })
        .addCommand(listCommand(context)),
    ),
  );
}

function listCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("list")
        .description("Shows the snapshots in the node's folder, newest first. The node may run.")
        .option("--home <folder>", HOME)
        .action(async (_opts: ChainSnapshotListOptions, self: Command) => {
          const { listAll } = await import("./action.ts");
          await listAll(self.optsWithGlobals<ChainSnapshotListOptions>(), context);
        }),
    ),
  );
}
