import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type Clock,
  ConnectionGuard,
  connectionCounts,
  createGuardedServer,
  createHostCheck,
  errorRow,
  type HostCheckOptions,
  type HostFault,
  type Log,
  type Metrics,
  type WriteBufferBudget,
} from "@turnpike/base";
import type { AbciQuerier } from "@turnpike/chain";
import { type EmbeddedNode, EventLoopQueue } from "@turnpike/chain-node";
import type { FastListener } from "@turnpike/http1";
import { type WebSocket, WebSocketServer } from "ws";
import { isHttpVerb } from "../http-verbs.ts";
import { createWriteBuffer } from "../write-buffer.ts";
import { blockMethods } from "./block-methods.ts";
import { RPC_BOUNDS, type RpcBounds } from "./bounds.ts";
import { EventHub } from "./event-hub.ts";
import { RpcHttpHandler } from "./http-handler.ts";
import type { RpcMethods } from "./method.ts";
import { nodeMethods } from "./node-methods.ts";
import { createPlainRpcListener, plainHeldBytes } from "./plain-listener.ts";
import { socketMethods } from "./socket-methods.ts";
import { SocketSession } from "./socket-session.ts";
import { txMethods } from "./tx-methods.ts";

const CLOSE_GRACE_MS = 500;
const GOING_AWAY = 1001;

/** Bounds that are not given are {@link RPC_BOUNDS}. */
export interface RpcServerOptions extends Partial<RpcBounds>, HostCheckOptions {
  /** 0: any free one. */
  readonly port: number;
  /** Address of the peer-to-peer port that `status` shows; nothing listens there. `tcp://0.0.0.0:26656` by default. */
  readonly p2pAddress?: string;
}

export interface RpcServerModules {
  readonly node: EmbeddedNode;
  /** Answers `abci_query`: the application alone knows no blocks. */
  readonly queries: AbciQuerier;
  readonly log: Log;
  readonly clock: Clock;
  /** Shared by all servers of a node; without it the calls of this one alone are queued. */
  readonly queue?: EventLoopQueue;
  /** Shared by all servers of a node; without it the answers of this one alone are bounded together. */
  readonly writeBuffer?: WriteBufferBudget;
  readonly metrics?: Metrics;
}

/** CometBFT's RPC over a node. Its end closes all connections. */
export interface RpcServer extends AsyncDisposable {
  /** Such as `http://127.0.0.1:26657`. */
  readonly url: string;
}

/**
 * Serves CometBFT 0.38's RPC over an embedded node: JSON-RPC by POST at `/`, every method at an address of its own, events
 * at `/websocket`. Without CORS, which is CometBFT's default; unlike there, a page of another origin gets no WebSocket
 * either, and requests must be for a host of the options.
 * @throws Error when the address cannot be listened on.
 */
export async function startRpcServer(options: RpcServerOptions, modules: RpcServerModules): Promise<RpcServer> {
  const { host, port, allowedHosts, p2pAddress = "tcp://0.0.0.0:26656", ...given } = options;
  const { node, log, clock, queries, queue = new EventLoopQueue(), writeBuffer = createWriteBuffer() } = modules;
  const bounds: RpcBounds = { ...RPC_BOUNDS, ...given };
  const authority = (): string => {
    const name = host.includes(":") ? `[${host}]` : host;
    return `${name}:${(listener.net.address() as AddressInfo | null)?.port ?? port}`;
  };
  const hub = new EventHub(bounds, { node, writeBuffer });
  const rpcAddress = (): string => `tcp://${authority()}`;
  const methods: RpcMethods = {
    ...blockMethods(node, queue),
    ...txMethods(node, { hub, queue }),
    ...nodeMethods({ genesisChunkBytes: bounds.genesisChunkBytes, p2pAddress, rpcAddress }, { node, queries }),
    ...socketMethods(hub),
  };
  const ofServer = { ...bounds, maxBufferedBodyBytes: bounds.maxBufferedBodyBytes - plainHeldBytes(bounds) };
  const guard = new ConnectionGuard(bounds, connectionCounts("chain-rpc", modules.metrics));
  const handler = new RpcHttpHandler(ofServer, { methods, guard, log, clock, queue, writeBuffer });
  const hosts = createHostCheck({ host, allowedHosts });
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: bounds.maxBodyBytes,
    perMessageDeflate: false,
    clientTracking: true,
  });
  const server = createGuardedServer(
    guard,
    {
      maxHeaderSize: bounds.maxHeadBytes,
      requestTimeout: bounds.readTimeoutMs,
      headersTimeout: bounds.readTimeoutMs,
      keepAliveTimeout: bounds.readTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, bounds.readTimeoutMs),
      shouldUpgradeCallback: (req) =>
        req.url?.split("?")[0] === "/websocket" &&
        isWebSocket(req.headers.upgrade) &&
        hosts.fault(req.headers) === undefined,
    },
    (req, res) => {
      const foreign = hosts.fault(req.headers);
      if (foreign !== undefined) refuse(res, foreign);
      else if (isHttpVerb(req.method ?? "")) void handler.handle(req, res);
      else res.writeHead(405, { Allow: "GET, HEAD, POST", Connection: "close" }).end();
    },
  );
  server.on("upgrade", (req, socket, head) => {
    const { remoteAddress = "", remotePort = 0 } = req.socket;
    const caller = { client: `${remoteAddress}:${remotePort}`, clientKey: guard.clientOf(req.socket) };
    sockets.handleUpgrade(req, socket, head, (webSocket: WebSocket) => {
      new SocketSession(caller, bounds, { socket: webSocket, methods, hub, log, queue, writeBuffer, clock });
    });
  });
  const listener = createPlainRpcListener(bounds, { server, guard, handler, hosts, log, clock });
  try {
    listener.net.listen(port, host);
    await once(listener.net, "listening");
  } catch (error) {
    hub[Symbol.dispose]();
    throw error;
  }
  // A connection that cannot be taken must not end the process.
  listener.net.on("error", (error) => log.warn({ error: error.message }, "RPC port failed"));
  return {
    url: `http://${authority()}`,
    [Symbol.asyncDispose]: () => closeAll(listener, sockets, hub),
  };
}

function refuse(res: ServerResponse, fault: HostFault): void {
  const { http, message, advice } = errorRow(fault);
  res.writeHead(http, { "Content-Type": "text/plain; charset=utf-8", Connection: "close" });
  res.end(`${message} ${advice}\n`);
}

function isWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase() === "websocket";
}

async function closeAll(listener: FastListener, sockets: WebSocketServer, hub: EventHub): Promise<void> {
  if (!listener.net.listening) return;
  hub[Symbol.dispose]();
  for (const socket of sockets.clients) socket.close(GOING_AWAY);
  const closed = listener.close();
  const cut = setTimeout(() => {
    for (const socket of sockets.clients) socket.terminate();
    listener.closeAllConnections();
  }, CLOSE_GRACE_MS);
  await closed;
  clearTimeout(cut);
}
