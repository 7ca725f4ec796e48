import { isRecord } from "@turnpike/base";
import { findMembers, type MemberSpan } from "../members.ts";
import type { SupplierEndpoint, TransportSocket } from "../transport/transport.ts";

/** Why a WebSocket to a supplier ended. */
export type LossReason =
  | "closed"
  | "silent"
  | "garbage"
  | "flooded"
  | "stalled"
  | "cancelled"
  | "gap"
  | "refused"
  | "behind"
  | "drained"
  | "wrong_chain";

/** A message of a supplier. */
export interface UpstreamMessage {
  readonly bytes: Buffer;
  readonly value: Readonly<Record<string, unknown>>;
  readonly members: ReadonlyMap<string, MemberSpan>;
}

/** How a call over a WebSocket ended. `raw` is the JSON text of the result or of the error object. */
export type CallOutcome =
  | { readonly kind: "result" | "error"; readonly value: unknown; readonly raw: string }
  | { readonly kind: "lost" }
  | { readonly kind: "timeout" };

interface UpstreamOptions {
  readonly endpoint: SupplierEndpoint;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly pingIntervalMs: number;
}

/** What is done with what a supplier sends. */
export interface UpstreamHandlers {
  /** A message that answers no call. */
  event(message: UpstreamMessage): void;
  /** Called once; not after `close`. */
  lost(reason: LossReason): void;
}

interface Pending {
  readonly settle: (outcome: CallOutcome) => void;
  readonly timer: NodeJS.Timeout;
}

/** The text of a member's value. */
export function rawOf(message: UpstreamMessage, key: string): string | undefined {
  const span = message.members.get(key);
  return span === undefined ? undefined : message.bytes.toString("utf8", span.start, span.end);
}

/** Opens a WebSocket to a supplier; undefined when it cannot be had in time, or the signal ended it. */
export async function connectSocket(
  options: Pick<UpstreamOptions, "endpoint" | "connectTimeoutMs" | "maxMessageBytes">,
  signal?: AbortSignal,
): Promise<TransportSocket | undefined> {
  const { endpoint, connectTimeoutMs: timeoutMs, maxMessageBytes } = options;
  const opened = await endpoint.transport.openSocket(endpoint, {
    purpose: "client",
    timeoutMs,
    maxMessageBytes,
    signal,
  });
  return opened.ok ? opened : undefined;
}

/** A WebSocket to a supplier that speaks JSON-RPC: answers to calls, and events. */
export class UpstreamSocket {
  readonly endpoint: SupplierEndpoint;
  readonly #socket: TransportSocket;
  readonly #callTimeoutMs: number;
  readonly #handlers: UpstreamHandlers;
  readonly #pending = new Map<number, Pending>();
  readonly #ping: NodeJS.Timeout;
  #nextId = 0;
  #isOver = false;
  #unanswered = 0;

  constructor(socket: TransportSocket, options: UpstreamOptions, handlers: UpstreamHandlers) {
    this.endpoint = options.endpoint;
    this.#socket = socket;
    this.#callTimeoutMs = options.callTimeoutMs;
    this.#handlers = handlers;
    this.#ping = setInterval(() => {
      if (++this.#unanswered > 2) this.fail("silent");
      else socket.ping();
    }, options.pingIntervalMs);
    this.#ping.unref();
    socket.listen({
      message: (bytes) => {
        this.#unanswered = 0;
        this.#receive(bytes);
      },
      pong: () => {
        this.#unanswered = 0;
      },
      closed: () => this.fail("closed"),
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The id that the next call will have. */
  get nextId(): number {
    return this.#nextId + 1;
  }

  /** Calls a method. Never rejects. */
  call(method: string, params: string, timeoutMs = this.#callTimeoutMs): Promise<CallOutcome> {
    if (this.#isOver) return Promise.resolve({ kind: "lost" });
    const id = ++this.#nextId;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        resolve({ kind: "timeout" });
      }, timeoutMs);
      const settle = (outcome: CallOutcome): void => {
        clearTimeout(timer);
        resolve(outcome);
      };
      this.#pending.set(id, { settle, timer });
      this.#socket.send(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`);
    });
  }

  #receive(bytes: Buffer): void {
    if (this.#isOver) return;
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString("utf8"));
    } catch {
      this.fail("garbage");
      return;
    }
    const members = findMembers(bytes);
    if (members === undefined || !isRecord(value)) {
      this.fail("garbage");
      return;
    }
    const message = { bytes, value, members };
    const pending = typeof value.id === "number" ? this.#pending.get(value.id) : undefined;
    if (pending === undefined || typeof value.id !== "number") {
      this.#handlers.event(message);
      return;
    }
    this.#pending.delete(value.id);
    const hasError = members.has("error") && value.error !== null;
    if (hasError === (members.has("result") && !(hasError && value.result === null))) {
      pending.settle({ kind: "lost" });
      this.fail("garbage");
      return;
    }
    const key = hasError ? "error" : "result";
    pending.settle({ kind: key, value: value[key], raw: rawOf(message, key) ?? "null" });
  }

  /** Ends it for a reason, and calls the handler. */
  fail(reason: LossReason): void {
    if (this.#isOver) return;
    this.#end();
    this.#handlers.lost(reason);
  }

  #end(): void {
    this.#isOver = true;
    clearInterval(this.#ping);
    for (const { settle } of this.#pending.values()) settle({ kind: "lost" });
    this.#pending.clear();
    this.#socket.terminate();
  }

  /** Ends it without a call of the handler. */
  close(): void {
    if (!this.#isOver) this.#end();
  }
}

/** Opens a WebSocket to a supplier; undefined when it cannot be had. */
export async function openUpstream(
  options: UpstreamOptions,
  handlers: UpstreamHandlers,
  signal?: AbortSignal,
): Promise<UpstreamSocket | undefined> {
  const socket = await connectSocket(options, signal);
  if (socket?.isOpen !== true) return undefined;
  return new UpstreamSocket(socket, options, handlers);
}
