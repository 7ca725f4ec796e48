import { type Clock, ConnectionGuard, connectionCounts, type EvmBounds, type Log, type Metrics } from "@turnpike/base";
import type { ChainHead, PocketQueries } from "@turnpike/chain-client";
import type { FastListenerCounts } from "@turnpike/http1";
import type { RpcType } from "@turnpike/protocol";
import { HttpBackEnd } from "./backends/back-end.ts";
import type { RelayStore } from "./evidence/relay-store.ts";
import { BudgetReader } from "./metering/budget-reader.ts";
import { BodyBudget } from "./serving/body-budget.ts";
import { GrpcRelays } from "./serving/grpc-server.ts";
import { type RelayServer, startRelayServer } from "./serving/http-server.ts";
import type { RelayCrypto } from "./serving/relay-crypto.ts";
import { MAX_REQUEST_BYTES, RelayHandler, type SuppliedService } from "./serving/relay-handler.ts";
import { type SocketBackEnd, SocketRelays } from "./serving/socket-relay.ts";
import { SessionKeeper } from "./verification/session-keeper.ts";

/** A back-end of a service, as the operator names it. */
export interface BackEndConfig {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Path that answers 2xx to GET while the back-end is well. Not of a WebSocket. */
  readonly healthPath?: string;
}

/** A service that is supplied. */
export interface ServiceConfig {
  readonly backEnds: Readonly<Partial<Record<RpcType, BackEndConfig>>>;
  readonly defaultRpcType: RpcType;
  readonly timeoutMs: number;
  readonly maxAnswerBytes: number;
  readonly maxConcurrent: number;
  /** Most relays a second of one application; unbounded where it is not set. */
  readonly relaysPerSecond?: number;
  /** Bounds of JSON-RPC calls over HTTP and WebSocket before an EVM node is asked; none where it is not set. */
  readonly evmBounds?: EvmBounds;
}

/** An operator whose relays are served on a port of its own. */
export interface OperatorListener {
  /** Bech32 address of the operator. */
  readonly address: string;
  readonly port: number;
}

export interface ServeRelaysOptions {
  readonly host: string;
  readonly operators: readonly OperatorListener[];
  readonly services: Readonly<Record<string, ServiceConfig>>;
  /** Larger requests are refused; and always those that could not be claimed, of some 700 kB. */
  readonly maxRequestBytes: number;
  readonly maxConcurrentRelays: number;
  /** Maximum of all operators' ports together. */
  readonly maxConnections: number;
  /** Maximum of one address, or one /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number;
  /** Proxies, which connect for many clients: these have no such bound. None by default. */
  readonly trustedProxies?: readonly string[];
  readonly requestTimeoutMs: number;
  readonly drainTimeoutMs: number;
  /** Of settlement, in millionths of a claim: the part of the application's stake that is not paid out as claimed. */
  readonly inflationMillionths: bigint;
  /** Percentage of an application's stake that is worked for while others' claims of earlier sessions are open. */
  readonly unsettledPercent: number;
  /** Bytes of requests that are being read over HTTP and gRPC, of all together; 268,435,456 by default. */
  readonly maxBodyBytes?: number;
  /** WebSockets at once; 4,096 by default. */
  readonly maxSockets?: number;
  /** Bytes of frames that wait in each direction of a WebSocket before it is not read; 4,194,304 by default. */
  readonly maxWaitingBytes?: number;
}

