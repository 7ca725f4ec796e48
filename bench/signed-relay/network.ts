import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
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
  /**
   * Port of the back-end of each supplier, by the name of its operator. One process of the machine holds an operator's
   * key at a time: networks that run side by side have operators of other names.
   */
  readonly backendPorts: Readonly<Record<string, number>>;
  /** `signingThreads` of the gateway and of the supplier; the configuration's default when undefined. */
  readonly gatewayThreads?: number | undefined;
  readonly supplierThreads?: number | undefined;
  /** Relays of a session that the chain wants mined; its default when undefined. */
  readonly targetNumRelays?: number | undefined;
  /** Further keys of the gateway's configuration. */
  readonly gatewayConfig?: Readonly<Record<string, unknown>>;
}

/** A gateway with suppliers of sessions, each as its command starts it, and the chain that they follow. */
export interface Network extends AsyncDisposable {
  readonly gateway: Program<ObserverOperations>;
  readonly suppliers: readonly [Program<ObserverOperations>, ...Program<ObserverOperations>[]];
  readonly chain: Child<ChainNodeOperations>;
  readonly gatewayPort: number;
  /** Relays that all suppliers counted, by what became of them. */
  relays(): Promise<SupplierRelays>;
}

/** Relays of suppliers over all their sessions. */
export interface SupplierRelays {
  readonly served: number;
  /** Not mined: the same bytes again. */
  readonly repeated: number;
  readonly mined: number;
  readonly claimed: number;
  readonly settled: number;
  /** Mined relays that were lost, by why; empty when none was. */
  readonly lost: Readonly<Record<string, number>>;
}

/** Blocks of half a second and sessions of five: in each measurement some end and are claimed. */
export const BLOCK_INTERVAL_MS = 500;
/** Blocks of a session. */
export const BLOCKS_PER_SESSION = 10;

/** Operator of a network that has one supplier. */
export const OPERATOR = "bench signed relay";
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
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-bench-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const operators = await Promise.all(
    Object.entries(options.backendPorts).map(async ([name, backendPort], index) => ({
      name,
      backendPort,
      file: `operator-${index}.json`,
      stateFolder: join(folder, `relays-${index}`),
      port: await freePort(),
      metricsPort: await freePort(),
    })),
  );
  const chain = stack.use(
    await startChild<ChainNodeOperations>(join(import.meta.dirname, "children", "chain-node.ts")),
  );
  const { rpcUrl } = await chain.ask("start", {
    blockIntervalMs: BLOCK_INTERVAL_MS,
    blocksPerSession: BLOCKS_PER_SESSION,
    supplierUrls: Object.fromEntries(operators.map(({ name, port }) => [name, `http://127.0.0.1:${port}`])),
    targetNumRelays: options.targetNumRelays,
  });
  const run = async (command: readonly string[], name: string, config: object) => {
    const file = join(folder, `${name}.yaml`);
    // JSON is YAML.
    await writeFile(file, JSON.stringify({ log: { level: "error" }, ...config }));
    const args = [...command, "--json", "-c", file];
    return stack.use(await startProgram<ObserverOperations>(COMMAND_FILE, { args, observer: OBSERVER, cwd: folder }));
  };
  const suppliers: Program<ObserverOperations>[] = [];
  for (const { name, backendPort, file, stateFolder, port, metricsPort } of operators) {
    const operatorKeyFile = join(folder, file);
    await writeKey(operatorKeyFile, name);
    const supplier = {
      nodeUrl: rpcUrl,
      stateFolder,
      keys: [{ operatorKeyFile, port }],
      services: { eth: { backends: { json_rpc: { url: `http://127.0.0.1:${backendPort}` } } } },
      metrics: { port: metricsPort },
      ...threadsOf(options.supplierThreads),
    };
    suppliers.push(await run(["supplier", "start"], `supplier-${suppliers.length}`, { supplier }));
  }
  const [first, ...others] = suppliers;
  if (first === undefined) throw new AppError("INTERNAL", { message: "A network has at least one supplier." });
  const gatewayKeyFile = join(folder, "gateway.json");
  await writeKey(gatewayKeyFile, "gateway");
  const gateway = await run(["gateway"], "gateway", {
    gateway: { port: 0, metrics: { port: 0 } },
    payment: { mode: "none" },
    limits: { perClient: FAR, perEndpoint: FAR },
    protocol: {
      nodeUrl: rpcUrl,
      gatewayKeyFile,
      allowPrivateSuppliers: true,
      delegatedBeforeStatic: true,
      ...threadsOf(options.gatewayThreads),
    },
    ...options.gatewayConfig,
  });
  const ready: unknown = JSON.parse(gateway.line);
  if (!isRecord(ready) || typeof ready.gateway !== "string") {
    throw new AppError("INTERNAL", { message: `The gateway is not ready: ${gateway.line}` });
  }
  const owned = stack.move();
  return {
    gateway,
    suppliers: [first, ...others],
    chain,
    gatewayPort: Number(new URL(ready.gateway).port),
    async relays() {
      const statuses = operators.map(async ({ metricsPort }) => {
        const answer = await fetch(`http://127.0.0.1:${metricsPort}/status`);
        return (await answer.json()) as unknown;
      });
      return relaysOf(await Promise.all(statuses));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Sums what the `/status` of suppliers of one operator each says. */
function relaysOf(statuses: readonly unknown[]): SupplierRelays {
  const sums = { served: 0, repeated: 0, mined: 0, claimed: 0, settled: 0 };
  const lost: Record<string, number> = {};
  for (const status of statuses) {
    const operators = isRecord(status) && Array.isArray(status.operators) ? status.operators : [];
    const [operator] = operators as readonly unknown[];
    const all = isRecord(operator) && isRecord(operator.all) ? operator.all : {};
    const relays = isRecord(all.relays) ? all.relays : {};
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += Number(relays[name] ?? 0);
    for (const [reason, loss] of Object.entries(isRecord(all.lost) ? all.lost : {})) {
      const count = isRecord(loss) ? Number(loss.relays) : 0;
      // A session in which nothing was mined counts as lost, of no relays.
      if (count > 0) lost[reason] = (lost[reason] ?? 0) + count;
    }
  }
  return { ...sums, lost };
}

/** Longest time from the last relay of a session until its claim is settled. */
const SETTLED_MS = 120_000;

/** Waits until each relay that was mined is settled. Throws INTERNAL when one was lost, or when it takes too long. */
export async function untilSettled(network: Network): Promise<SupplierRelays> {
  const endMs = performance.now() + SETTLED_MS;
  for (;;) {
    const relays = await network.relays();
    if (relays.mined > 0 && relays.settled === relays.mined) return relays;
    if (performance.now() > endMs || Object.keys(relays.lost).length > 0) {
      throw new AppError("INTERNAL", { message: `Relays were not settled: ${JSON.stringify(relays)}` });
    }
    await pause(BLOCK_INTERVAL_MS);
  }
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
