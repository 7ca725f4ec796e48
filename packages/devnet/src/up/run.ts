import { rm, writeFile } from "node:fs/promises";
import { flushCompileCache } from "node:module";
import { AppError, silentLog, systemClock } from "@turnpike/base";
import { CHAIN_PROFILES, type ProfileName } from "@turnpike/chain";
import { blockedAddress, findAnvil, findPostgres, freePort, isPortFree, type LocalPostgres } from "@turnpike/localnet";
import { builtinChainServices } from "../chain/services.ts";
import { portFlag, type UpPorts } from "../ports.ts";
import type { UpFile } from "../up-file.ts";
import { supplierUrls } from "./addresses.ts";
import { configText, localConfig } from "./configs.ts";
import { LOCAL_SERVICES } from "./economy.ts";
import { localKeys } from "./keys.ts";
import { withMetrics } from "./metrics-port.ts";
import { anvilPart, childPart, evmGuardPart, postgresPart, toolsPart } from "./parts.ts";
import { localPortalSecrets, portalTokens } from "./portal.ts";
import { chainSetupPart, prepareChain, splitterPart, stakedFacts } from "./protocol-chain.ts";
import { publicSuppliers } from "./public-endpoints.ts";
import { localSources } from "./search-sources.ts";
import { clearFolder, endLeftovers, lockFolder, markStarted, openFolder } from "./state-folder.ts";
import { type StateLayout, stateLayout } from "./state-layout.ts";
import { type Part, type PartEvent, Supervisor } from "./supervisor.ts";
import { untilServed, upFileOf, writeUpFile } from "./write-up-file.ts";

export interface UpOptions {
  readonly stateFolder: string;
  /** Removes the state first. */
  readonly fresh: boolean;
  readonly ports: UpPorts;
  /** How long the sessions of the relay protocol's chain are; undefined: that of the state, `fast` in a new one. */
  readonly profile: ProfileName | undefined;
  /** True: networks that do not run here are served by public end points. */
  readonly isPublic: boolean;
  /** The ledger's database; without one PostgreSQL is started in the state folder. */
  readonly databaseUrl: string | undefined;
  /** The turnpike command: program and first arguments. Most parts are children that run it. */
  readonly command: readonly [string, ...string[]];
}

/** What {@link runUp} reports. */
export interface UpProgress {
  part(event: PartEvent): void;
  /** Everything answers; `upFile` is where that is written. */
  ready(up: UpFile, upFile: string): void;
  /** Something that the user must know, also in a pipe. */
  notice(text: string): void;
}

export interface UpModules {
  readonly progress: UpProgress;
  /** Fires when everything shall stop in good order. */
  readonly stop: AbortSignal;
  /** Fires when everything shall stop at once. */
  readonly force: AbortSignal;
}

/** How long `ready` waits for the last of the services. */
const SERVED_WITHIN_MS = 15_000;

const PORT_NAMES: Readonly<Record<keyof UpPorts, string>> = {
  gateway: "the gateway",
  metrics: "metrics",
  facilitator: "the facilitator",
  evm: "the local EVM chain",
  chainRpc: "the protocol chain's RPC",
  chainRest: "the protocol chain's REST",
  chainMetrics: "the protocol chain's metrics",
  supplier1: "the first supplier",
  supplier2: "the second supplier",
  supplier3: "the third supplier",
  supplierMetrics: "the suppliers' metrics",
  tools: "the local services",
  db: "the management data API",
  search: "web search",
  postgres: "PostgreSQL",
};

/** Throws PORT_IN_USE that names every port that is taken. */
async function checkPorts(ports: UpPorts): Promise<void> {
  const taken: string[] = [];
  for (const [name, port] of Object.entries(ports) as [keyof UpPorts, number][]) {
    if (port !== 0 && !(await isPortFree(port))) taken.push(`${port} (${PORT_NAMES[name]}: --${portFlag(name)})`);
  }
  if (taken.length === 0) return;
  throw new AppError("PORT_IN_USE", {
    message:
      `In use by another program: port ${taken.join(", port ")}. ` +
      "End that program (is another `turnpike up` running?), or choose other ports with the options named. Nothing was started.",
  });
}

/** The children that read the configuration, in stages. */
function children({ command }: UpOptions, layout: StateLayout, ports: UpPorts): Part[][] {
  const child = (name: string, args: readonly string[], readyUrl?: string): Part =>
    childPart({
      name,
      command: [...command, ...args, "--config", layout.configFile("local")],
      logFile: layout.logFile(name),
      pidFile: layout.pidFile(name),
      ...(readyUrl === undefined ? {} : { readyUrl }),
    });
  return [
    [
      child("migrate", ["db", "migrate"]),
      child("search", ["search"], `http://127.0.0.1:${ports.search}/healthz`),
      // Its second block is there.
      child("chain", ["chain", "start"], `http://127.0.0.1:${ports.chainRpc}/block?height=2`),
    ],
    [
      chainSetupPart(layout, ports),
      child("index", ["search", "index"]),
      child("facilitator", ["facilitator"], `http://127.0.0.1:${ports.facilitator}/ready`),
      child("db", ["db"], `http://127.0.0.1:${ports.db}/ready`),
      child("supplier", ["supplier", "start"], `http://127.0.0.1:${ports.supplierMetrics}/ready`),
      child("gateway", ["gateway"], `http://127.0.0.1:${ports.gateway}/ready`),
    ],
  ];
}

