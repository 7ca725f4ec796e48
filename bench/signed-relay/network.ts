import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, isRecord } from "@turnpike/base";
import { freePort } from "@turnpike/localnet";
import { chainParty } from "@turnpike/testkit/chain";
import { type Child, type Program, startChild, startProgram } from "../lib/child.ts";
import type { ObserverOperations } from "../lib/observer.ts";
import type { BareProxyOperations } from "../relay/children/bare-proxy.ts";
import { UPSTREAM_CONNECTIONS } from "../relay/sides.ts";
import type { ChainNodeOperations } from "./children/chain-node.ts";

/** Options of {@link startNetwork}. */
export interface NetworkOptions {
  readonly backendPort: number;
  /** `signingThreads` of the gateway and of the supplier; the configuration's default when undefined. */
  readonly gatewayThreads?: number | undefined;
  readonly supplierThreads?: number | undefined;
  /** Relays of a session that the chain wants mined; its default when undefined. */
  readonly targetNumRelays?: number | undefined;
  /** Name of the supplier's operator: one process of the machine holds its key at a time. */
  readonly operator?: string;
}

/** A gateway with one supplier of sessions, each as its command starts it, and the chain that they follow. */
export interface Network extends AsyncDisposable {
  readonly gateway: Program<ObserverOperations>;
  readonly supplier: Program<ObserverOperations>;
  readonly chain: Child<ChainNodeOperations>;
  readonly gatewayPort: number;
  /** Relays that the supplier counted, by what became of them; undefined fields are absent. */
  relays(): Promise<SupplierRelays>;
}

/** Relays of a supplier over all its sessions. */
export interface SupplierRelays {
  readonly served: number;
  readonly mined: number;
  readonly claimed: number;
  readonly settled: number;
  /** Why relays were lost, with how many; empty when none was. */
  readonly lost: Readonly<Record<string, unknown>>;
}

/** Blocks of half a second and sessions of five: in each measurement some end and are claimed. */
export const BLOCK_INTERVAL_MS = 500;
/** Blocks of a session. */
export const BLOCKS_PER_SESSION = 10;

const OPERATOR = "bench signed relay";
const COMMAND_FILE = join(import.meta.dirname, "..", "..", "apps", "turnpike", "bin", "turnpike.js");
const OBSERVER = join(import.meta.dirname, "..", "lib", "observer.ts");
/** They count everything, and refuse nothing. */
const FAR = { requests: 1_000_000_000 };

async function writeKey(file: string, name: string): Promise<void> {
  const privateKey = Buffer.from(chainParty(name).privateKey).toString("hex");
  await writeFile(file, JSON.stringify({ privateKey }), { mode: 0o600 });
}

const threadsOf = (threads: number | undefined) => (threads === undefined ? {} : { signingThreads: threads });

/** Starts a {@link Network} whose gateway has its first session. */
export async function startNetwork(options: NetworkOptions): Promise<Network> {
  const { operator = OPERATOR } = options;
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-bench-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const [supplierPort, metricsPort] = [await freePort(), await freePort()];
  const chain = stack.use(
    await startChild<ChainNodeOperations>(join(import.meta.dirname, "children", "chain-node.ts")),
  );
  const { rpcUrl } = await chain.ask("start", {
    blockIntervalMs: BLOCK_INTERVAL_MS,
    blocksPerSession: BLOCKS_PER_SESSION,
    operator,
    supplierUrl: `http://127.0.0.1:${supplierPort}`,
    targetNumRelays: options.targetNumRelays,
  });
  const [operatorKeyFile, gatewayKeyFile] = [join(folder, "operator.json"), join(folder, "gateway.json")];
  await writeKey(operatorKeyFile, operator);
  await writeKey(gatewayKeyFile, "gateway");
  const run = async (command: readonly string[], config: object): Promise<Program<ObserverOperations>> => {
    const file = join(folder, `${command[0]}.yaml`);
    // JSON is YAML.
    await writeFile(file, JSON.stringify(config));
    const args = [...command, "--json", "-c", file];
    return stack.use(await startProgram<ObserverOperations>(COMMAND_FILE, { args, observer: OBSERVER, cwd: folder }));
  };
  const url = `http://127.0.0.1:${options.backendPort}`;
  const supplier = await run(["supplier", "start"], {
    log: { level: "error" },
    supplier: {
      nodeUrl: rpcUrl,
      stateFolder: join(folder, "relays"),
      keys: [{ operatorKeyFile, port: supplierPort }],
      services: { eth: { backends: { json_rpc: { url } } } },
      metrics: { port: metricsPort },
      ...threadsOf(options.supplierThreads),
    },
  });
  const gateway = await run(["gateway"], {
    log: { level: "error" },
    gateway: { port: 0, metrics: { port: 0 } },
    payment: { mode: "none" },
    limits: { perClient: FAR, perEndpoint: FAR },
    protocol: { nodeUrl: rpcUrl, gatewayKeyFile, allowPrivateSuppliers: true, ...threadsOf(options.gatewayThreads) },
  });
  const ready: unknown = JSON.parse(gateway.line);
  if (!isRecord(ready) || typeof ready.gateway !== "string") {
    throw new AppError("INTERNAL", { message: `The gateway is not ready: ${gateway.line}` });
  }
  const owned = stack.move();
  return {
    gateway,
    supplier,
    chain,
    gatewayPort: Number(new URL(ready.gateway).port),
    async relays() {
      const answer = await fetch(`http://127.0.0.1:${metricsPort}/status`);
      return relaysOf(await answer.json());
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function relaysOf(status: unknown): SupplierRelays {
  const operators = isRecord(status) && Array.isArray(status.operators) ? status.operators : [];
  const [operator] = operators as readonly unknown[];
  const all = isRecord(operator) && isRecord(operator.all) ? operator.all : {};
  const relays = isRecord(all.relays) ? all.relays : {};
  const of = (name: string): number => Number(relays[name] ?? 0);
  return {
    served: of("served"),
    mined: of("mined"),
    claimed: of("claimed"),
    settled: of("settled"),
    lost: isRecord(all.lost) ? all.lost : {},
  };
}

/** Two bare proxies one behind the other: what the same way costs with nothing on it. */
export interface BarePair extends AsyncDisposable {
  readonly front: Child<BareProxyOperations>;
  readonly back: Child<BareProxyOperations>;
  readonly port: number;
}

/** Starts a {@link BarePair} before a back-end. */
export async function startBarePair(backendPort: number): Promise<BarePair> {
  await using stack = new AsyncDisposableStack();
  const file = join(import.meta.dirname, "..", "relay", "children", "bare-proxy.ts");
  const back = stack.use(await startChild<BareProxyOperations>(file));
  const front = stack.use(await startChild<BareProxyOperations>(file));
  const behind = await back.ask("start", { upstreamPort: backendPort, connections: UPSTREAM_CONNECTIONS });
  const { port } = await front.ask("start", { upstreamPort: behind.port, connections: UPSTREAM_CONNECTIONS });
  const owned = stack.move();
  return { front, back, port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
