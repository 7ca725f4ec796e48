import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Log, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { createGateway, type GatewayModules, type GatewayOptions } from "@turnpike/gateway";
import {
  createRelayEngine,
  type RelayEngine,
  type RelayEngineOptions,
  type ServiceSuppliers,
  type StaticEndpoint,
} from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import { isProbe, probeResult, type VirtualClock, virtualClock } from "@turnpike/testkit";
import { gatewayOptions, relayOptions } from "../../packages/gateway/test/options.ts";
import { option, standInPayment } from "../../packages/gateway/test/stand-ins.ts";

/** A gateway with its free relay, between a test's clients and its suppliers. */
export interface RelayRig extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly relay: RelayEngine;
  /** Of the gateway and the relay: their time-outs, hedges and ages wait for a test that moves it. */
  readonly clock: VirtualClock;
  metrics(): Promise<string>;
}

/** What a test bends of {@link startRelay}. */
export interface RelayBend {
  readonly gateway?: Partial<GatewayOptions>;
  readonly modules?: Partial<GatewayModules>;
  readonly relay?: Partial<RelayEngineOptions>;
  /** Chain id of `eth`. */
  readonly chainId?: number;
  readonly timeoutMs?: number;
  readonly maxAttempts?: number;
  readonly random?: () => number;
  /** For a node that moves the clock of what asks it. */
  readonly clock?: VirtualClock;
  /** True: the suppliers were not probed yet. */
  readonly isUnprobed?: boolean;
  /** The relay's log. */
  readonly log?: Log;
  /** Of every service. */
  readonly set?: Partial<ServiceSuppliers>;
}

/** Suppliers of JSON-RPC, an operator each. */
export function rpcAt(...urls: readonly string[]): readonly StaticEndpoint[] {
  return urls.map((url, at) => ({ operator: `op${at}`, urls: { json_rpc: url } }));
}

/** Starts a gateway whose suppliers were all probed, unless told otherwise. */
export async function startRelay(
  suppliers: Readonly<Record<string, readonly StaticEndpoint[]>>,
  bend: RelayBend = {},
): Promise<RelayRig> {
  const metrics = new PrometheusMetrics({ processMetrics: false });
  const catalogue = createCatalogue(
    bend.chainId === undefined ? {} : { overrides: { eth: { evmChainId: bend.chainId } } },
  );
  const { timeoutMs = 1_000, maxAttempts = 3, clock = virtualClock() } = bend;
  const sets = Object.entries(suppliers).map(([id, endpoints]) => [
    id,
    { endpoints, timeoutMs, maxAttempts, ...bend.set },
  ]);
  const relay = createRelayEngine(
    {
      ...relayOptions,
      suppliers: Object.fromEntries(sets),
      probeIntervalMs: 60_000,
      connectTimeoutMs: 60_000,
      ...bend.relay,
    },
    {
      catalogue: catalogue.services,
      clock,
      log: bend.log ?? silentLog,
      metrics,
      random: bend.random ?? Math.random,
    },
  );
  if (bend.isUnprobed !== true) await relay.start();
  const gateway = createGateway(
    { ...gatewayOptions, upstreamTimeoutMs: 3_000, shutdownTimeoutMs: 200, ...bend.gateway },
    {
      catalogue,
      payment: standInPayment(),
      relay,
      options: [option],
      readiness: [],
      clock,
      log: silentLog,
      metrics,
      random: { bytes: (length) => new Uint8Array(randomBytes(length)) },
      ...bend.modules,
    },
  );
  const { gatewayPort } = await gateway.listen();
  return {
    url: `http://127.0.0.1:${gatewayPort}`,
    port: gatewayPort,
    relay,
    clock,
    metrics: () => metrics.render(),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await relay[Symbol.asyncDispose]();
    },
  };
}

/** An answer, read as bytes would be. */
export interface RelayAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

