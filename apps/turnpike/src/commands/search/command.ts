import { Command } from "commander";
import { type CommandContext, withConfig, withJson } from "../../cli/context.ts";
import type { SearchIndexOptions, SearchOptions } from "./action.ts";

/** `turnpike search`: the web search service, and its local index. */
export function searchCommand(context: CommandContext): Command {
  const command = new Command("search")
    .summary("serve web search; fill and show the local index")
    .description(
      "Serves web search on search.port, 8080 where nothing else is set: POST /v1/search asks the engines of " +
        "search.engines at once and merges what they find.",
    )
    .action(async (opts: SearchOptions) => {
      const { serveSearch } = await import("./action.ts");
      await serveSearch(opts, context);
    });
  withJson(withConfig(command));
  return command.addCommand(indexCommand(context)).addCommand(statusCommand(context));
}

function indexCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("index")
        .description(
          "Fills the local index from folders, sites, sitemaps and feeds; without targets from search.local.sources. " +
            "Run it again to take up changes, or to go on where it was ended. Without a configuration it is the index of " +
            "the turnpike up that runs here.",
        )
        .argument("[targets...]", "folders and URLs")
        .option("--kind <kind>", "folder, packages, url, sitemap or feed; without one it is found out")
        .option("--base-url <url>", "address under which the files of a folder are published")
        .action(async (targets: string[], opts: SearchIndexOptions, self: Command) => {
          const { index } = await import("./action.ts");
          await index(targets, { ...self.optsWithGlobals<SearchIndexOptions>(), ...opts }, context);
        }),
    ),
  );
}

function statusCommand(context: CommandContext): Command {
  return withJson(
    withConfig(
      new Command("status")
        .description("Shows what the local index holds.")
        .action(async (opts: SearchOptions, self: Command) => {
          const { status } = await import("./action.ts");
          await status({ ...self.optsWithGlobals<SearchOptions>(), ...opts }, context);
        }),
    ),
  );
}
