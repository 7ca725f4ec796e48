import { resolve } from "node:path";
import { AppError } from "@turnpike/base";
import type { ProfileName } from "@turnpike/chain";
import { Command, InvalidArgumentError, Option } from "commander";
import { DEFAULT_PORTS, portFlag, type UpPorts } from "../up/layout.ts";
import { createProgress } from "../up/progress.ts";

/** Two signals within this time are one wish: a terminal's Ctrl-C and npm may both deliver it. */
const SAME_WISH_MS = 1_000;

interface Flags {
  readonly fresh?: boolean;
  readonly json?: boolean;
  readonly state: string;
  readonly databaseUrl?: string;
  readonly gatewayPort: number;
  readonly metricsPort: number;
  readonly facilitatorPort: number;
  readonly evmPort: number;
  readonly chainRpcPort: number;
  readonly chainRestPort: number;
  readonly chainMetricsPort: number;
  readonly supplier1Port: number;
  readonly supplier2Port: number;
  readonly supplier3Port: number;
  readonly supplierMetricsPort: number;
  readonly profile?: ProfileName;
  readonly public?: boolean;
  readonly toolsPort: number;
  readonly dbPort: number;
  readonly searchPort: number;
  readonly postgresPort: number;
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new InvalidArgumentError("It must be a port, 1 to 65535.");
  return port;
}

function portOption(name: keyof UpPorts, what: string): Option {
  const option = new Option(`--${portFlag(name)} <port>`, `port of ${what}`).argParser(portNumber);
  return option.default(DEFAULT_PORTS[name], DEFAULT_PORTS[name] === 0 ? "any free one" : undefined);
}

/** Signals as one wish to stop, and a second one to stop at once. */
function listenForSignals(notice: (text: string) => void): {
  readonly stop: AbortSignal;
  readonly force: AbortSignal;
  readonly release: () => void;
} {
  const stop = new AbortController();
  const force = new AbortController();
  let firstMs = 0;
  const onSignal = (): void => {
    const nowMs = performance.now();
    if (!stop.signal.aborted) {
      firstMs = nowMs;
      notice("Stopping. Ctrl-C once more ends everything by force.");
      stop.abort();
    } else if (nowMs - firstMs > SAME_WISH_MS) {
      force.abort();
    }
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return {
    stop: stop.signal,
    force: force.signal,
    release: () => {
      for (const signal of signals) process.removeListener(signal, onSignal);
    },
  };
}

async function up(flags: Flags): Promise<void> {
  const progress = createProgress({ json: flags.json === true }, { output: process.stdout, errors: process.stderr });
  // a closed terminal must not end the supervisor before its children
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const isTerminal = process.stdout.isTTY && flags.json !== true;
  const { stop, force, release } = listenForSignals((text) => {
    if (isTerminal) progress.step(text);
  });
  const ports: UpPorts = {
    gateway: flags.gatewayPort,
    metrics: flags.metricsPort,
    facilitator: flags.facilitatorPort,
    evm: flags.evmPort,
    chainRpc: flags.chainRpcPort,
    chainRest: flags.chainRestPort,
    chainMetrics: flags.chainMetricsPort,
    supplier1: flags.supplier1Port,
    supplier2: flags.supplier2Port,
    supplier3: flags.supplier3Port,
    supplierMetrics: flags.supplierMetricsPort,
    tools: flags.toolsPort,
    db: flags.dbPort,
    search: flags.searchPort,
    postgres: flags.postgresPort,
  };
  const fixed = Object.values(ports).filter((port) => port !== 0);
  if (ports.gateway === 0 || new Set(fixed).size !== fixed.length || fixed.length < Object.keys(ports).length - 1) {
    throw new AppError("USAGE", { message: "Every part needs a port of its own; only --postgres-port may be 0." });
  }
  // loaded when it is needed: the other commands start without it
  const { runUp } = await import("../up/run.ts");
  try {
    await runUp(
      {
        stateFolder: resolve(flags.state),
        fresh: flags.fresh === true,
        ports,
        profile: flags.profile,
        isPublic: flags.public === true,
        databaseUrl: flags.databaseUrl === undefined || flags.databaseUrl === "" ? undefined : flags.databaseUrl,
      },
      { progress, stop, force },
    );
  } finally {
    release();
  }
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
    .action(up);
}
