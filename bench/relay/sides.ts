import { join } from "node:path";
import { type ProcessMemory, startChild } from "../lib/child.ts";
import { processRssBytes } from "../lib/process.ts";
import type { BareProxyOperations } from "./children/bare-proxy.ts";
import type { OurRelayOperations } from "./children/our-relay.ts";

const CHILDREN = join(import.meta.dirname, "children");

/** A proxy under load. */
export interface Side extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  /** What requests to it say in `Host`. */
  readonly host: string;
  readonly path: string;
  /** CPU time of all its threads, in microseconds. */
  cpuMicros(): Promise<number>;
  /** Resident bytes; NaN where they cannot be read. */
  rssBytes(): number;
}

/** A side of which more can be asked, as it is a process of Node. */
export interface NodeSide extends Side {
  memory(collect: boolean): Promise<ProcessMemory>;
}

/** Connections of a proxy to the back-end. */
export const UPSTREAM_CONNECTIONS = 64;

/** The least that a proxy of Node is: what all others are held against. */
export async function startBare(upstreamPort: number): Promise<NodeSide> {
  await using started = new AsyncDisposableStack();
  const child = started.use(await startChild<BareProxyOperations>(join(CHILDREN, "bare-proxy.ts")));
  const { port } = await child.ask("start", { upstreamPort, connections: UPSTREAM_CONNECTIONS });
  started.move();
  return {
    name: "bare",
    port,
    host: "127.0.0.1",
    path: "/",
    cpuMicros: () => child.cpuMicros(),
    rssBytes: () => processRssBytes(child.pid),
    memory: (collect) => child.memory(collect),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

/** Our gateway with one supplier, wired by the command's own code with the configuration's defaults. */
export async function startOurs(upstreamPort: number): Promise<NodeSide> {
  await using started = new AsyncDisposableStack();
  const child = started.use(await startChild<OurRelayOperations>(join(CHILDREN, "our-relay.ts")));
  const urls = { json_rpc: `http://127.0.0.1:${upstreamPort}`, websocket: `ws://127.0.0.1:${upstreamPort}` };
  const { port } = await child.ask("start", { suppliers: { eth: { endpoints: [{ operator: "one", urls }] } } });
  started.move();
  return {
    name: "ours",
    port,
    host: "eth.localhost",
    path: "/",
    cpuMicros: () => child.cpuMicros(),
    rssBytes: () => processRssBytes(child.pid),
    memory: (collect) => child.memory(collect),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
