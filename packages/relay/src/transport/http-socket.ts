import type { LookupFunction } from "node:net";
import { WebSocket } from "ws";
import type { SocketHandlers, SocketRequest, TransportFailure, TransportSocket } from "./transport.ts";

const UNREACHED: TransportFailure = { ok: false, blame: "wire", reason: "connection", isNotSent: true };
const ABORTED: TransportFailure = { ok: false, blame: "client", reason: "aborted", isNotSent: true };

/** How a WebSocket is opened. */
export interface OpenSocketOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** True: text messages may hold any bytes. */
  readonly isRaw?: boolean;
  /** Resolves the host; by default as the system does. */
  readonly lookup?: LookupFunction | undefined;
}

/** Opens a WebSocket by its URL. Never rejects. */
export function openWebSocket(
  { url, headers, isRaw = false, lookup }: OpenSocketOptions,
  { timeoutMs, maxMessageBytes, signal }: SocketRequest,
): Promise<TransportSocket | TransportFailure> {
  const { promise, resolve } = Promise.withResolvers<TransportSocket | TransportFailure>();
  if (signal?.aborted === true) return Promise.resolve(ABORTED);
  const socket = new WebSocket(url, {
    handshakeTimeout: timeoutMs,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
    skipUTF8Validation: isRaw,
    headers: { "user-agent": "turnpike", ...headers },
    ...(lookup === undefined ? {} : { lookup }),
  });
  const end = (result: TransportSocket | TransportFailure): void => {
    signal?.removeEventListener("abort", onAbort);
    resolve(result);
  };
  const onAbort = (): void => socket.terminate();
  const failed = (): void => end(signal?.aborted === true ? ABORTED : UNREACHED);
  signal?.addEventListener("abort", onAbort, { once: true });
  // The error listener stays: an error without one would end the process.
  socket.on("error", failed);
  socket.once("close", failed);
  socket.once("open", () => {
    // Until it is listened to: what a supplier sends at once must not be lost.
    socket.pause();
    end(new HttpSocket(socket));
  });
  return promise;
}

class HttpSocket implements TransportSocket {
  readonly ok = true;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  listen(handlers: SocketHandlers): void {
    this.#socket.on("message", (bytes: Buffer) => handlers.message(bytes));
    this.#socket.on("pong", () => handlers.pong());
    this.#socket.on("close", (code) => handlers.closed(code));
    this.#socket.resume();
  }

  send(text: string | Uint8Array): void {
    this.#socket.send(text, { binary: false });
  }

  ping(): void {
    this.#socket.ping();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  terminate(): void {
    this.#socket.terminate();
  }
}
