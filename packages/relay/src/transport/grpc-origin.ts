import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls, TLSSocket } from "node:tls";
import type { Deadlines } from "@turnpike/base";

interface GrpcOriginOptions {
  /** Scheme, host and port: `https` with TLS, `http` without. */
  readonly name: string;
  /** Calls at once; more wait. */
  readonly maxCalls: number;
  readonly connectTimeoutMs: number;
  /** A connection without a call is closed after this time. */
  readonly idleTimeoutMs: number;
}

interface GrpcOriginModules {
  readonly deadlines: Deadlines;
  /** Resolves the host; undefined: as the system does. */
  readonly lookup: LookupFunction | undefined;
}

/** One HTTP/2 connection to an origin. */
export interface GrpcLink {
  readonly session: ClientHttp2Session;
  /** Calls under way on it. */
  calls: number;
  hasServed: boolean;
  /** True: it gets no further call, and is closed with the last one on it. */
  isRetired: boolean;
}

/** Gets a connection with room for one call; undefined: there is none to be had. */
export type LinkTaker = (link: GrpcLink | undefined) => void;

/** Connections to one origin that take calls. */
const MAX_LINKS = 4;
/** Calls on one connection, where its server allows as many. */
const MAX_CALLS_PER_LINK = 100;
/** What a server may send before it was read: of one answer, and on one connection. */
const STREAM_WINDOW_BYTES = 1_048_576;
const LINK_WINDOW_BYTES = 4 * 1_048_576;
/** Megabytes that one connection may hold; requests that are written count too. */
const MAX_LINK_MEGABYTES = 64;
const MAX_HEADER_BYTES = 16_384;

/**
 * The HTTP/2 connections to one origin: opened when calls need them, few, and closed when they are idle. A server that is
 * about to close one (GOAWAY) gets no further call on it.
 */
export class GrpcOrigin {
  readonly name: string;
  /** Back-ends at it. */
  users = 1;
  readonly #options: GrpcOriginOptions;
  readonly #modules: GrpcOriginModules;
  /** Those that take calls. */
  readonly #links = new Set<GrpcLink>();
  /** The one that is about to be one of them. */
  #opening: Socket | undefined;
  readonly #sessions = new Set<ClientHttp2Session>();
  readonly #waiting = new Set<{ readonly take: LinkTaker }>();
  #calls = 0;
  #isClosed = false;

  constructor(options: GrpcOriginOptions, modules: GrpcOriginModules) {
    this.name = options.name;
    this.#options = options;
    this.#modules = modules;
  }

  /** Gives a connection to a call, in its turn, perhaps at once. Returns what ends the wait for it. */
  acquire(take: LinkTaker): () => void {
    if (this.#isClosed) {
      take(undefined);
      return () => undefined;
    }
    const waiter = { take };
    this.#waiting.add(waiter);
    this.#assign();
    return () => void this.#waiting.delete(waiter);
  }

  /** A call has ended. */
  release(link: GrpcLink): void {
    link.calls--;
    this.#calls--;
    if (link.isRetired && link.calls === 0) link.session.destroy();
    this.#assign();
  }

