import { AppError, type Clock, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { withFallback } from "../suppliers/fallback-supplier-set.ts";
import { StaticSupplierSet } from "../suppliers/static-supplier-set.ts";
import type { SupplierSet } from "../suppliers/supplier-set.ts";
import { HttpTransport } from "../transport/http-transport.ts";
import type { TransportSocket } from "../transport/transport.ts";
import { cometDialect, type Dialect, evmDialect } from "./dialect.ts";
import { FailoverSocket } from "./failover-socket.ts";
import {
  relayRepeatedEventsTotal,
  relayReplayedEventsTotal,
  relayUpstreamSubscriptions,
  relayUpstreamWebsocketLossesTotal,
  relayUpstreamWebsockets,
} from "./metrics.ts";
import { SUBSCRIPTION_BOUNDS, type SubscriptionBounds, type SubscriptionOptions } from "./options.ts";
import { SocketSuppliers } from "./socket-suppliers.ts";
import type {
  PairedSocket,
  PairHandlers,
  SubscribeResult,
  SubscriptionListener,
  Subscriptions,
  Topic,
} from "./types.ts";
import { type CallOutcome, connectSocket } from "./upstream-socket.ts";

export interface SubscriptionModules {
  readonly catalogue: ReadonlyMap<ServiceId, Service>;
  /** Supplier sets of services whose suppliers are not operator-given. */
  readonly suppliers?: ReadonlyMap<ServiceId, SupplierSet>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** A number of [0, 1). */
  readonly random: () => number;
  /** Taken out of service by hand. Absent: none is. */
  readonly isDrained?: (id: ServiceId, operator: string) => boolean;
  /**
   * The newest block that is known otherwise: a supplier that stays behind it is given up. Absent or undefined: a supplier
   * is only held against itself.
   */
  readonly tipBlocks?: (id: ServiceId) => number | undefined;
}

interface ServiceSockets {
  readonly service: Service;
  readonly suppliers: SocketSuppliers;
  readonly sockets: Set<FailoverSocket>;
}

/** The way in which clients of a service subscribe; a network of two families is EVM unless its path says otherwise. */
const DIALECTS: Readonly<Record<"evm" | "comet", Dialect>> = { evm: evmDialect, comet: cometDialect };

/**
 * Subscriptions at the suppliers' WebSockets. Equal ones are shared. When a supplier is lost, another takes over: heads
 * and logs that were missed are fetched, and none is delivered twice; for other topics this is a best effort.
 *
 * @throws AppError CONFIG_INVALID for a URL that is none, or a service that the catalogue does not have
 */
export function createSubscriptions(options: SubscriptionOptions, modules: SubscriptionModules): Subscriptions {
  const bounds = { ...SUBSCRIPTION_BOUNDS, ...options };
  // No HTTP request goes over it.
  const transport = new HttpTransport({ ...bounds, maxConnectionsPerOrigin: 1, maxInFlightBytes: 0 }, modules);
  const suppliers = new Map(modules.suppliers);
  for (const [id, list] of Object.entries(options.suppliers)) {
    const service = id as ServiceId;
    if (list.length === 0) continue;
    const endpoints = list.map(({ operator, url, headers }) => {
      const own = { operator, urls: { websocket: url } };
      return headers === undefined ? own : { ...own, headers };
    });
    const own = new StaticSupplierSet({ service, endpoints }, { transport });
    suppliers.set(service, withFallback(suppliers.get(service), own, options));
  }
  return new SharedSubscriptions(bounds, { ...modules, suppliers });
}

class SharedSubscriptions implements Subscriptions {
  readonly #options: SubscriptionBounds;
  readonly #modules: SubscriptionModules;
  readonly #services = new Map<ServiceId, ServiceSockets>();
  readonly #paired = new Set<TransportSocket>();
  #isClosing = false;

  constructor(
    options: SubscriptionBounds,
    modules: Required<Pick<SubscriptionModules, "suppliers">> & SubscriptionModules,
  ) {
    this.#options = options;
    this.#modules = modules;
    for (const [id, suppliers] of modules.suppliers) this.#addService(id, suppliers);
  }

  #addService(id: ServiceId, set: SupplierSet): void {
    const service = this.#modules.catalogue.get(id);
    if (service === undefined) {
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: the catalogue has no such service.` });
    }
    const { clock, random, isDrained } = this.#modules;
    const drained = (operator: string): boolean => isDrained?.(id, operator) ?? false;
    const suppliers = new SocketSuppliers(set, { clock, random, isDrained: drained });
    this.#services.set(id, { service, suppliers, sockets: new Set() });
  }

  offers(id: ServiceId): boolean {
    return this.#services.get(id)?.suppliers.isEmpty === false;
  }

  subscribe(id: ServiceId, topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult> {
    const own = this.#services.get(id);
    if (this.#isClosing) return Promise.resolve({ ok: false, code: "SHUTTING_DOWN" });
    if (own === undefined) return Promise.resolve({ ok: false, code: "NO_SUPPLIERS" });
    const socket = this.#socketFor(own, topic.kind === "query" ? "comet" : "evm", topic);
    if (socket === undefined) return Promise.resolve({ ok: false, code: "OVERLOADED" });
    return socket.add(topic, listener);
  }

  call(id: ServiceId, dialect: "evm" | "comet", method: string, params: string): Promise<CallOutcome> {
    const own = this.#services.get(id);
    if (own === undefined || this.#isClosing) return Promise.resolve({ kind: "lost" });
    const socket = [...own.sockets].find((one) => one.dialect === dialect) ?? this.#newSocket(own, dialect);
    return socket.call(method, params);
  }

  #socketFor(own: ServiceSockets, dialect: Dialect["id"], topic: Topic): FailoverSocket | undefined {
    const { maxTopics, maxTopicsPerSocket, maxCometTopicsPerSocket } = this.#options;
    const perSocket = dialect === "comet" ? maxCometTopicsPerSocket : maxTopicsPerSocket;
    const sockets = [...own.sockets].filter((socket) => socket.dialect === dialect);
    const sharing = sockets.find((socket) => socket.subscriptions.has(topic.key));
    if (sharing !== undefined) return sharing;
    if (sockets.reduce((sum, socket) => sum + socket.subscriptions.size, 0) >= maxTopics) return undefined;
    return sockets.find((socket) => socket.subscriptions.size < perSocket) ?? this.#newSocket(own, dialect);
  }

  #newSocket(own: ServiceSockets, dialect: Dialect["id"]): FailoverSocket {
    const { service, suppliers, sockets } = own;
    const { metrics, clock, log, random, tipBlocks } = this.#modules;
    const label = { service: service.id };
    const socket = new FailoverSocket(this.#options, {
      service,
      suppliers,
      dialect: DIALECTS[dialect],
      clock,
      log,
      random,
      tipBlocks: () => tipBlocks?.(service.id),
      replayed: (kind, count) => count > 0 && metrics.count(relayReplayedEventsTotal, { ...label, kind }, count),
      repeated: (kind) => metrics.count(relayRepeatedEventsTotal, { ...label, kind }),
      lossOf: (reason) => metrics.count(relayUpstreamWebsocketLossesTotal, { ...label, reason }),
      changed: () => {
        const all = [...sockets];
        metrics.set(relayUpstreamWebsockets, all.filter((one) => one.isOpen).length, label);
        metrics.set(
          relayUpstreamSubscriptions,
          all.reduce((sum, one) => sum + one.held, 0),
          label,
        );
      },
      idle: (one) => void sockets.delete(one),
    });
    sockets.add(socket);
    return socket;
  }

  async pair(id: ServiceId, handlers: PairHandlers, signal: AbortSignal): Promise<PairedSocket | undefined> {
    const own = this.#services.get(id);
    for (const endpoint of own?.suppliers.order() ?? []) {
      if (this.#isClosing || signal.aborted) return undefined;
      const socket = await connectSocket({ endpoint, ...this.#options }, signal);
      if (socket?.isOpen === true) {
        own?.suppliers.good(endpoint);
        return this.#pairWith(socket, handlers);
      }
      if (!signal.aborted) own?.suppliers.failed(endpoint);
    }
    return undefined;
  }

  #pairWith(socket: TransportSocket, handlers: PairHandlers): PairedSocket {
    this.#paired.add(socket);
    let isOver = false;
    let isSilent = false;
    const ping = setInterval(() => {
      if (isSilent) socket.terminate();
      isSilent = true;
      socket.ping();
    }, this.#options.pingIntervalMs);
    ping.unref();
    const awake = (): void => {
      isSilent = false;
    };
    socket.listen({
      pong: awake,
      message: (bytes) => {
        awake();
        handlers.message(bytes);
      },
      closed: () => {
        clearInterval(ping);
        this.#paired.delete(socket);
        if (!isOver) handlers.lost();
        isOver = true;
      },
    });
    return {
      send: (text) => {
        if (socket.isOpen) socket.send(text);
      },
      get bufferedBytes() {
        return socket.bufferedBytes;
      },
      pause: () => socket.pause(),
      resume: () => socket.resume(),
      close: () => {
        isOver = true;
        socket.terminate();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    for (const { sockets } of this.#services.values()) for (const socket of sockets) socket.close("stopping");
    for (const socket of this.#paired) socket.terminate();
  }
}
