import { AppError, type Clock, type Log, type Metrics, type ServiceId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { withFallback } from "../suppliers/fallback-supplier-set.ts";
import { StaticSupplierSet } from "../suppliers/static-supplier-set.ts";
import type { SupplierSet } from "../suppliers/supplier-set.ts";
import { HttpTransport } from "../transport/http-transport.ts";
import type { TransportSocket } from "../transport/transport.ts";
import { cometDialect, type Dialect, evmDialect } from "./dialect.ts";
import { Lane } from "./lane.ts";
import {
  REPEATED_EVENTS,
  REPLAYED_EVENTS,
  UPSTREAM_LOSSES,
  UPSTREAM_SOCKETS,
  UPSTREAM_SUBSCRIPTIONS,
} from "./metrics.ts";
import type { SubscriptionOptions } from "./options.ts";
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

/** What `createSubscriptions` uses. */
export interface SubscriptionModules {
  readonly catalogue: ReadonlyMap<ServiceId, Service>;
  /** Supplier sets of services whose suppliers are not operator-given. */
  readonly suppliers?: ReadonlyMap<ServiceId, SupplierSet>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** A number of [0, 1). */
  readonly random: () => number;
  /** Taken out of service by hand. Absent: nobody is. */
  readonly isDrained?: (id: ServiceId, operator: string) => boolean;
  /**
   * The newest block that is known otherwise: a supplier that stays behind it is given up. Absent or undefined: a supplier
   * is only held against itself.
   */
  readonly tipBlocks?: (id: ServiceId) => number | undefined;
}

interface Hub {
  readonly service: Service;
  readonly suppliers: SocketSuppliers;
  readonly lanes: Set<Lane>;
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
  // No HTTP request goes over it.
  const transport = new HttpTransport({ ...options, maxConnectionsPerOrigin: 1, maxInFlightBytes: 0 }, modules);
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
  return new SharedSubscriptions(options, { ...modules, suppliers });
}

class SharedSubscriptions implements Subscriptions {
  readonly #options: SubscriptionOptions;
  readonly #modules: SubscriptionModules;
  readonly #hubs = new Map<ServiceId, Hub>();
  readonly #paired = new Set<TransportSocket>();
  #isClosing = false;

  constructor(
    options: SubscriptionOptions,
    modules: Required<Pick<SubscriptionModules, "suppliers">> & SubscriptionModules,
  ) {
    this.#options = options;
    this.#modules = modules;
    for (const [id, suppliers] of modules.suppliers) this.#addHub(id, suppliers);
  }

  #addHub(id: ServiceId, set: SupplierSet): void {
    const service = this.#modules.catalogue.get(id);
    if (service === undefined) {
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: the catalogue has no such service.` });
    }
    const { clock, random, isDrained } = this.#modules;
    const drained = (operator: string): boolean => isDrained?.(id, operator) ?? false;
    const suppliers = new SocketSuppliers(set, { clock, random, isDrained: drained });
    this.#hubs.set(id, { service, suppliers, lanes: new Set() });
  }

  offers(id: ServiceId): boolean {
    return this.#hubs.get(id)?.suppliers.isEmpty === false;
  }

  subscribe(id: ServiceId, topic: Topic, listener: SubscriptionListener): Promise<SubscribeResult> {
    const hub = this.#hubs.get(id);
    if (this.#isClosing) return Promise.resolve({ ok: false, code: "SHUTTING_DOWN" });
    if (hub === undefined) return Promise.resolve({ ok: false, code: "NO_SUPPLIERS" });
    const name = topic.kind === "query" ? "comet" : "evm";
    const lane = this.#laneOf(hub, name, topic);
    if (lane === undefined) return Promise.resolve({ ok: false, code: "OVERLOADED" });
    return lane.add(topic, listener);
  }

  call(id: ServiceId, dialect: "evm" | "comet", method: string, params: string): Promise<CallOutcome> {
    const hub = this.#hubs.get(id);
    if (hub === undefined || this.#isClosing) return Promise.resolve({ kind: "lost" });
    for (const [lane, name] of this.#names)
      if (name === dialect && hub.lanes.has(lane)) return lane.call(method, params);
    return this.#newLane(hub, dialect).call(method, params);
  }

  readonly #names = new Map<Lane, "evm" | "comet">();

  #laneOf(hub: Hub, name: "evm" | "comet", topic: Topic): Lane | undefined {
    const { maxTopics, maxTopicsPerSocket, maxCometTopicsPerSocket } = this.#options;
    const perSocket = name === "comet" ? maxCometTopicsPerSocket : maxTopicsPerSocket;
    const lanes = [...hub.lanes].filter((lane) => this.#names.get(lane) === name);
    const sharing = lanes.find((lane) => lane.feeds.has(topic.key));
    if (sharing !== undefined) return sharing;
    if (lanes.reduce((sum, lane) => sum + lane.feeds.size, 0) >= maxTopics) return undefined;
    return lanes.find((lane) => lane.feeds.size < perSocket) ?? this.#newLane(hub, name);
  }

  #newLane(hub: Hub, name: "evm" | "comet"): Lane {
    const { service, suppliers, lanes } = hub;
    const { metrics, clock, log, random, tipBlocks } = this.#modules;
    const label = { service: service.id };
    const lane = new Lane(this.#options, {
      service,
      suppliers,
      dialect: DIALECTS[name],
      clock,
      log,
      random,
      tipBlocks: () => tipBlocks?.(service.id),
      replayed: (kind, count) => count > 0 && metrics.count(REPLAYED_EVENTS, { ...label, kind }, count),
      repeated: (kind) => metrics.count(REPEATED_EVENTS, { ...label, kind }),
      lossOf: (reason) => metrics.count(UPSTREAM_LOSSES, { ...label, reason }),
      changed: () => {
        const all = [...lanes];
        metrics.set(UPSTREAM_SOCKETS, all.filter((one) => one.isOpen).length, label);
        metrics.set(
          UPSTREAM_SUBSCRIPTIONS,
          all.reduce((sum, one) => sum + one.subscriptions, 0),
          label,
        );
      },
      idle: (one) => {
        lanes.delete(one);
        this.#names.delete(one);
      },
    });
    lanes.add(lane);
    this.#names.set(lane, name);
    return lane;
  }

  async pair(id: ServiceId, handlers: PairHandlers, signal: AbortSignal): Promise<PairedSocket | undefined> {
    const hub = this.#hubs.get(id);
    for (const endpoint of hub?.suppliers.order() ?? []) {
      if (this.#isClosing || signal.aborted) return undefined;
      const socket = await connectSocket({ endpoint, ...this.#options }, signal);
      if (socket?.isOpen === true) {
        hub?.suppliers.good(endpoint);
        return this.#pairWith(socket, handlers);
      }
      if (!signal.aborted) hub?.suppliers.failed(endpoint);
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
    for (const { lanes } of this.#hubs.values()) for (const lane of lanes) lane.close("stopping");
    for (const socket of this.#paired) socket.terminate();
  }
}
