import type { LookupFunction } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { AppError, type Clock } from "@turnpike/base";
import { Connection, type ConnectionOwner, type ConnectionTarget, servernameOf } from "./connection.ts";
import { PoolRequest, RequestQueue, type ResponseHandler } from "./pool-request.ts";
import type { RequestHead } from "./request-head.ts";
import { ResponseFields } from "./response-reader.ts";

/** Where the pool connects to, and its limits. */
export interface HttpPoolOptions {
  /** `http://host:port` or `https://host:port`. */
  readonly origin: string;
  /** Most connections. */
  readonly connections: number;
  /** Most requests that wait while all connections are used. */
  readonly maxQueued: number;
  /** Longest time until a connection is made, with the look-up of the name and the TLS handshake. */
  readonly connectTimeoutMs: number;
  /** Header fields that handlers see, names in lower case. */
  readonly fields: readonly string[];
  /** Time after which an unused connection is closed when the server does not say how long it keeps one; 4,000 by default. */
  readonly keepAliveMs?: number;
  /** Resolves the host; by default as the system does. */
  readonly lookup?: LookupFunction | undefined;
  /** Name that the certificate must be for; the host by default. */
  readonly servername?: string | undefined;
  /** Authorities for its certificate, in the place of those that the runtime knows. */
  readonly ca?: ConnectionOptions["ca"];
}

export interface HttpPoolModules {
  readonly clock: Clock;
}

const KEEP_ALIVE_MS = 4_000;
/** However long a server would keep a connection. */
const MAX_KEEP_ALIVE_MS = 600_000;
const SWEEP_MS = 1_000;

/**
 * Sends requests to one origin over kept connections: one request at a time over each, never one twice. It has no
 * time-outs for responses, and no bound on their bodies: its callers abort.
 */
export class HttpPool {
  readonly #options: HttpPoolOptions;
  readonly #clock: Clock;
  readonly #target: ConnectionTarget;
  readonly #owner: ConnectionOwner;
  readonly #connections = new Set<Connection>();
  /** The newest last: those that are not needed are closed soon. */
  readonly #idle: Connection[] = [];
  readonly #queue = new RequestQueue();
  /** Those with a request to write. */
  #waiting: Connection[] = [];
  #connecting = 0;
  #isClosed = false;
  #isDestroyed = false;
  #sweeper: NodeJS.Timeout | undefined;

  /** Throws AppError (`INTERNAL`) for what is no origin of http or https. */
  constructor(options: HttpPoolOptions, { clock }: HttpPoolModules) {
    this.#options = options;
    this.#clock = clock;
    this.#target = targetOf(options);
    this.#owner = {
      fields: new ResponseFields(options.fields),
      connected: (connection) => {
        this.#connecting--;
        this.#released(connection, undefined);
      },
      released: (connection, keepAliveMs) => this.#released(connection, keepAliveMs),
      waiting: (connection) => this.#defer(connection),
      requeued: (request) => this.#requeue(request),
      lost: (connection) => this.#lost(connection),
    };
  }

  /** Connections that are made or being made. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Requests that wait for a connection. */
  get queued(): number {
    return this.#queue.size;
  }

  /** Connections that wait for a request. */
  get idle(): number {
    return this.#idle.length;
  }

  /**
   * Sends a request as soon as a connection is free; those that came before it go first. Never throws: the handler gets
   * every error, perhaps before this returns.
   * @param body must not change until the response is there
   */
  send(head: RequestHead, body: Uint8Array | string | undefined, handler: ResponseHandler): PoolRequest {
    const request = new PoolRequest(head, body, handler);
    if (this.#isClosed) request.fail("closed");
    else {
      const connection = this.#takeIdle();
      if (connection !== undefined) connection.send(request);
      else if (this.#isFull()) request.fail("queue-full");
      else {
        this.#queue.push(request);
        this.#connect();
      }
    }
    return request;
  }

  /** Takes no requests any more. Those that it has end as they would have; then their connections are closed. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.splice(0)) connection.fail();
    if (this.#queue.size > 0) return;
    for (const connection of this.#connections) if (!connection.isConnected) connection.fail();
  }

  /** Closes everything at once: requests that are under way fail. */
  destroy(): void {
    this.#isClosed = true;
    this.#isDestroyed = true;
    for (let one = this.#queue.shift(); one !== undefined; one = this.#queue.shift()) one.fail("closed");
    for (const connection of this.#connections) connection.fail();
    clearTimeout(this.#sweeper);
  }

  #isFull(): boolean {
    const { connections, maxQueued } = this.#options;
    const toConnect = this.#connecting + connections - this.#connections.size;
    return this.#queue.size >= maxQueued + toConnect;
  }

  #takeIdle(): Connection | undefined {
    if (this.#idle.length === 0) return undefined;
    const nowMs = this.#clock.monotonicMs();
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || nowMs < connection.idleUntilMs) return connection;
      connection.fail();
    }
  }

  /** Makes connections until each waiting request could have one. */
  #connect(): void {
    const { connections } = this.#options;
    while (this.#connecting < this.#queue.size && this.#connections.size < connections) {
      this.#connecting++;
      this.#connections.add(new Connection(this.#target, this.#owner));
    }
  }

  #released(connection: Connection, keepAliveMs = this.#options.keepAliveMs ?? KEEP_ALIVE_MS): void {
    const next = this.#queue.shift();
    if (next !== undefined) {
      connection.send(next);
      return;
    }
    if (this.#isClosed) {
      connection.fail();
      return;
    }
    connection.idleUntilMs = this.#clock.monotonicMs() + Math.min(keepAliveMs, MAX_KEEP_ALIVE_MS);
    this.#idle.push(connection);
    this.#sweeper ??= setTimeout(() => this.#sweep(), SWEEP_MS);
  }

  /**
   * Requests of one turn of the event loop are written together at its end: a write to a server that sleeps pays for waking
   * it, and the ones behind it find it awake.
   */
  #defer(connection: Connection): void {
    if (this.#waiting.length === 0) setImmediate(() => this.#flush());
    this.#waiting.push(connection);
  }

  #flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const connection of waiting) connection.flush();
  }

  /**
   * A server may close a kept connection at any time: a request that was not written yet goes over another one, before those
   * that came after it (of several at once the last goes first). Once only, since a server may close every connection at once. undici keeps such requests, too.
   */
  #requeue(request: PoolRequest): boolean {
    if (request.isSent || request.isOver || request.isRequeued || this.#isDestroyed) return false;
    request.isRequeued = true;
    this.#queue.unshift(request);
    return true;
  }

  #lost(connection: Connection): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    if (!connection.isConnected) {
      this.#connecting--;
      // One attempt, one request: a server that is gone does not keep them all until their time-outs.
      this.#queue.shift()?.fail("connection");
    }
    this.#connect();
  }

  #sweep(): void {
    this.#sweeper = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const connection of this.#idle.filter(({ idleUntilMs }) => idleUntilMs <= nowMs)) connection.fail();
    if (this.#idle.length > 0) this.#sweeper = setTimeout(() => this.#sweep(), SWEEP_MS);
  }
}

function targetOf({ origin, lookup, servername, ca, connectTimeoutMs }: HttpPoolOptions): ConnectionTarget {
  const url = URL.parse(origin);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new AppError("INTERNAL", { message: "No HTTP origin." });
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isTls = url.protocol === "https:";
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  const tls = isTls ? { servername: servername ?? servernameOf(host), ca, session: undefined } : undefined;
  return { host, port, lookup, tls, connectTimeoutMs };
}
