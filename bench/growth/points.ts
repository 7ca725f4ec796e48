import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError, isRecord } from "@turnpike/base";
import { startChild, startProgram } from "../lib/child.ts";
import type { LoadRun } from "../lib/load.ts";
import type { ObserverOperations } from "../lib/observer.ts";
import { processCpuMicros, processPssBytes, processRssBytes, processTree } from "../lib/process.ts";
import type { OurRelayFacts, OurRelayOperations } from "../relay/children/our-relay.ts";
import { startBare } from "../relay/sides.ts";
import { requestOf, WORKLOADS } from "../relay/workloads.ts";

/** One size of what grows: a server of its own, and the load for it. */
export interface Point extends AsyncDisposable {
  /** Where it stands in a table. */
  readonly title: string;
  /** How many there are of what grows. */
  readonly size: number;
  readonly load: Omit<LoadRun, "durationMs">;
  /** CPU time of all its threads and processes, in microseconds. */
  cpuMicros(): Promise<number>;
  /** Bytes of it now; `liveBytes` are its objects and buffers without garbage, undefined where that cannot be asked. */
  memory(): Promise<{ readonly residentBytes: number; readonly liveBytes: number | undefined }>;
}

/** Requests under way at once, whatever grows. */
const AT_ONCE = 32;
const HOST = "eth.localhost";
const CHILDREN = join(import.meta.dirname, "..", "relay", "children");
const COMMAND_FILE = join(import.meta.dirname, "..", "..", "apps", "turnpike", "bin", "turnpike.js");
const OBSERVER = join(import.meta.dirname, "..", "lib", "observer.ts");
/** What the configuration allows at most. */
const MAX_ENDPOINTS = 64;
/** They count everything, and refuse nothing. */
const FAR = { requests: 1_000_000_000 };
const ID_DIGITS = 4;
/** Linux has all of 127.0.0.0/8: each back-end has an address of its own, as suppliers have. */
const HAS_ADDRESSES = process.platform === "linux";
/** One address has too few ports for all connections. */
const CLIENTS = Array.from({ length: 16 }, (_, at) => `127.0.0.${at + 2}`);

function backendUrl(port: number, at: number): string {
  const address = HAS_ADDRESSES ? `127.1.${at >> 8}.${at & 255}` : "127.0.0.1";
  return `http://${address}:${port}/${at}`;
}

function loadAt(port: number, host: string, connections: number): Omit<LoadRun, "durationMs"> {
  const [single] = WORKLOADS;
  if (single === undefined) throw new AppError("INTERNAL");
  const atOnce = Math.min(AT_ONCE, connections);
  const base = { port, connections, atOnce, status: 200, unwanted: '"error"' };
  return { ...base, ...requestOf(single, { host, path: "/" }) };
}

