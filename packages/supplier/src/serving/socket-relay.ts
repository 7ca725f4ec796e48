import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type EvmRules, evmRefusal, type Log, type Metrics } from "@turnpike/base";
import type { ChainHead } from "@turnpike/chain-client";
import { decodeRelayRequest, encodeHttpResponsePayload, relayBytes } from "@turnpike/protocol";
import { type RawData, WebSocket, WebSocketServer } from "ws";
import type { RelayStore } from "../evidence/relay-store.ts";
import { supplierRelaysRefusedTotal, supplierWebsocketsOpen } from "../serving-metrics.ts";
import { REFUSALS, type Refusal } from "../verification/refusal.ts";
import type { ServedSession } from "../verification/session-keeper.ts";
import { type RelayHandler, unwritten } from "./relay-handler.ts";

/** Close codes that gateways know (interop: WebSocket). */
const CLOSE = {
  sessionExpired: 4000,
  validationFailed: 4001,
  stakeLimit: 4002,
  tooLarge: 1009,
  backEndGone: 1011,
  displaced: 1013,
  rateLimited: 1013,
} as const;
/** Time for clients to answer a close frame when the supplier stops. */
const CLOSE_TIMEOUT_MS = 1_000;
const TOO_LARGE_CODE = "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";

/** A back-end over WebSocket. */
export interface SocketBackEnd {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Largest frame of the back-end. */
  readonly maxAnswerBytes: number;
  /** For an EVM node: frames beyond these are answered here with a JSON-RPC error. */
  readonly evmRules?: EvmRules;
}

interface SocketRelaysOptions {
  /** By service id. */
  readonly backEnds: ReadonlyMap<string, SocketBackEnd>;
  /** Largest frame of a client. */
  readonly maxFrameBytes: number;
  readonly maxSockets: number;
  /** Time for a connection to the back-end. */
  readonly connectTimeoutMs: number;
  /** Bytes of frames that may wait in each direction; then the side that sends them is not read. */
  readonly maxWaitingBytes: number;
}

interface SocketRelaysModules {
  readonly handler: RelayHandler;
  readonly store: Pick<RelayStore, "begin">;
  readonly head: Pick<ChainHead, "newest" | "onBlock">;
  readonly metrics: Metrics;
  readonly log: Log;
}

function bytesOf(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}

/**
 * Relays over WebSocket: each frame of a client is a RelayRequest, each frame of the back-end a signed RelayResponse, and
 * each of these is one relay. The opcode goes through, so a text frame may hold protobuf.
 */
export class SocketRelays implements AsyncDisposable {
  readonly #options: SocketRelaysOptions;
  readonly #modules: SocketRelaysModules;
  readonly #server: WebSocketServer;
  readonly #open = new Set<SocketRelay>();
  readonly #blocks: Disposable;
  #isClosed = false;