/** How a request reaches the relay. */
export interface Way {
  readonly host?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends one request with a Host of the test's choice. */
export async function send(rig: RelayRig, body: string | Buffer, way: Way = {}): Promise<RelayAnswer> {
  const { host = "eth.localhost", path = "/", method = "POST", headers = {} } = way;
  const req = request({ host: "127.0.0.1", port: rig.port, path, method, headers: { host, ...headers } });
  req.end(body);
  const [res] = (await once(req, "response")) as [IncomingMessage];
  return { status: res.statusCode ?? 0, headers: res.headers, text: await text(res) };
}

/** One call as a node sees it; `id` is raw text, undefined in a notification. */
export interface NodeCall {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly id: string | undefined;
}

/** A stand-in for an EVM node: a real HTTP server that takes batches. */
export interface TestNode extends AsyncDisposable {
  readonly url: string;
  /** Bodies that are no probes. */
  readonly bodies: string[];
  /** Calls that are no probes. */
  readonly calls: NodeCall[];
}

/** What a {@link TestNode} does. */
export interface NodeBehaviour {
  readonly chainIdHex?: string;
  readonly heightHex?: string;
  /** Its newest final block; left out: its newest. */
  readonly finalHex?: string;
  /** A hex digit that its blocks' hashes begin with. */
  readonly fork?: string;
  /** Text of a `result`; or of the members that follow the id, when it starts with `,`. Undefined: no answer. */
  answer?(call: NodeCall): string | undefined;
  /** Awaited before each answer to a probe. */
  beforeProbe?(): Promise<void> | undefined;
  /** Takes the whole response over, for what is no probe. */
  respond?(res: ServerResponse, body: string, calls: readonly NodeCall[]): void;
}

const ID = /"id":\s*("(?:[^"\\]|\\.)*"|[^,}\s]+)/;

/** Starts a {@link TestNode}. */
export async function startNode(behaviour: NodeBehaviour = {}): Promise<TestNode> {
  const { chainIdHex = "0x1" } = behaviour;
  const heightNow = (): string => behaviour.heightHex ?? "0x64";
  const bodies: string[] = [];
  const calls: NodeCall[] = [];
  const answerOf = (call: NodeCall): string | undefined => {
    if (call.method === "eth_chainId" && behaviour.answer === undefined) return `"${chainIdHex}"`;
    return behaviour.answer === undefined ? `"${heightNow()}"` : behaviour.answer(call);
  };
  const show = (call: NodeCall): string | undefined => {
    if (call.id === undefined) return undefined;
    const answer = answerOf(call);
    if (answer === undefined) return undefined;
    const rest = answer.startsWith(",") ? answer : `,"result":${answer}`;
    return `{"jsonrpc":"2.0","id":${call.id}${rest}}`;
  };
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const body = await text(req);
    res.setHeader("content-type", "application/json");
    const value = (body === "" ? {} : JSON.parse(body)) as unknown;
    const list = (Array.isArray(value) ? value : [value]) as { method: string; params?: unknown[]; id?: unknown }[];
    const seen = list.map((one): NodeCall => {
      const raw = Array.isArray(value) ? JSON.stringify(one.id) : ID.exec(body)?.[1];
      return { method: one.method, params: one.params ?? [], id: one.id === undefined ? undefined : raw };
    });
    const [first] = seen;
    if (!Array.isArray(value) && first?.id === "1" && body.startsWith('{"jsonrpc":"2.0","id":1,"method":"eth_')) {
      // The relay's own probes have this form; tests write theirs another way.
      if (isProbe({ method: first.method, params: first.params })) {
        await behaviour.beforeProbe?.();
        const probed = first.params[0] === "finalized" ? (behaviour.finalHex ?? heightNow()) : heightNow();
        res.end(`{"jsonrpc":"2.0","id":1,${probeResult(first, chainIdHex, probed, behaviour.fork)}}`);
        return;
      }
    }
    bodies.push(body);
    calls.push(...seen);
    if (behaviour.respond !== undefined) behaviour.respond(res, body, seen);
    else {
      const shown = seen.map(show).filter((one) => one !== undefined);
      res.end(Array.isArray(value) ? `[${shown.join(",")}]` : shown[0]);
    }
  };
  const server = createServer((req, res) => void handle(req, res));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    bodies,
    calls,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** A call in a form that no probe has. */
export function rpc(id: string | undefined, method: string, params = "[]"): string {
  const idPart = id === undefined ? "" : `,"id":${id}`;
  return `{"jsonrpc":"2.0","method":"${method}","params":${params}${idPart}}`;
}