export interface ServeRelaysModules {
  readonly queries: PocketQueries;
  readonly head: ChainHead;
  readonly crypto: RelayCrypto;
  readonly store: RelayStore;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** Relay servers that listen. */
export interface ServedRelays extends AsyncDisposable {
  /** By operator. */
  readonly ports: ReadonlyMap<string, number>;
  /** Of each operator's port: its connections and plain requests so far. */
  readonly counts: ReadonlyMap<string, FastListenerCounts>;
}

const MAX_SESSIONS = 4_096;
/** As many as a session's evidence has room for. */
const MAX_SEEN_REQUESTS = 4_000_000;
const MAX_BODY_BYTES = 268_435_456;
const MAX_SOCKETS = 4_096;
const MAX_WAITING_BYTES = 4_194_304;
const CONNECT_TIMEOUT_MS = 10_000;

const isHttp = (rpcType: string): boolean => rpcType !== "websocket";

/**
 * Serves the relays of several operators, over HTTP, WebSocket and gRPC on each one's port.
 * @throws AppError PORT_IN_USE
 */
export async function serveRelays(options: ServeRelaysOptions, modules: ServeRelaysModules): Promise<ServedRelays> {
  const { queries, head, crypto, store, clock, metrics, log } = modules;
  await using stack = new AsyncDisposableStack();
  const services = new Map<string, SuppliedService>();
  const socketBackEnds = new Map<string, SocketBackEnd>();
  for (const [serviceId, service] of Object.entries(options.services)) {
    const backEnds = new Map<RpcType, HttpBackEnd>();
    const evmRules = service.evmBounds === undefined ? {} : { evmRules: { bounds: service.evmBounds } };
    for (const [name, { url, headers = {}, healthPath }] of Object.entries(service.backEnds)) {
      const rpcType = name as RpcType;
      if (!isHttp(rpcType)) {
        const { maxAnswerBytes } = service;
        socketBackEnds.set(serviceId, { url: url.replace(/^http/, "ws"), headers, maxAnswerBytes, ...evmRules });
        continue;
      }
      const { timeoutMs, maxAnswerBytes } = service;
      const backEnd = new HttpBackEnd(
        {
          serviceId,
          rpcType,
          url,
          headers,
          timeoutMs,
          maxAnswerBytes,
          ...(healthPath === undefined ? {} : { healthPath }),
          ...(rpcType === "json_rpc" ? evmRules : {}),
        },
        { clock, log, metrics },
      );
      backEnds.set(rpcType, stack.use(backEnd));
    }
    services.set(serviceId, {
      backEnds,
      defaultRpcType: service.defaultRpcType,
      maxConcurrent: service.maxConcurrent,
    });
  }
  // What was served before a restart is in the log, and counts against the same budget.
  const servedBefore = (operatorAddress: string, sessionId: string) => store.servedBefore(operatorAddress, sessionId);
  const workOf: RelayStore["workOf"] = (operator, application) => store.workOf(operator, application);
  const { inflationMillionths, unsettledPercent } = options;
  const budgets = new BudgetReader({ inflationMillionths, unsettledPercent }, { queries, workOf });
  const sessions = new SessionKeeper(
    {
      maxSessions: MAX_SESSIONS,
      maxSeenRequests: MAX_SEEN_REQUESTS,
      relaysPerSecond: new Map(
        Object.entries(options.services).flatMap(([id, { relaysPerSecond }]) =>
          relaysPerSecond === undefined ? [] : [[id, relaysPerSecond]],
        ),
      ),
    },
    { queries, budgets, head, servedBefore, clock },
  );
  const operators = new Set(options.operators.map(({ address }) => address));
  const { maxConcurrentRelays } = options;
  const maxRequestBytes = Math.min(options.maxRequestBytes, MAX_REQUEST_BYTES);
  const handler = new RelayHandler(
    { services, operators, maxConcurrentRelays, maxRequestBytes },
    { sessions, crypto, store, clock, metrics, log },
  );
  const sockets = new SocketRelays(
    {
      backEnds: socketBackEnds,
      maxFrameBytes: maxRequestBytes,
      maxSockets: options.maxSockets ?? MAX_SOCKETS,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      maxWaitingBytes: options.maxWaitingBytes ?? MAX_WAITING_BYTES,
    },
    { handler, store, head, metrics, log },
  );
  // Both twice: they end before the servers, which wait for their connections, and also when a server does not start.
  const bodies = new BodyBudget(options.maxBodyBytes ?? MAX_BODY_BYTES);
  const { drainTimeoutMs, requestTimeoutMs } = options;
  const { onRefused, onFault } = connectionCounts("supplier", metrics);
  const guard = new ConnectionGuard(options, { clock, onRefused });
  const grpc = new GrpcRelays(
    { drainTimeoutMs, requestTimeoutMs, maxRequestBytes },
    { handler, bodies, guard, log, clock, onFault },
  );
  stack.use(sockets);
  stack.use(grpc);
  const ports = new Map<string, number>();
  const counts = new Map<string, FastListenerCounts>();
  for (const { address, port } of options.operators) {
    const server: RelayServer = await startRelayServer(
      { ...options, maxRequestBytes, port },
      {
        handler,
        bodies,
        guard,
        onHttp2: (socket) => grpc.accept(socket),
        onUpgrade: (request, socket, first) => sockets.upgrade(request, socket, first),
        clock,
        log,
      },
    );
    stack.use(server);
    ports.set(address, server.port);
    counts.set(address, server.counts);
  }
  stack.use(sockets);
  stack.use(grpc);
  const owned = stack.move();
  return { ports, counts, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
