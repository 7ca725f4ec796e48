import { resolve } from "node:path";
import { AppError } from "@turnpike/base";
import type { ProfileName } from "@turnpike/chain";
import type { UpPorts } from "@turnpike/devnet/ports";
import { OWN_COMMAND } from "../../cli/own-command.ts";
import { TERMINAL } from "../../cli/terminal.ts";
import { createProgress } from "./progress.ts";

/** Two signals within this time are one wish: a terminal's Ctrl-C and npm may both deliver it. */
const SAME_WISH_MS = 1_000;

export interface UpFlags {
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

/** Runs everything on this machine until a signal ends it. @throws AppError USAGE for ports that are not all different; those of {@link runUp} */
export async function up(flags: UpFlags): Promise<void> {
  const progress = createProgress({ json: flags.json === true }, TERMINAL);
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
  // Loaded after the ports are checked, while signals are listened to already: it takes a while.
  const { runUp } = await import("@turnpike/devnet/up");
  try {
    await runUp(
      {
        stateFolder: resolve(flags.state),
        fresh: flags.fresh === true,
        ports,
        profile: flags.profile,
        isPublic: flags.public === true,
        databaseUrl: flags.databaseUrl === undefined || flags.databaseUrl === "" ? undefined : flags.databaseUrl,
        command: OWN_COMMAND,
      },
      { progress, stop, force },
    );
  } finally {
    release();
  }
}
