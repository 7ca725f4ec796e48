import { Command } from "commander";
import { collect, NETWORK_TEXT } from "../../cli/buyer-options.ts";
import { type CommandContext, withJson } from "../../cli/context.ts";
import type { McpOptions } from "./action.ts";

/** `turnpike mcp`: lets an agent buy, within a budget. */
export function mcpCommand(context: CommandContext): Command {
  const command = new Command("mcp")
    .summary("let an agent buy, within a budget (Model Context Protocol)")
    .description(
      "Serves the gateway's services to an agent over the Model Context Protocol: search services, describe one, get a " +
        "quote, call and pay. Speaks over standard input and output, or with --http over streamable HTTP. Budgets are held " +
        "before anything is signed; what was signed is written to a journal first, so that neither a budget nor an open " +
        "payment is lost in a crash.",
    )
    .option(
      "--gateway <url>",
      "gateway to buy from (else TURNPIKE_GATEWAY, else that of a running turnpike up if its sample buyer pays)",
    )
    .option("--key-file <file>", "key to pay with (else TURNPIKE_BUYER_KEY, else the sample buyer of turnpike up)")
    .option("--per-call <usd>", "most that one call may cost, in US dollars", "0.05")
    .option("--per-session <usd>", "most that one session may spend, in US dollars", "1.00")
    .option("--total <usd>", "most that all sessions of the journal may spend together, in US dollars", "10.00")
    .option("--journal <file>", "where payments are written down (else in the state folder, one for each buyer)")
    .option("--network <id>", NETWORK_TEXT, collect, [])
    .option("--rpc <url>", "node of a settlement chain: it shows that refused payments were not taken", collect, [])
    .option("--max-answer <characters>", "most characters of a bought answer that one result shows", "40000")
    .option("--http", "serve streamable HTTP instead of standard input and output")
    .option("--port <port>", "with --http: port; 0 takes a free one", "3333")
    .option("--host <address>", "with --http: address; others than loopback need a token", "127.0.0.1")
    .option("--token-file <file>", "with --http: token that each request must bear (else TURNPIKE_MCP_TOKEN)")
    .option("--allow-host <name>", "with --http: a further name that requests may be for", collect, [])
    .option("--allow-origin <origin>", "with --http: an origin whose pages may ask", collect, [])
    .option("--max-sessions <count>", "with --http: most sessions at once", "64")
    .option("--idle-minutes <minutes>", "with --http: a session that asks nothing for so long is ended", "30")
    .addHelpText(
      "after",
      [
        "",
        "Examples:",
        "  npx turnpike mcp                                   for the gateway of a running turnpike up",
        "  npx turnpike mcp --gateway https://gw.example --key-file buyer.key --per-call 0.01 --per-session 0.50",
        "  npx turnpike mcp --http --port 3333                http://127.0.0.1:3333/mcp, a budget for each session",
        "",
        "See docs/agents.md for how to connect an agent.",
      ].join("\n"),
    )
    .action(async (opts: McpOptions) => {
      const { mcp } = await import("./action.ts");
      await mcp(opts, context);
    });
  return withJson(command);
}