async function startGateway(
  facts: OurRelayFacts,
  { title, size }: Pick<Point, "title" | "size">,
  loadOf: (port: number) => Point["load"],
): Promise<Point> {
  await using started = new AsyncDisposableStack();
  const child = started.use(await startChild<OurRelayOperations>(join(CHILDREN, "our-relay.ts")));
  const { port } = await child.ask("start", facts);
  started.move();
  return {
    title,
    size,
    load: { ...loadOf(port), keep: `ours ${port}` },
    cpuMicros: () => child.cpuMicros(),
    async memory() {
      const { liveBytes } = await child.memory(true);
      return { residentBytes: processRssBytes(child.pid), liveBytes };
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

function endpointsOf(backendPort: number, count: number) {
  return Array.from({ length: count }, (_, at) => ({
    operator: `operator-${at}`,
    urls: { json_rpc: backendUrl(backendPort, at) },
  }));
}

/** A gateway with so many suppliers of one service. More than 64 pass by the configuration's check, which allows no more. */
export function startSuppliers(backendPort: number, size: number): Promise<Point> {
  const endpoints = endpointsOf(backendPort, size);
  const facts: OurRelayFacts = {
    suppliers: { eth: { endpoints: endpoints.slice(0, MAX_ENDPOINTS) } },
    moreEndpoints: { eth: endpoints.slice(MAX_ENDPOINTS) },
  };
  return startGateway(facts, { title: String(size), size }, (port) => loadAt(port, HOST, AT_ONCE));
}

const serviceId = (at: number): string => `s${at.toString(16).padStart(ID_DIGITS, "0")}`;

/** A gateway with so many services beside the built-in ones, of one supplier each; calls go to all of them in turn. */
export function startServices(backendPort: number, size: number): Promise<Point> {
  const ids = Array.from({ length: size }, (_, at) => serviceId(at));
  const service = { description: "of a bench", category: "blockchain", families: ["evm"], free: true, paid: false };
  const facts: OurRelayFacts = {
    suppliers: Object.fromEntries(
      ids.map((id, at) => [
        id,
        { endpoints: [{ operator: `operator-${at}`, urls: { json_rpc: backendUrl(backendPort, at) } }] },
      ]),
    ),
    overrides: { catalogue: { services: Object.fromEntries(ids.map((id) => [id, { ...service, name: id }])) } },
  };
  return startGateway(facts, { title: String(size), size }, (port) => {
    const load = loadAt(port, `${serviceId(0)}.localhost`, AT_ONCE);
    const at = Buffer.from(load.request).indexOf(`${serviceId(0)}.localhost`) + 1;
    return { ...load, spread: { at, digits: ID_DIGITS, count: size } };
  });
}

/** A gateway, or a bare proxy, with so many open connections, which send in turn. */
export async function startConnections(backendPort: number, size: number, isBare: boolean): Promise<Point> {
  const addresses = HAS_ADDRESSES ? CLIENTS : [];
  if (!isBare) {
    const facts: OurRelayFacts = { suppliers: { eth: { endpoints: endpointsOf(backendPort, 1) } } };
    const named = { title: String(size), size };
    return startGateway(facts, named, (port) => ({ ...loadAt(port, HOST, size), addresses }));
  }
  const bare = await startBare(backendPort);
  return {
    title: `${size}, bare node:http and undici`,
    size,
    load: { ...loadAt(bare.port, bare.host, size), addresses, keep: `bare ${bare.port}` },
    cpuMicros: () => bare.cpuMicros(),
    async memory() {
      const { liveBytes } = await bare.memory(true);
      return { residentBytes: bare.rssBytes(), liveBytes };
    },
    [Symbol.asyncDispose]: () => bare[Symbol.asyncDispose](),
  };
}

/** A gateway as its command starts it, in so many processes; above one a primary is beside them. Linux only. */
export async function startWorkers(backendPort: number, size: number): Promise<Point> {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-bench-"));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "gateway.yaml");
  // JSON is YAML.
  await writeFile(
    file,
    JSON.stringify({
      log: { level: "error" },
      gateway: { port: 0, workers: size, metrics: { port: 0 } },
      payment: { mode: "none" },
      limits: { perClient: FAR, perEndpoint: FAR },
      suppliers: { eth: { endpoints: endpointsOf(backendPort, 1) } },
    }),
  );
  const args = ["gateway", "--json", "-c", file];
  const program = started.use(
    await startProgram<ObserverOperations>(COMMAND_FILE, { args, observer: OBSERVER, cwd: folder }),
  );
  const ready: unknown = JSON.parse(program.line);
  if (!isRecord(ready) || typeof ready.gateway !== "string") {
    throw new AppError("INTERNAL", { message: `The gateway is not ready: ${program.line}` });
  }
  const port = Number(new URL(ready.gateway).port);
  const owned = started.move();
  const sum = (of: (pid: number) => number): number =>
    processTree(program.pid).reduce((total, pid) => total + of(pid), 0);
  return {
    title: String(size),
    size,
    load: { ...loadAt(port, HOST, AT_ONCE), keep: `workers ${port}` },
    cpuMicros: () => Promise.resolve(sum(processCpuMicros)),
    memory: () => Promise.resolve({ residentBytes: sum(processPssBytes), liveBytes: undefined }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
