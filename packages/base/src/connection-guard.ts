import type { EventEmitter } from "node:events";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import type { Socket } from "node:net";
import { createProxyCheck } from "./client-ip.ts";
import { clientKey } from "./client-key.ts";
import { type Clock, systemClock } from "./clock.ts";

/** Bounds of the connections of one server. */
export interface ConnectionLimits {
  /** Maximum open connections. For one more, the idlest of the client that has most of them is closed. */
  readonly maxConnections: number;
  /** Maximum open connections of one client, an address or a /64 of IPv6; 250 by default. */
  readonly maxConnectionsPerClient?: number | undefined;
  /** Proxies, which connect for many clients: only the total bounds them. None by default. */
  readonly trustedProxies?: readonly string[] | undefined;
}

const MAX_CONNECTIONS_PER_CLIENT = 250;

/** Time since a connection was last in use, in milliseconds; undefined while it is. */
export type IdleTime = () => number | undefined;

/** Reason for a closed connection. `evicted`: it made room for another one; `flood`: its HTTP/2 frames were too many. */
export type ConnectionRefusal = "client" | "total" | "evicted" | "flood";

export interface ConnectionGuardModules {
  readonly clock?: Pick<Clock, "monotonicMs">;
  /** Called for each connection that is closed. */
  readonly onRefused?: (reason: ConnectionRefusal) => void;
}

interface Client {
  readonly key: string;
  /** In the order of their arrival. */
  readonly entries: Set<Entry>;
}

interface Entry {
  readonly socket: Socket;
  /** Undefined: a trusted proxy's. */
  readonly client: Client | undefined;
  idleMs: IdleTime;
  isOpen: boolean;
}

/** A connection that was in use later than this is not closed for another one of its own client. */
const MIN_IDLE_MS = 5_000;
/** The same for another client's. */
const MIN_FOREIGN_IDLE_MS = 1_000;
/** Clients that are looked at for a connection that may be closed. */
const MAX_EVICTION_CLIENTS = 8;

/**
 * Bounds the connections of a server in total and by client, so that none takes the room of all others. Every listener has
 * one, and asks it once for each connection before any byte is read.
 */
export class ConnectionGuard {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #onRefused: (reason: ConnectionRefusal) => void;
  readonly #entries = new WeakMap<Socket, Entry>();
  readonly #clients = new Map<string, Client>();
  /** Clients by their number of connections. */
  readonly #bySize: Set<Client>[] = [];
  #limits: ConnectionLimits;
  #isProxy: (address: string) => boolean;
  #isFlooding: (key: string) => boolean = () => false;
  #open = 0;

