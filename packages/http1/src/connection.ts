import { connect as connectTcp, isIP, type LookupFunction, Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from "node:tls";
import { asBuffer } from "@turnpike/base";
import type { PoolRequest, RequestConnection } from "./pool-request.ts";
import { BROKEN, DONE, MORE, type ReadResult, type ResponseFields, ResponseReader } from "./response-reader.ts";

/** What a connection leads to. */
export interface ConnectionTarget {
  readonly host: string;
  readonly port: number;
  readonly lookup: LookupFunction | undefined;
  /** Undefined: without TLS. */
  readonly tls: TlsTarget | undefined;
  readonly connectTimeoutMs: number;
}

/** How the server's certificate is checked. */
export interface TlsTarget {
  /** The name that it must be for; empty: the host, which is an address. */
  readonly servername: string;
  /** Authorities in the place of those that the runtime knows. */
  readonly ca: ConnectionOptions["ca"];
  /** The newest session, for connections after the first. */
  session: Buffer | undefined;
}

/** The pool of a connection, and the events that the connection reports to it. */
export interface ConnectionOwner {
  readonly fields: ResponseFields;
  /** It is made, and free. */
  connected(connection: Connection): void;
  /** It is free again; the server keeps it for `keepAliveMs`, when it says so. */
  released(connection: Connection, keepAliveMs: number | undefined): void;
  /** It has a request to write: {@link Connection.flush} is due at the end of this turn of the event loop. */
  waiting(connection: Connection): void;
  /** It closes before this request of it was written: true when the request waits for another connection. */
  requeued(request: PoolRequest): boolean;
  /** It is gone. */
  lost(connection: Connection): void;
}

/**
 * What all plain sockets are read into. One read is handled before the next begins, and nothing of it is kept; a TLS
 * socket has a buffer of its own, since it may read while it is written to.
 */
const shared = Buffer.allocUnsafeSlow(65_536);
/** Most that one TLS record holds. */
const TLS_RECORD_BYTES = 16_384;
/** Shorter bodies are written as one text with the head, which costs less than two buffers. */
const MAX_JOINED_BYTES = 4_096;
const PROBE_DELAY_MS = 60_000;

/** One connection to a server, which carries one request at a time. */
export class Connection implements RequestConnection {
  readonly #owner: ConnectionOwner;
  readonly #socket: Socket;
  readonly #reader: ResponseReader;
  readonly #timer: NodeJS.Timeout;
  #request: PoolRequest | undefined;
  #isOpen = true;
  #isConnected = false;
  #isPaused = false;
  /** While it is idle: when it is closed, by the pool's clock. */
  idleUntilMs = 0;

  constructor(target: ConnectionTarget, owner: ConnectionOwner) {
    this.#owner = owner;
    this.#reader = new ResponseReader(owner.fields);
    this.#timer = setTimeout(() => this.fail(), target.connectTimeoutMs);
    this.#socket = this.#open(target);
    // All bytes go to `onread`; the stream's own flow has the end of them.
    this.#socket.resume();
    this.#socket.on("error", () => this.fail());
    this.#socket.on("close", () => this.fail());
    this.#socket.on("end", () => this.#ended());
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** A name that is none, or another option that is refused, fails as the connection would. */
  #open(target: ConnectionTarget): Socket {
    try {
      return this.#connect(target);
    } catch (error) {
      return new Socket().destroy(error instanceof Error ? error : undefined);
    }
  }

  #connect({ host, port, lookup, tls }: ConnectionTarget): Socket {
    const buffer = tls === undefined ? shared : Buffer.allocUnsafeSlow(TLS_RECORD_BYTES);
    const options = {
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_DELAY_MS,
      ...(lookup === undefined ? {} : { lookup }),
      onread: {
        buffer,
        callback: (count: number): boolean => {
          this.#read(buffer, count);
          return true;
        },
      },
    };
    if (tls === undefined) return connectTcp(options, () => this.#connected());
    const socket: TLSSocket = connectTls(
      {
        ...options,
        ALPNProtocols: ["http/1.1"],
        servername: tls.servername,
        ...(tls.ca === undefined ? {} : { ca: tls.ca }),
        ...(tls.session === undefined ? {} : { session: tls.session }),
      },
      () => {
        if (socket.alpnProtocol === false || socket.alpnProtocol === "http/1.1") this.#connected();
        else this.fail();
      },
    );
    socket.on("session", (session: Buffer) => {
      tls.session = session;
    });
    return socket;
  }

  #connected(): void {
    if (!this.#isOpen) return;
    clearTimeout(this.#timer);
    this.#isConnected = true;
    this.#owner.connected(this);
  }

  /** Takes a request, to be written by {@link flush}. The connection is connected, and free. */
  send(request: PoolRequest): void {
    this.#request = request;
    request.connection = this;
    this.#reader.begin();
    this.#owner.waiting(this);
  }

  /** Writes the request that it has taken, unless that is over. */
  flush(): void {
    const request = this.#request;
    if (request === undefined) return;
    request.isSent = true;
    write(this.#socket, request);
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  fail(): void {
    if (!this.#isOpen) return;
    const request = this.#release();
    const isRequeued = request !== undefined && this.#owner.requeued(request);
    this.#close();
    if (!isRequeued) request?.fail("connection");
  }

  #close(): void {
    this.#isOpen = false;
    clearTimeout(this.#timer);
    this.#reader.stop();
    this.#socket.destroy();
    this.#owner.lost(this);
  }

  #release(): PoolRequest | undefined {
    const request = this.#request;
    this.#request = undefined;
    if (request !== undefined) request.connection = undefined;
    return request;
  }

  #read(bytes: Buffer, count: number): void {
    if (!this.#isOpen) return;
    const request = this.#request;
    // It was not asked for: the next request would take it for its response.
    if (request === undefined || !request.isSent) {
      this.fail();
      return;
    }
    let result: ReadResult;
    try {
      result = this.#reader.read(bytes, count, request.handler);
    } catch {
      result = BROKEN;
    }
    if (result === MORE) return;
    if (result === DONE) this.#done(request);
    else this.fail();
  }

  #ended(): void {
    const request = this.#request;
    if (this.#isOpen && request !== undefined && this.#reader.end()) this.#done(request);
    else this.fail();
  }

  #done(request: PoolRequest): void {
    this.#release();
    const { mayStay, keepAliveMs } = this.#reader;
    // What is left of a request that was answered early would hold up the next.
    if (mayStay && !request.head.isLast && this.#socket.writableLength === 0) {
      this.resume();
      this.#owner.released(this, keepAliveMs);
    } else this.#close();
    request.isOver = true;
    request.handler.onEnd();
  }
}

/** Writes a request whole: with one system call, unless it is too large for that. */
function write(socket: Socket, { head, body }: PoolRequest): void {
  const { text } = head;
  if (body === undefined) {
    socket.write(head.method === "GET" ? `${text}\r\n` : `${text}content-length: 0\r\n\r\n`, "latin1");
    return;
  }
  const isText = typeof body === "string";
  const length = isText ? Buffer.byteLength(body) : body.length;
  const start = `${text}content-length: ${length}\r\n\r\n`;
  // Each character beyond ASCII has more than one byte.
  if (isText && length === body.length) {
    socket.write(start + body, "latin1");
    return;
  }
  const bytes = isText ? Buffer.from(body) : asBuffer(body);
  if (length <= MAX_JOINED_BYTES) {
    socket.write(start + bytes.toString("latin1"), "latin1");
    return;
  }
  socket.cork();
  socket.write(start, "latin1");
  socket.write(bytes);
  socket.uncork();
}

/** The name to check a host's certificate for; empty for an address. */
export function servernameOf(host: string): string {
  return isIP(host) === 0 ? host : "";
}