/**
 * Runs everything on this machine until `stop` fires.
 * @throws AppError ALREADY_RUNNING, PORT_IN_USE, DATA_FOLDER or DEPENDENCY_MISSING before anything is started; else that of the part
 * that did not start, after the others have been stopped.
 */
export async function runUp(options: UpOptions, modules: UpModules): Promise<void> {
  const { databaseUrl } = options;
  const { progress, stop, force } = modules;
  const layout = stateLayout(options.stateFolder);
  await using _lock = await lockFolder(layout);
  await rm(layout.upFile, { force: true });
  const ended = await endLeftovers(layout);
  if (ended.length > 0) progress.notice(`Ended what an earlier run left behind: ${ended.join(", ")}.`);
  if (options.fresh) await clearFolder(layout);
  await findAnvil();
  if (databaseUrl === undefined) findPostgres();
  const ports = await withMetrics(options.ports, progress);
  await checkPorts(ports);
  const wish = { profile: options.profile, supplierUrls: supplierUrls(ports) };
  const stamp = await openFolder(layout, wish, databaseUrl === undefined);
  const keys = await localKeys(layout.keysFile);
  const secrets = await localPortalSecrets(layout.portalFile);

  const { profile } = stamp;
  const chainFacts = await prepareChain(layout, { services: builtinChainServices(), ports, profile });
  const inner = { metrics: await freePort(), grpc: await freePort() };
  const chain = { home: layout.chainFolder, blockIntervalMs: CHAIN_PROFILES[profile].blockIntervalMs, inner };
  const economy = { keysFolder: layout.chainKeysFolder, supplierFolder: layout.supplierFolder };

  const search = { file: layout.searchFile, sources: localSources() };
  const suppliers = options.isPublic ? await publicSuppliers() : {};
  const writeConfig = async (ledgerUrl: string, ledgerSchema: string, portalUrl: string): Promise<void> => {
    const portal = { ownerUrl: portalUrl, secrets };
    const text = configText(
      localConfig({ ports, keys, ledgerUrl, ledgerSchema, portal, search, chain, economy, suppliers }),
    );
    await writeFile(layout.configFile("local"), text, { mode: 0o600 });
  };
  // One for the whole run: the guard must find the chain again when it was started anew.
  const evmAddress = await blockedAddress();
  const first: Part[] = [
    anvilPart(layout, evmAddress, keys, { log: silentLog }),
    evmGuardPart(ports, evmAddress),
    toolsPart(ports.tools),
    splitterPart(ports, inner, { log: silentLog }),
  ];
  if (databaseUrl === undefined) {
    const onStart = async (server: LocalPostgres): Promise<void> => {
      await writeConfig(await server.createDatabase("turnpike"), "turnpike", await server.createDatabase("portal"));
    };
    first.unshift(postgresPart(layout, ports.postgres, onStart));
  } else {
    // each state folder has its own schema: a new chain must not meet an old ledger
    await writeConfig(databaseUrl, `turnpike_${stamp.id}`, databaseUrl);
  }

  await using supervisor = new Supervisor(
    { stages: [first, ...children(options, layout, ports)] },
    { clock: systemClock, onEvent: (event) => progress.part(event) },
  );
  const stopped = new Promise<void>((resolve) => {
    const end = (): void => {
      void supervisor.stop().then(resolve);
    };
    if (stop.aborted) end();
    else stop.addEventListener("abort", end, { once: true });
  });
  force.addEventListener("abort", () => supervisor.force(), { once: true });
  try {
    await supervisor.start();
    await untilServed(`http://127.0.0.1:${ports.gateway}`, LOCAL_SERVICES, {
      signal: stop,
      timeoutMs: SERVED_WITHIN_MS,
    });
    const dbTokens = await portalTokens(secrets, { clock: systemClock });
    const staked = await stakedFacts(layout, ports);
    const up = await upFileOf(ports, keys, { dbTokens, ...chainFacts, ...staked });
    await markStarted(layout, stamp);
    if (stop.aborted) return await stopped;
    await writeUpFile(layout.upFile, up);
    progress.ready(up, layout.upFile);
    flushCompileCache();
    await stopped;
  } catch (error) {
    if (!stop.aborted) throw error;
    await stopped;
  } finally {
    await rm(layout.upFile, { force: true });
  }
}