  /** A connection gets no further call. */
  retire(link: GrpcLink): void {
    if (link.isRetired) return;
    link.isRetired = true;
    this.#links.delete(link);
    if (link.calls === 0) link.session.destroy();
    // Where connections are closed unused, another one is of no use.
    if (!link.hasServed && this.#links.size === 0 && this.#opening === undefined) this.#refuseWaiting();
    this.#assign();
  }

  /** No further call; those under way go on to their end. */
  close(): void {
    this.#isClosed = true;
    this.#refuseWaiting();
    for (const link of this.#links) this.retire(link);
  }

  /** Ends all connections, and what runs on them. */
  destroy(): void {
    this.close();
    this.#opening?.destroy();
    for (const session of this.#sessions) session.destroy();
  }

  #assign(): void {
    while (this.#waiting.size > 0 && this.#calls < this.#options.maxCalls) {
      const link = this.#free();
      const [first] = this.#waiting;
      if (link === undefined || first === undefined) break;
      this.#waiting.delete(first);
      link.calls++;
      link.hasServed = true;
      this.#calls++;
      first.take(link);
    }
    const mayCall = this.#waiting.size > 0 && this.#calls < this.#options.maxCalls;
    if (!mayCall || this.#isClosed || this.#opening !== undefined || this.#links.size >= MAX_LINKS) return;
    // A server that allows no call on one connection allows none on another.
    if ([...this.#links].every(({ calls }) => calls > 0)) this.#open();
  }

  /** Of the connections with room that with the fewest calls. */
  #free(): GrpcLink | undefined {
    let best: GrpcLink | undefined;
    for (const link of this.#links) {
      if (best !== undefined && best.calls <= link.calls) continue;
      const { maxConcurrentStreams = MAX_CALLS_PER_LINK } = link.session.remoteSettings;
      if (link.calls < Math.min(maxConcurrentStreams, MAX_CALLS_PER_LINK)) best = link;
    }
    return best;
  }

  #open(): void {
    const { deadlines } = this.#modules;
    const socket = this.#connect();
    this.#opening = socket;
    const late = deadlines.after(this.#options.connectTimeoutMs, () => socket.destroy());
    const opened = (): void => {
      deadlines.cancel(late);
      this.#opening = undefined;
    };
    // An error without a listener would end the process.
    socket.on("error", () => undefined);
    socket.once("close", () => {
      if (this.#opening !== socket) return;
      opened();
      // Calls that others of its connections have room for later still wait.
      if (this.#links.size === 0) this.#refuseWaiting();
    });
    // @NOTE HTTP/2 begins on a socket that is connected: given one that is destroyed as it connects, Node aborts the process.
    if (!(socket instanceof TLSSocket)) socket.once("connect", () => this.#begin(socket, opened));
    else {
      socket.once("secureConnect", () => {
        if (socket.alpnProtocol === "h2") this.#begin(socket, opened);
        else socket.destroy();
      });
    }
  }

  #begin(socket: Socket, opened: () => void): void {
    const session = connectHttp2(this.name, {
      createConnection: () => socket,
      maxSessionMemory: MAX_LINK_MEGABYTES,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES, maxHeaderListSize: MAX_HEADER_BYTES },
    });
    const link: GrpcLink = { session, calls: 0, hasServed: false, isRetired: false };
    this.#sessions.add(session);
    session.once("connect", () => session.setLocalWindowSize(LINK_WINDOW_BYTES));
    // What its server sends first: before it, how many calls it takes is not known, nor that it speaks HTTP/2 at all.
    session.once("remoteSettings", () => {
      if (link.isRetired) return;
      opened();
      this.#links.add(link);
      if (this.#isClosed) this.retire(link);
      else this.#assign();
    });
    session.on("remoteSettings", () => this.#assign());
    session.on("goaway", () => this.retire(link));
    session.setTimeout(this.#options.idleTimeoutMs, () => {
      if (link.calls === 0) this.retire(link);
    });
    // Each call sees by its own stream that its connection is gone.
    session.on("error", () => undefined);
    session.once("close", () => {
      this.#sessions.delete(session);
      this.retire(link);
      socket.destroy();
    });
  }

  #connect(): Socket {
    const { protocol, hostname, port } = new URL(this.name);
    const host = hostname.replace(/^\[|\]$/g, "");
    const { lookup } = this.#modules;
    const isTls = protocol === "https:";
    const target = {
      host,
      port: port === "" ? (isTls ? 443 : 80) : Number(port),
      ...(lookup === undefined ? {} : { lookup }),
    };
    const socket = isTls
      ? connectTls({ ...target, ALPNProtocols: ["h2"], ...(isIP(host) === 0 ? { servername: host } : {}) })
      : connectTcp(target);
    return socket.setNoDelay(true);
  }

  #refuseWaiting(): void {
    const refused = [...this.#waiting];
    this.#waiting.clear();
    for (const { take } of refused) take(undefined);
  }
}
