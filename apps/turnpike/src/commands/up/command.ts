import { DEFAULT_PORTS, portFlag, type UpPorts } from "@turnpike/devnet/ports";
import { Command, InvalidArgumentError, Option } from "commander";
import type { UpFlags } from "./action.ts";

function portNumber(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new InvalidArgumentError("It must be a port, 1 to 65535.");
  return port;
}

function portOption(name: keyof UpPorts, what: string): Option {
  const option = new Option(`--${portFlag(name)} <port>`, `port of ${what}`).argParser(portNumber);
  return option.default(DEFAULT_PORTS[name], DEFAULT_PORTS[name] === 0 ? "any free one" : undefined);
}

/** The command `turnpike up`. */
export function upCommand(): Command {
  return new Command("up")
    .description(
      "run everything on this machine: chains, ledger, facilitator, management data, web search and gateway, all on loopback",
    )
    .option("--fresh", "remove the state folder's contents and start over")
    .option("--json", "print one JSON line when everything answers, instead of text")
    .option("--state <folder>", "state folder", ".turnpike")
    .addOption(
      new Option("--database-url <url>", "PostgreSQL of the ledger; without it one is started here").env(
        "DATABASE_URL",
      ),
    )
    .addOption(portOption("gateway", "the gateway"))
    .addOption(portOption("metrics", "metrics, and of the protocol chain's gRPC"))
    .addOption(portOption("facilitator", "the facilitator"))
    .addOption(portOption("evm", "the local EVM chain"))
    .addOption(portOption("chainRpc", "the protocol chain's RPC"))
    .addOption(portOption("chainRest", "the protocol chain's REST"))
    .addOption(portOption("chainMetrics", "the protocol chain's metrics"))
    .addOption(portOption("supplier1", "the first supplier's relay server"))
    .addOption(portOption("supplier2", "the second supplier's relay server"))
    .addOption(portOption("supplier3", "the third supplier's relay server"))
    .addOption(portOption("supplierMetrics", "the suppliers' metrics and status"))
    .addOption(
      new Option(
        "--profile <name>",
        "sessions of the relay protocol's chain: fast (20 blocks of a second) or slow (60, for gateways that look every 15 seconds); fast for a new state folder",
      ).choices(["fast", "slow"]),
    )
    .option("--public", "serve other networks by the public end points that viem lists, where there is internet")
    .addOption(portOption("tools", "the local services that are no chain"))
    .addOption(portOption("db", "the management data API"))
    .addOption(portOption("search", "web search"))
    .addOption(portOption("postgres", "PostgreSQL"))
    .addHelpText(
      "after",
      "\nStays in the foreground; Ctrl-C stops everything in order. While it runs, <state folder>/up.json has the addresses.",
    )
    .action(async (flags: UpFlags) => {
      const { up } = await import("./action.ts");
      await up(flags);
    });
}
