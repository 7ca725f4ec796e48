import { EventEmitter } from "node:events";
import { constants, type Http2Session, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { type Clock, systemClock } from "./clock.ts";
import type { ConnectionGuard } from "./connection-guard.ts";
import { AppError } from "./errors.ts";
import { FaultLogThrottle } from "./fault-log-throttle.ts";
import type { Log } from "./log.ts";

/** Frames that cost a server more than their client: a burst, and as many a second thereafter. */
interface FrameRate {
  readonly burst: number;
  readonly perSecond: number;
}

export interface Http2GuardOptions {
  /**
   * Reset streams, pings and settings of one connection. 1,000 and 100 a second by default: clients of gRPC ping once for each
   * data that they measure, and cancel what they do not wait for. Of reset streams, a connection has a burst of 100 at most
   * before its first complete one: as many as a client may open before it has the server's settings.
   */
  readonly perConnection?: FrameRate;
  /** The same of all connections of one client; 4,000 and 400 a second by default. */
  readonly perClient?: FrameRate;
  /** Time for a connection's first SETTINGS, which follow the preface; 10,000 by default. */
  readonly headTimeoutMs?: number;
  /** Time after which a connection without a stream is closed; 60,000 by default. */
  readonly idleTimeoutMs?: number;
  /**
   * Time after which a stream is reset of whose waiting bytes the client has read nothing, such as one whose flow control lets
   * nothing pass; 60,000 by default. Its connection is closed when the reset does not end it.
   */
  readonly stallTimeoutMs?: number;
}

export interface Http2GuardModules {
  readonly guard: ConnectionGuard;
  readonly log: Log;
  readonly clock?: Pick<Clock, "monotonicMs">;
  /** Called for each fault of a connection that would have ended the process. */
  readonly onFault?: (error: unknown) => void;
}

const HEAD_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 60_000;
const STALL_TIMEOUT_MS = 60_000;
const CHECK_MS = 1_000;
const PIECE_BYTES = 65_536;
const PER_CONNECTION: FrameRate = { burst: 1_000, perSecond: 100 };
const PER_CLIENT: FrameRate = { burst: 4_000, perSecond: 400 };
const FRAME_FAULTS: ReadonlySet<string> = new Set(["ERR_HTTP2_ERROR", "ERR_HTTP2_TOO_MANY_INVALID_FRAMES"]);
/** Burst of reset streams of a connection without a complete one. */
const UNPROVEN_BURST = 100;
/** Part of a client's burst that a flood costs it: a connection of its own costs more than the frames that were counted. */
const FLOOD_SHARE = 0.25;
/** A client whose tokens are spent is refused until this part of its burst is refilled. */
const REFUSED_SHARE = 0.5;
/** Time after a flood in which a client may have few connections without a complete stream. */
const SUSPECT_MS = 60_000;
/** All of them are accepted before the first is read, and each is read a buffer at a time. */
const MAX_SUSPECT_CONNECTIONS = 4;
/** Clients whose frames are counted; the ones that were added first are dropped. */
const MAX_CLIENTS = 10_000;

/** Tokens that refill with time. */
class Tokens {
  readonly #rate: FrameRate;
  #tokens: number;
  #atMs: number;

  constructor(rate: FrameRate, nowMs: number) {
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#atMs = nowMs;
  }

  #refill(nowMs: number): void {
    const { burst, perSecond } = this.#rate;
    this.#tokens = Math.min(burst, this.#tokens + ((nowMs - this.#atMs) * perSecond) / 1_000);
    this.#atMs = nowMs;
  }

  /** Returns false when there is no token. */
  take(nowMs: number): boolean {
    this.#refill(nowMs);
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** Takes a share of the burst, or what there is. */
  takeShare(nowMs: number, share: number): void {
    this.#refill(nowMs);
    this.#tokens = Math.max(0, this.#tokens - share * this.#rate.burst);
  }

  /** True when less than a share of the burst is there. */
  isBelow(nowMs: number, share: number): boolean {
    this.#refill(nowMs);
    return this.#tokens < Math.max(1, share * this.#rate.burst);
  }
}

/** Frames and floods of one client. */
class Client {
  readonly tokens: Tokens;
  /** Its sessions without a complete stream. */
  readonly unproven = new Set<ServerHttp2Session>();
  #isRefused = false;
  #floodedAtMs = Number.NEGATIVE_INFINITY;

  constructor(rate: FrameRate, nowMs: number) {
    this.tokens = new Tokens(rate, nowMs);
  }

  /** Counts a flood. Returns true when the client has no tokens any more. */
  flooded(nowMs: number): boolean {
    this.#floodedAtMs = nowMs;
    this.tokens.takeShare(nowMs, FLOOD_SHARE);
    this.#isRefused ||= this.tokens.isBelow(nowMs, 0);
    return this.#isRefused;
  }

  /** True while its connections are closed before they are read. */
  isRefused(nowMs: number): boolean {
    if (this.#isRefused && !this.tokens.isBelow(nowMs, REFUSED_SHARE)) this.#isRefused = false;
    return this.#isRefused;
  }

  /** True when it has flooded lately, and has as many connections without a complete stream as it may have since. */
  isFullSuspect(nowMs: number): boolean {
    return nowMs - this.#floodedAtMs < SUSPECT_MS && this.unproven.size >= MAX_SUSPECT_CONNECTIONS;
  }
}

/** Bytes of one stream that wait to be written, as they were at a time. */
interface Backlog {
  bytes: number;
  sinceMs: number;
  /** Writes that were complete at that time, and are now. */
  seenWrites: number;
  writes: number;
  isReset: boolean;
}

type WriteCallback = (error?: Error | null) => void;

/**
 * Writes large chunks of a stream in pieces, so that its client's progress shows. Only for streams with trailers: without them Node
 * ends a stream whose `end` was called after the write under way, which may be any piece.
 */
function writeInPieces(stream: ServerHttp2Stream, onWritten: () => void): void {
  const write = stream._write.bind(stream);
  const writev = stream._writev?.bind(stream);
  const writeChunk = (chunk: unknown, encoding: BufferEncoding, callback: WriteCallback): void => {
    const done: WriteCallback = (error) => {
      onWritten();
      callback(error);
    };
    if (!Buffer.isBuffer(chunk) || chunk.length <= PIECE_BYTES) {
      write(chunk, encoding, done);
      return;
    }
    let writtenBytes = 0;
    const writePiece: WriteCallback = (error) => {
      onWritten();
      if ((error !== undefined && error !== null) || writtenBytes >= chunk.length) {
        callback(error);
        return;
      }
      const piece = chunk.subarray(writtenBytes, writtenBytes + PIECE_BYTES);
      writtenBytes += piece.length;
      write(piece, encoding, writePiece);
    };
    writePiece();
  };
  stream._write = writeChunk;
  stream._writev = (chunks, callback) => {
    if (writev !== undefined && chunks.every(({ chunk }) => chunk.length <= PIECE_BYTES)) {
      writev(chunks, (error) => {
        onWritten();
        callback(error);
      });
      return;
    }
    let at = 0;
    const next: WriteCallback = (error) => {
      const entry = chunks[at++];
      if ((error !== undefined && error !== null) || entry === undefined) callback(error);
      else writeChunk(entry.chunk, entry.encoding, next);
    };
    next();
  };
}

/** State of one session. */
interface Watched {
  readonly tokens: Tokens;
  /** Its reset streams before the first complete one; undefined after that. */
  firstResets: Tokens | undefined;
  /** Undefined: a trusted proxy's. */
  readonly client: Client | undefined;
  readonly startedMs: number;
  readonly streams: Map<ServerHttp2Stream, Backlog>;
  idleSinceMs: number;
  hasSettings: boolean;
}

/**
 * Watches the sessions of an HTTP/2 server: bounds their streams that are reset (RFC 9113 §10.5; CVE-2023-44487, and
 * CVE-2025-8671 for those that the server resets), pings and settings, ends what is idle, and keeps faults of a connection
 * within it.
 */
export class Http2Guard implements Disposable {
  readonly #options: Http2GuardOptions;
  readonly #modules: Http2GuardModules;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #sessions = new Map<ServerHttp2Session, Watched>();
  readonly #bySocket = new WeakMap<Socket, Watched>();
  readonly #clients = new Map<string, Client>();
  readonly #faultLog: FaultLogThrottle;
  readonly #timer: NodeJS.Timeout;
  readonly #headTimeoutMs: number;
  readonly #idleTimeoutMs: number;
  readonly #stallTimeoutMs: number;
  /** True when all streams that are written to have trailers. */
  #hasTrailers = false;
  /** Connection whose session begins in this call. */
  #accepting: Socket | undefined;

  constructor(options: Http2GuardOptions, modules: Http2GuardModules) {
    this.#options = options;
    this.#headTimeoutMs = options.headTimeoutMs ?? HEAD_TIMEOUT_MS;
    this.#idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS;
    this.#stallTimeoutMs = options.stallTimeoutMs ?? STALL_TIMEOUT_MS;
    this.#modules = modules;
    this.#clock = modules.clock ?? systemClock;
    this.#faultLog = new FaultLogThrottle(this.#clock);
    // A server that accepts the connections in place of this one reads their first bytes before they come here.
    modules.guard.refuseFlooding((key) => this.#clients.get(key)?.isRefused(this.#clock.monotonicMs()) === true);
    const checkMs = Math.min(CHECK_MS, this.#headTimeoutMs, this.#idleTimeoutMs, this.#stallTimeoutMs);
    this.#timer = setInterval(() => this.check(), checkMs).unref();
  }

  /** Sessions that are open. */
  get size(): number {
    return this.#sessions.size;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Ends all connections at once: the gRPC library does not know them when it does not count them. */
  closeAllConnections(): void {
    for (const session of this.#sessions.keys()) session.destroy();
  }

  /** Puts itself before the listeners that a server of HTTP/2 has by now. */
  watch(server: EventEmitter): void {
    this.#contain(server, "session", (session) => session as Http2Session);
    this.#contain(server, "stream", (stream) => (stream as ServerHttp2Stream).session);
    server.prependListener("session", (session: ServerHttp2Session) => this.#begin(session));
    const listeners = server.listeners("connection") as ((socket: Socket) => void)[];
    server.removeAllListeners("connection");
    server.on("connection", (socket: Socket) => this.#accept(socket, server, listeners));
  }

  /** {@link watch} for a server of `@grpc/grpc-js`, which gives no access to those below it. @throws AppError INTERNAL */
  watchGrpc(server: object): void {
    const below: unknown = Reflect.get(server, "http2Servers");
    const servers = below instanceof Map ? [...below.keys()].filter((each) => each instanceof EventEmitter) : [];
    if (servers.length === 0) throw new AppError("INTERNAL", { message: "The gRPC library has no HTTP/2 servers." });
    // The library sends trailers after each response with data.
    this.#hasTrailers = true;
    for (const each of servers) this.watch(each);
  }

  /** Applies the time-outs. Called by a timer; tests call it themselves. */
  check(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [session, watched] of this.#sessions) {
      if (!watched.hasSettings && nowMs - watched.startedMs >= this.#headTimeoutMs) session.destroy();
      else if (!this.#resetStalled(watched, nowMs)) session.destroy();
      else if (watched.streams.size === 0 && nowMs - watched.idleSinceMs >= this.#idleTimeoutMs) {
        // The head of a stream that is not whole holds it open: then the next check ends it.
        if (session.closed) session.destroy();
        else session.close();
      }
    }
  }

  /**
   * Resets streams whose clients have read nothing of their waiting bytes for so long: a proxy's connection has many clients'
   * streams. Returns false when a stream has not ended since it was reset: the connection itself lets nothing pass.
   */
  #resetStalled({ streams }: Watched, nowMs: number): boolean {
    for (const [stream, backlog] of streams) {
      const { writableLength } = stream;
      const isProgress = writableLength < backlog.bytes || backlog.writes > backlog.seenWrites;
      if (backlog.isReset) return false;
      if (writableLength === 0 || backlog.bytes === 0 || isProgress) {
        backlog.bytes = writableLength;
        backlog.sinceMs = nowMs;
        backlog.seenWrites = backlog.writes;
      } else if (nowMs - backlog.sinceMs >= this.#stallTimeoutMs) {
        backlog.isReset = true;
        stream.close(constants.NGHTTP2_CANCEL);
      }
    }
    return true;
  }

  #accept(socket: Socket, server: EventEmitter, listeners: readonly ((socket: Socket) => void)[]): void {
    const nowMs = this.#clock.monotonicMs();
    const { guard } = this.#modules;
    const client = this.#clients.get(guard.clientOf(socket) ?? "");
    const isFlooded = client?.isRefused(nowMs) === true || client?.isFullSuspect(nowMs) === true;
    const idleMs = (): number | undefined => this.#idleMs(socket, nowMs);
    if (isFlooded) guard.countFlood();
    if (isFlooded || !guard.admit(socket, idleMs)) {
      socket.on("error", () => {});
      socket.destroy();
      return;
    }
    this.#accepting = socket;
    try {
      for (const listener of listeners) listener.call(server, socket);
    } catch (error) {
      this.#fault(error);
      socket.destroy();
    } finally {
      this.#accepting = undefined;
    }
  }

  #idleMs(socket: Socket, acceptedMs: number): number | undefined {
    const watched = this.#bySocket.get(socket);
    if (watched !== undefined && watched.streams.size > 0) return undefined;
    return this.#clock.monotonicMs() - (watched?.idleSinceMs ?? acceptedMs);
  }

  #contain(server: EventEmitter, event: string, sessionOf: (subject: unknown) => Http2Session | undefined): void {
    const listeners = server.listeners(event);
    server.removeAllListeners(event);
    for (const listener of listeners) {
      server.on(event, (...args: unknown[]) => {
        try {
          Reflect.apply(listener, server, args);
        } catch (error) {
          this.#fault(error);
          sessionOf(args[0])?.destroy();
        }
      });
    }
  }

  #fault(error: unknown): void {
    const { log, onFault } = this.#modules;
    onFault?.(error);
    if (this.#faultLog.onFailure()) log.warn({ error }, "a connection ended by a fault of its frames");
  }

  #begin(session: ServerHttp2Session): void {
    const { guard } = this.#modules;
    const nowMs = this.#clock.monotonicMs();
    const rate = this.#options.perConnection ?? PER_CONNECTION;
    const socket = this.#accepting;
    const client = socket === undefined ? undefined : this.#clientOf(guard.clientOf(socket), nowMs);
    const watched: Watched = {
      tokens: new Tokens(rate, nowMs),
      firstResets: new Tokens({ ...rate, burst: Math.min(rate.burst, UNPROVEN_BURST) }, nowMs),
      client,
      startedMs: nowMs,
      streams: new Map(),
      idleSinceMs: nowMs,
      hasSettings: false,
    };
    this.#sessions.set(session, watched);
    if (socket !== undefined) this.#bySocket.set(socket, watched);
    client?.unproven.add(session);
    session.once("close", () => {
      this.#sessions.delete(session);
      client?.unproven.delete(session);
    });
    // The library has bounds of its own for resets and invalid frames, and may come to them within one buffer.
    session.on("error", (error: NodeJS.ErrnoException) => {
      if (!FRAME_FAULTS.has(error.code ?? "")) return;
      // A connection that never was HTTP/2, such as a health check by HTTP/1, is one mistake of its client.
      if (watched.hasSettings) this.#flooded(watched);
      else watched.client?.tokens.take(this.#clock.monotonicMs());
    });
    const count = (): void => this.#count(session, watched);
    session.on("ping", count);
    session.on("remoteSettings", () => {
      watched.hasSettings = true;
      count();
    });
    session.prependListener("stream", (stream: ServerHttp2Stream) => this.#beginStream(session, stream, watched));
  }

  #beginStream(session: ServerHttp2Session, stream: ServerHttp2Stream, watched: Watched): void {
    const backlog: Backlog = { bytes: 0, sinceMs: 0, seenWrites: 0, writes: 0, isReset: false };
    watched.streams.set(stream, backlog);
    if (this.#hasTrailers) writeInPieces(stream, () => backlog.writes++);
    // Its faults are those of its frames; the server's own listener may come too late for the first one.
    stream.on("error", () => {});
    stream.once("close", () => {
      watched.streams.delete(stream);
      watched.idleSinceMs = this.#clock.monotonicMs();
      if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) this.#count(session, watched, watched.firstResets);
      else if (watched.firstResets !== undefined) this.#prove(session, watched);
    });
  }

  #prove(session: ServerHttp2Session, watched: Watched): void {
    watched.firstResets = undefined;
    watched.client?.unproven.delete(session);
  }

  #clientOf(key: string | undefined, nowMs: number): Client | undefined {
    if (key === undefined) return undefined;
    const client = this.#clients.get(key);
    if (client !== undefined) return client;
    for (const first of this.#clients.keys()) {
      if (this.#clients.size < MAX_CLIENTS) break;
      this.#clients.delete(first);
    }
    const fresh = new Client(this.#options.perClient ?? PER_CLIENT, nowMs);
    this.#clients.set(key, fresh);
    return fresh;
  }

  /** Counts a frame against each bound that it has. */
  #count(session: ServerHttp2Session, watched: Watched, firstResets?: Tokens): void {
    if (session.destroyed) return;
    const nowMs = this.#clock.monotonicMs();
    if ([firstResets, watched.tokens, watched.client?.tokens].every((tokens) => tokens?.take(nowMs) !== false)) return;
    session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    this.#flooded(watched);
  }

  /** A session has ended by its frames. When its client has no tokens left, what was accepted with it is not read. */
  #flooded({ client }: Watched): void {
    const { guard } = this.#modules;
    guard.countFlood();
    if (client?.flooded(this.#clock.monotonicMs()) !== true) return;
    for (const session of client.unproven) {
      // The first stream of a session of another behind the same address may be under way.
      if (session.destroyed || (this.#sessions.get(session)?.streams.size ?? 0) > 0) continue;
      session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
      guard.countFlood();
    }
  }
}