  /** @throws AppError CONFIG_INVALID when a trusted proxy is neither an address nor a CIDR block. */
  constructor(limits: ConnectionLimits, { clock = systemClock, onRefused = () => {} }: ConnectionGuardModules = {}) {
    this.#limits = limits;
    this.#isProxy = createProxyCheck(limits.trustedProxies ?? []);
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  /** Open connections. */
  get size(): number {
    return this.#open;
  }

  /** Clients with open connections, without trusted proxies. */
  get clients(): number {
    return this.#clients.size;
  }

  /** Puts other bounds into effect; connections that are open stay open. */
  setLimits(limits: ConnectionLimits): void {
    this.#limits = limits;
    this.#isProxy = createProxyCheck(limits.trustedProxies ?? []);
  }

  /**
   * Counts a connection until it closes, and once, however many listeners it passes; `idleMs` is that of the latest one.
   * Returns false for a connection that must be closed at once.
   */
  admit(socket: Socket, idleMs?: IdleTime): boolean {
    const entry = this.#entries.get(socket);
    if (entry !== undefined) {
      if (idleMs !== undefined) entry.idleMs = idleMs;
      return entry.isOpen;
    }
    if (socket.destroyed) return false;
    const key = this.clientOf(socket);
    if (key !== undefined && this.#isFlooding(key)) return this.#refuse("flood");
    const client = key === undefined ? undefined : this.#clients.get(key);
    const size = client?.entries.size ?? 0;
    const { maxConnections, maxConnectionsPerClient = MAX_CONNECTIONS_PER_CLIENT } = this.#limits;
    if (client !== undefined && size >= maxConnectionsPerClient && !this.#evictOf(client, MIN_IDLE_MS)) {
      return this.#refuse("client");
    }
    if (this.#open >= maxConnections && !this.#evictOther(size, client)) return this.#refuse("total");
    this.#add(socket, key, idleMs);
    return true;
  }

  /** Returns the key under which a connection's client is counted; undefined for a trusted proxy. */
  clientOf({ remoteAddress: address = "" }: Pick<Socket, "remoteAddress">): string | undefined {
    return this.#isProxy(address) ? undefined : clientKey(address);
  }

  /** Refuses connections of clients that another part names, before any byte of them is read. */
  refuseFlooding(isFlooding: (key: string) => boolean): void {
    this.#isFlooding = isFlooding;
  }

  /** Counts a connection that another part has closed since its frames were too many. */
  countFlood(): void {
    this.#onRefused("flood");
  }

  #refuse(reason: ConnectionRefusal): false {
    this.#onRefused(reason);
    return false;
  }

  #add(socket: Socket, key: string | undefined, idleMs: IdleTime | undefined): void {
    const sinceMs = this.#clock.monotonicMs();
    const client = key === undefined ? undefined : (this.#clients.get(key) ?? { key, entries: new Set<Entry>() });
    const entry: Entry = {
      socket,
      client,
      idleMs: idleMs ?? (() => this.#clock.monotonicMs() - sinceMs),
      isOpen: true,
    };
    this.#entries.set(socket, entry);
    this.#open++;
    if (client !== undefined) {
      this.#clients.set(client.key, client);
      this.#resize(client, () => client.entries.add(entry));
    }
    socket.once("close", () => this.#remove(entry));
  }

  #remove(entry: Entry): void {
    if (!entry.isOpen) return;
    entry.isOpen = false;
    this.#open--;
    const { client } = entry;
    if (client === undefined) return;
    this.#resize(client, () => client.entries.delete(entry));
    if (client.entries.size === 0) this.#clients.delete(client.key);
  }

  #resize(client: Client, change: () => void): void {
    this.#bySize[client.entries.size]?.delete(client);
    change();
    const { size } = client.entries;
    if (size > 0) {
      const clients = this.#bySize[size] ?? new Set();
      this.#bySize[size] = clients;
      clients.add(client);
    }
    while (this.#bySize.length > 0 && (this.#bySize.at(-1)?.size ?? 0) === 0) this.#bySize.pop();
  }

  /** Makes room for a client with `size` connections: at the cost of one that has more, else of its own. */
  #evictOther(size: number, client: Client | undefined): boolean {
    let looked = 0;
    for (let at = this.#bySize.length - 1; at > size; at--) {
      for (const other of this.#bySize[at] ?? []) {
        if (this.#evictOf(other, MIN_FOREIGN_IDLE_MS)) return true;
        if (++looked === MAX_EVICTION_CLIENTS) return false;
      }
    }
    return client !== undefined && this.#evictOf(client, MIN_IDLE_MS);
  }

  /** Closes the idlest connection of a client, if there is one that was idle for so long. */
  #evictOf(client: Client, minIdleMs: number): boolean {
    let idlest: Entry | undefined;
    let longestMs = minIdleMs;
    for (const entry of client.entries) {
      const idleMs = entry.idleMs();
      if (idleMs === undefined || idleMs < longestMs) continue;
      if (idlest !== undefined && idleMs === longestMs) continue;
      idlest = entry;
      longestMs = idleMs;
    }
    if (idlest === undefined) return false;
    this.#remove(idlest);
    idlest.socket.destroy();
    this.#onRefused("evicted");
    return true;
  }
}

/** Has a guard asked before a server's own listeners get a connection: those that it refuses never reach them. */
export function guardConnections(
  server: EventEmitter,
  guard: ConnectionGuard,
  idleOf: (socket: Socket) => IdleTime | undefined = () => undefined,
): void {
  const listeners = server.listeners("connection") as ((socket: Socket) => void)[];
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    if (guard.admit(socket, idleOf(socket))) {
      for (const listener of listeners) listener.call(server, socket);
      return;
    }
    socket.on("error", () => {});
    socket.destroy();
  });
}

/** Idle time of a connection of `node:http`: in use while a response is due, and for good once it was upgraded. */
function httpIdleTime(socket: Socket): IdleTime {
  let sinceMs = performance.now();
  let written = socket.bytesWritten;
  return () => {
    // No event shows them all: listeners for `upgrade` and `checkContinue` would change how requests are served.
    const { parser, _httpMessage: response } = socket as { parser?: unknown; _httpMessage?: unknown };
    if (parser === null || (response !== undefined && response !== null)) return undefined;
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      sinceMs = performance.now();
    }
    return performance.now() - sinceMs;
  };
}

/** {@link guardConnections} for a server of `node:http`. */
export function guardServer(server: Server, guard: ConnectionGuard): void {
  guardConnections(server, guard, httpIdleTime);
}

const CHECK_MS = 1_000;
const HEAD_TIMEOUT_MS = 10_000;

/**
 * Creates a server of `node:http` behind a guard. A head that is not whole after 10 seconds, or `headersTimeout`, ends its
 * connection, at most a second late.
 */
export function createGuardedServer(
  guard: ConnectionGuard,
  options: ServerOptions,
  listener?: RequestListener,
): Server {
  const { headersTimeout = HEAD_TIMEOUT_MS, requestTimeout } = options;
  const server = createServer(
    {
      connectionsCheckingInterval: CHECK_MS,
      ...options,
      headersTimeout: requestTimeout === undefined ? headersTimeout : Math.min(headersTimeout, requestTimeout),
    },
    listener,
  );
  guardServer(server, guard);
  return server;
}
