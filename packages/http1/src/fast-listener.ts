import type { Server } from "node:http";
import { createServer, type Server as NetServer, type Socket } from "node:net";
import type { Clock, IdleTime } from "@turnpike/base";
import { type ConnectionHost, FastConnection } from "./fast-connection.ts";
import { FastRequest } from "./fast-request.ts";
import { Head } from "./head.ts";
import { PlainForm, type PlainFormOptions } from "./plain-form.ts";
import { ResponseWriter } from "./response-writer.ts";

/** Bounds of {@link FastListener}, and the fields that it knows. */
export interface FastListenerOptions extends PlainFormOptions {
  /** Most bytes of requests that are not whole, of all connections together; more are handed over. */
  readonly maxHeldBytes: number;
  /** Time between two checks of time-outs, which come at most two of it late. */
  readonly checkMs: number;
  /**
   * Time after which a connection is closed on which nothing came. Without it the server gets such a connection, after half
   * of its `headersTimeout`.
   */
  readonly firstByteTimeoutMs?: number;
  /** Time for a client to read on while a response waits to be written; the server's `timeout` by default. */
  readonly stallTimeoutMs?: number;
  /**
   * False: a client that ends its side before it has its response has left, and its connection ends. True by default. It
   * should be as the server's own `httpAllowHalfOpen`.
   */
  readonly allowHalfOpen?: boolean;
}

/** Bytes that are counted where others are counted as well. */
export interface HeldBytes {
  /** False when there is no room for so many more bytes: then none are counted. */
  acquire(bytes: number): boolean;
  release(bytes: number): void;
}

export interface FastListenerModules {
  /** Serves what is not plain. It never listens itself; its time-outs and `maxConnections` hold here as well. */
  readonly server: Server;
  /** Called for every whole plain request. False: the server gets it, and the connection with it. Must not throw. */
  readonly handle: (request: FastRequest) => boolean;
  /** False for a connection that is closed at once. The server's `connection` event comes later, if at all. */
  readonly admit?: (socket: Socket, idleMs: IdleTime) => boolean;
  /** Counts the bytes of requests that are not whole, beside the listener's own bound. */
  readonly heldBytes?: HeldBytes;
  readonly clock: Clock;
}

/** Bounds that suit calls of JSON-RPC. */
export const fastListenerDefaults: Omit<FastListenerOptions, "fields"> = {
  maxHeadBytes: 16_384,
  maxLines: 100,
  maxBodyBytes: 65_536,
  maxHeldBytes: 33_554_432,
  checkMs: 500,
};

/** What came of connections and requests so far. */
export interface FastListenerCounts {
  /** Connections that were accepted. */
  readonly accepted: number;
  /** Requests that the handler kept. */
  readonly handled: number;
  /** Connections that were handed over. */
  readonly handedOver: number;
}

/**
 * Listens in the place of a `node:http` server. A connection begins here and stays while its requests are plain, whole
 * soon, and kept by the handler; at the first byte of any other request it is the server's for good. So whatever is
 * odd, slow or large meets the server and its refusals, and this code decides only what every reader agrees about.
 */
export class FastListener {
  /** What listens, for `listen` and `address`. */
  readonly net: NetServer;
  readonly #server: Server;
  readonly #admit: (socket: Socket, idleMs: IdleTime) => boolean;
  readonly #host: ConnectionHost;
  readonly #checkMs: number;
  readonly #connections = new Set<FastConnection>();
  readonly #counts = { accepted: 0, handled: 0, handedOver: 0 };
  #waiting: FastConnection[] = [];
  #open = 0;
  #held = 0;
  #checks = 0;
  #isClosing = false;
  #closed: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @throws RangeError when there are more than 31 known fields */
  constructor(options: FastListenerOptions, { server, handle, admit, heldBytes, clock }: FastListenerModules) {
    this.#server = server;
    this.#admit = admit ?? (() => true);
    this.#checkMs = options.checkMs;
    const form = new PlainForm(options);
    this.#host = {
      server,
      form,
      request: new FastRequest(new Head(), form),
      writer: new ResponseWriter(() => server.keepAliveTimeout, { clock }),
      handle: (request) => {
        const isHandled = handle(request);
        if (isHandled) this.#counts.handled++;
        return isHandled;
      },
      now: () => this.#checks,
      checkMs: options.checkMs,
      checksOf: (timeMs) => Math.ceil(timeMs / options.checkMs) + 1,
      isClosing: () => this.#isClosing,
      firstByteTimeoutMs: options.firstByteTimeoutMs,
      stallTimeoutMs: () => options.stallTimeoutMs ?? server.timeout,
      allowsHalfOpen: options.allowHalfOpen ?? true,
      reserve: (bytes) => {
        if (this.#held + bytes > options.maxHeldBytes || heldBytes?.acquire(bytes) === false) return false;
        this.#held += bytes;
        return true;
      },
      release: (bytes) => {
        this.#held -= bytes;
        heldBytes?.release(bytes);
      },
      flush: (connection) => this.#defer(connection),
      left: (connection, isHandedOver) => {
        this.#connections.delete(connection);
        if (isHandedOver) this.#counts.handedOver++;
      },
    };
    this.net = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => this.#accept(socket));
    this.net.on("listening", () => this.#start());
  }

  get counts(): FastListenerCounts {
    return this.#counts;
  }

  /** Connections that are on the fast way. */
  get size(): number {
    return this.#connections.size;
  }

  /** Bytes that are held of requests that are not whole. */
  get heldBytes(): number {
    return this.#held;
  }

  /** Applies the time-outs. Called by a timer; tests call it themselves. */
  check(): void {
    this.#checks++;
    for (const connection of this.#connections) connection.check();
  }

  /**
   * Takes no more connections. Idle ones end, and those under way with their next response, which says so. Resolves when
   * all have ended, those of the server too.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    const closed = new Promise<void>((resolve) => this.net.close(() => resolve()));
    // First, since it ends its idle connections, and for it one that is handed over now is idle.
    this.#server.close();
    for (const connection of this.#connections) connection.close();
    await closed;
    clearInterval(this.#timer);
  }

  /** Closes all connections at once, those of the server too. */
  closeAllConnections(): void {
    // What was answered is written first.
    this.#flush();
    for (const { socket } of this.#connections) socket.destroy();
    this.#server.closeAllConnections();
  }

  #start(): void {
    this.#timer = setInterval(() => this.check(), this.#checkMs);
    this.#timer.unref();
    // With this event the server begins to watch its connections: without it no head would be timed.
    this.#server.emit("listening");
  }

  #accept(socket: Socket): void {
    let connection: FastConnection | undefined;
    const idleMs = (): number | undefined => (connection === undefined ? 0 : connection.idleMs);
    // Read here and not by `net`, since the server's bound may change while it runs.
    if (this.#open >= (this.#server.maxConnections ?? Number.POSITIVE_INFINITY) || !this.#admit(socket, idleMs)) {
      socket.on("error", () => {});
      socket.destroy();
      return;
    }
    this.#open++;
    socket.once("close", () => this.#open--);
    this.#counts.accepted++;
    connection = new FastConnection(socket, this.#host);
    this.#connections.add(connection);
  }

  #defer(connection: FastConnection): void {
    if (this.#waiting.length === 0) setImmediate(() => this.#flush());
    this.#waiting.push(connection);
  }

  #flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const connection of waiting) connection.flush();
  }
}