  constructor(options: SocketRelaysOptions, modules: SocketRelaysModules) {
    this.#options = options;
    this.#modules = modules;
    this.#server = new WebSocketServer({
      noServer: true,
      maxPayload: options.maxFrameBytes,
      perMessageDeflate: false,
      skipUTF8Validation: true,
    });
    this.#blocks = modules.head.onBlock(({ heightBlocks }) => {
      for (const relay of this.#open) relay.onHeight(heightBlocks);
    });
  }

  /** Takes a connection, or refuses it with an HTTP status. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const id = request.headers["target-service-id"]?.toString() ?? "";
    const backEnd = this.#options.backEnds.get(id);
    const refuse = (status: string): void => {
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    };
    const isRoom = !this.#isClosed && (this.#open.size < this.#options.maxSockets || this.#displace());
    if (backEnd === undefined || !isRoom) {
      refuse(backEnd === undefined ? "404 Not Found" : "503 Service Unavailable");
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (client) => {
      const relay = new SocketRelay(client, backEnd, id, this.#options, {
        ...this.#modules,
        ended: () => {
          this.#open.delete(relay);
          this.#modules.metrics.set(supplierWebsocketsOpen, this.#open.size);
        },
      });
      this.#open.add(relay);
      this.#modules.metrics.set(supplierWebsocketsOpen, this.#open.size);
    });
  }

  /** Ends the connection that has been open longest without a signed request: anyone can open one. False when there is none. */
  #displace(): boolean {
    const idle = [...this.#open].find(({ isProven }) => !isProven);
    void idle?.end(CLOSE.displaced, "too many connections");
    return idle !== undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#blocks[Symbol.dispose]();
    const late = AbortSignal.timeout(CLOSE_TIMEOUT_MS);
    await Promise.all([...this.#open].map((relay) => relay.stop(late)));
    this.#server.close();
  }
}

/** One client's connection and the one to its back-end. */
class SocketRelay {
  readonly #client: WebSocket;
  readonly #target: SocketBackEnd;
  readonly #serviceId: string;
  readonly #options: SocketRelaysOptions;
  readonly #modules: SocketRelaysModules & { readonly ended: () => void };
  /** Frames are handled one after the other in each direction, as signing does not keep their order. */
  #fromClient: Promise<void> = Promise.resolve();
  #toClient: Promise<void> = Promise.resolve();
  #fromClientBytes = 0;
  #toClientBytes = 0;
  /** Connected for the first signed request. */
  #backEnd: WebSocket | undefined;
  #session: ServedSession | undefined;
  /** The newest request: what the back-end sends is an answer to it. */
  #requestBytes: Uint8Array | undefined;
  #isOver = false;

  constructor(
    client: WebSocket,
    target: SocketBackEnd,
    serviceId: string,
    options: SocketRelaysOptions,
    modules: SocketRelaysModules & { readonly ended: () => void },
  ) {
    this.#client = client;
    this.#target = target;
    this.#serviceId = serviceId;
    this.#options = options;
    this.#modules = modules;
    client.on("message", (data, isBinary) => this.#onClientFrame(bytesOf(data), isBinary));
    client.on("close", () => void this.end(1000, "client closed"));
    client.on("error", (cause) => {
      if ("code" in cause && cause.code === TOO_LARGE_CODE) void this.#refuse(REFUSALS.tooLarge);
      else void this.end(1002, "protocol error");
    });
  }

  /** True once it has sent a request that was signed for a session. */
  get isProven(): boolean {
    return this.#session !== undefined;
  }

  /** Ends it once the session is over: grace is for requests, not for connections. */
  onHeight(heightBlocks: bigint): void {
    const session = this.#session;
    if (session === undefined || heightBlocks <= session.header.sessionEndBlockHeight || this.#isOver) return;
    // A client that does not read would hold up its own end.
    const isStuck = this.#client.bufferedAmount > this.#options.maxWaitingBytes;
    if (isStuck) void this.end(CLOSE.sessionExpired, "session expired");
    else this.#toClient = this.#toClient.then(() => this.#expire(session));
  }

  async end(code: number, reason: string): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#modules.ended();
    // Paused, they would not see the other side's answer to the close.
    this.#client.resume();
    this.#backEnd?.resume();
    this.#client.close(code, reason);
    if (this.#backEnd?.readyState === WebSocket.CONNECTING) this.#backEnd.terminate();
    else this.#backEnd?.close(1001, "session ended");
    await Promise.resolve();
  }

  /** Ends it because the supplier stops, at the latest when the signal aborts. */
  async stop(late: AbortSignal): Promise<void> {
    const isClosed = once(this.#client, "close", { signal: late }).catch(() => this.#client.terminate());
    await this.end(1001, "supplier stops");
    await isClosed;
  }

  /** Connects to the back-end. Resolves when it is open; when it fails, the client's connection is ended. */
  async #connect(): Promise<WebSocket> {
    const { url, headers, maxAnswerBytes } = this.#target;
    const backEnd = new WebSocket(url, {
      headers,
      handshakeTimeout: this.#options.connectTimeoutMs,
      maxPayload: maxAnswerBytes,
      perMessageDeflate: false,
      skipUTF8Validation: true,
    });
    this.#backEnd = backEnd;
    backEnd.on("message", (data, isBinary) => this.#onBackEndFrame(bytesOf(data), isBinary));
    backEnd.on("error", (cause) => {
      this.#modules.log.warn({ service: this.#serviceId, cause: cause.message }, "the back-end's WebSocket failed");
    });
    backEnd.on("close", () => this.#onBackEndClose());
    await new Promise<void>((resolve) => {
      backEnd.once("open", resolve);
      backEnd.once("close", () => resolve());
    });
    return backEnd;
  }

  /** What it sent before still goes to the client. */
  #onBackEndClose(): void {
    this.#toClient = this.#toClient.then(() => this.end(CLOSE.backEndGone, "backend closed"));
  }

  #onClientFrame(bytes: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return;
    // What waits here came from one client that does not wait for answers: it is not read until there is room.
    this.#fromClientBytes += bytes.length;
    if (this.#fromClientBytes > this.#options.maxWaitingBytes) this.#client.pause();
    this.#fromClient = this.#fromClient
      .then(() => this.#forward(bytes, isBinary))
      .catch((cause: unknown) => this.#fail(cause))
      .finally(() => {
        this.#fromClientBytes -= bytes.length;
        if (this.#fromClientBytes <= this.#options.maxWaitingBytes) this.#client.resume();
      });
  }

  #fail(cause: unknown): Promise<void> {
    this.#modules.log.error({ cause }, "a WebSocket relay failed");
    return this.end(1011, "internal error");
  }

  async #forward(bytes: Uint8Array, isBinary: boolean): Promise<void> {
    if (this.#isOver) return;
    const request = decodeRelayRequest(bytes);
    if (request?.header?.serviceId !== this.#serviceId) return this.#refuse(REFUSALS.malformed);
    const admitted = await this.#modules.handler.admit(request, bytes);
    if (!admitted.ok) return this.#refuse(admitted.refusal);
    // Work is counted by what the back-end sends: the request itself is none.
    admitted.relay.endUncounted();
    const { session } = admitted.relay;
    this.#session = session;
    const heightBlocks = this.#modules.head.newest?.heightBlocks ?? 0n;
    if (heightBlocks > session.header.sessionEndBlockHeight) return this.#expire(session);
    const { evmRules } = this.#target;
    const refusal = evmRules === undefined ? undefined : evmRefusal(request.payload, evmRules);
    if (refusal !== undefined) {
      this.#requestBytes = bytes;
      // Counted as a relay, as an answer of the back-end is; to notifications alone there is none.
      if (refusal !== "") this.#onBackEndFrame(Buffer.from(refusal), isBinary);
      return;
    }
    const backEnd = this.#backEnd ?? (await this.#connect());
    if (this.#isOver || backEnd.readyState !== WebSocket.OPEN) return;
    this.#requestBytes = bytes;
    await this.#sendOn(backEnd, request.payload, isBinary);
  }

  /** Waits while the other side reads slowly. */
  async #sendOn(socket: WebSocket, bytes: Uint8Array, isBinary: boolean): Promise<void> {
    if (socket.readyState !== WebSocket.OPEN) return;
    const sent = new Promise<void>((resolve) => socket.send(bytes, { binary: isBinary }, () => resolve()));
    if (socket.bufferedAmount > this.#options.maxWaitingBytes) await sent;
  }

  #count({ reason }: Refusal): void {
    this.#modules.metrics.count(supplierRelaysRefusedTotal, { service: this.#serviceId, reason });
  }

  #refuse(refusal: Refusal): Promise<void> {
    const { reason, error } = refusal;
    this.#count(refusal);
    if (reason === "over_limit") return this.end(CLOSE.stakeLimit, "stake limit reached");
    if (reason === "rate_limited") return this.end(CLOSE.rateLimited, error);
    if (reason === "session_expired" || reason === "session_sealed") {
      return this.end(CLOSE.sessionExpired, "session expired");
    }
    if (reason === "too_large") return this.end(CLOSE.tooLarge, error);
    // A close frame has room for 123 bytes.
    return this.end(CLOSE.validationFailed, error.slice(0, 120));
  }

  #onBackEndFrame(payload: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return;
    // It is not read while the client is slow, or signing is.
    this.#toClientBytes += payload.length;
    if (this.#toClientBytes > this.#options.maxWaitingBytes) this.#backEnd?.pause();
    this.#toClient = this.#toClient
      .then(() => this.#answer(payload, isBinary))
      .catch((cause: unknown) => this.#fail(cause))
      .finally(() => {
        this.#toClientBytes -= payload.length;
        if (this.#toClientBytes <= this.#options.maxWaitingBytes) this.#backEnd?.resume();
      });
  }

  async #answer(payload: Uint8Array, isBinary: boolean): Promise<void> {
    const session = this.#session;
    const requestBytes = this.#requestBytes;
    // A back-end that speaks before it is asked answers no relay.
    if (this.#isOver || session === undefined || requestBytes === undefined) return;
    const refusal = await this.#modules.handler.acquireBudget(session);
    if (refusal !== undefined) return this.#refuse(refusal);
    let isRecorded = false;
    try {
      // The client may have gone while the budget was read.
      if (this.#isOver) return;
      const begun = await this.#modules.store.begin(session.operatorAddress, session.header);
      if (!begun.ok) return await this.#endUnwritten(session, begun.fault);
      using inFlight = begun.relay;
      const bytes = await this.#modules.handler.sign(session, payload);
      if (bytes === undefined) {
        this.#count(REFUSALS.overloaded);
        return await this.#failClosed();
      }
      const relay = relayBytes(requestBytes, bytes);
      const appended = relay === undefined ? "full" : await inFlight.append(relay);
      if (appended !== "mined" && appended !== "below-difficulty") return await this.#endUnwritten(session, appended);
      isRecorded = true;
      return await this.#sendOn(this.#client, bytes, isBinary);
    } finally {
      if (!isRecorded) session.budget.release();
    }
  }

  #endUnwritten(session: ServedSession, fault: Parameters<typeof unwritten>[0]): Promise<void> {
    const refusal = unwritten(fault, session.header);
    if (fault === "too-large") return this.#refuse(refusal);
    this.#count(refusal);
    return fault === "sealed" ? this.#expire(session) : this.#failClosed();
  }

  #failClosed(): Promise<void> {
    return this.end(1011, "service temporarily unavailable");
  }

  /** Says in a last response that the session is over, and closes. */
  async #expire(session: ServedSession): Promise<void> {
    if (this.#isOver) return;
    const payload = encodeHttpResponsePayload({
      statusCode: 410,
      headers: [["Content-Type", ["application/json"]]],
      body: Buffer.from('{"error":"session expired"}'),
    });
    const text = "session expired";
    const error = { codespace: "relayer_proxy", code: 410, description: text, message: text };
    const bytes = await this.#modules.handler.sign(session, payload, error);
    if (bytes !== undefined) await this.#sendOn(this.#client, bytes, true);
    await this.end(CLOSE.sessionExpired, "session expired");
  }
}
