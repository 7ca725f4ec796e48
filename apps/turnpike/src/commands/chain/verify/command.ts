import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../../cli/context.ts";
import type { ChainVerifyOptions } from "./action.ts";

const HOME = "folder of the node (else chain.home, else chain)";

/** `turnpike chain verify`: whether a store is what was written. */
export function verifyCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("verify")
        .description(
          "Reads the store of a node that does not run: every page, the newest state against its app hash, and each block " +
            "with its signatures. Ends with 1 and says what to do when something is not what was written.",
        )
        .option("--home <folder>", HOME)
        .action(async (_opts: ChainVerifyOptions, self: Command) => {
          const { verify } = await import("./action.ts");
          await verify(self.optsWithGlobals<ChainVerifyOptions>(), context);
        }),
    ),
  );
}
